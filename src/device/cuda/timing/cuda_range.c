// cuda_range.c -- names what the host issues for Nsight and other tools that show NVTX ranges. Without such a tool a range
// costs some nanoseconds. Where the toolkit lacks NVTX's header, nothing has a name. Called through device_ops by the
// trainer, around each instruction.
#include "device/cuda/cuda_own.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

void cuda_range_begin(device *d, const char *name, int64_t number)
{
    (void)d;
    const nvtxEventAttributes_t range = {.version = NVTX_VERSION,
                                         .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                         .payloadType = NVTX_PAYLOAD_TYPE_INT64,
                                         .payload.llValue = number,
                                         .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                         .message.ascii = name};
    (void)nvtxRangePushEx(&range);
}

void cuda_range_end(device *d)
{
    (void)d;
    (void)nvtxRangePop();
}

#else

void cuda_range_begin(device *d, const char *name, int64_t number)
{
    (void)d;
    (void)name;
    (void)number;
}

void cuda_range_end(device *d)
{
    (void)d;
}

#endif
