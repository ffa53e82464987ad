// nvToolsExt.h -- the subset of NVTX 3 that the cuda device uses. NVTX itself is a header, whose functions do nothing
// unless a tool such as Nsight has put its own in their place; these count.
#ifndef TRIREME_STAND_IN_NVTX_H
#define TRIREME_STAND_IN_NVTX_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NVTX_VERSION                  3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE ((uint16_t)sizeof(nvtxEventAttributes_t))

enum { NVTX_PAYLOAD_TYPE_INT64 = 2, NVTX_MESSAGE_TYPE_ASCII = 1 };

typedef union nvtxMessageValue_t {
    const char *ascii;
} nvtxMessageValue_t;

typedef struct nvtxEventAttributes_v2 {
    uint16_t version, size;
    uint32_t category;
    int32_t colorType;
    uint32_t color;
    int32_t payloadType, reserved0;
    union {
        int64_t llValue;
    } payload;
    int32_t messageType;
    nvtxMessageValue_t message;
} nvtxEventAttributes_t;

int nvtxRangePushEx(const nvtxEventAttributes_t *attributes);
int nvtxRangePop(void);

// ---- Of the stand-in: the innermost range of this thread, and how many were begun so far.
const char *stand_in_nvtx_name(int64_t *number);
int stand_in_nvtx_depth(void);
uint64_t stand_in_nvtx_ranges(void);

#ifdef __cplusplus
}
#endif
#endif
