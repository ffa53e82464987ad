// driver_stub.c -- a libcuda.so.1 for machines without a driver, so that cuDNN compiles plans there
// (check_cudnn.c). Modules "load"; all else answers that it is a stub (CUDA_ERROR_STUB_LIBRARY). Nothing
// can be launched. No header declares these functions for us: the library finds them by name.
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { SUCCESS = 0, STUB = 34, DRIVER = 13000 };

static char object[64]; // what handles point to

int cuDriverGetVersion(int *version)
{
    *version = DRIVER;
    return SUCCESS;
}

int cuLibraryLoadData(void **library)
{
    *library = object;
    return SUCCESS;
}

int cuLibraryGetKernel(void **kernel)
{
    *kernel = object;
    return SUCCESS;
}

int cuKernelGetFunction(void **function)
{
    *function = object;
    return SUCCESS;
}

int cuModuleGetFunction(void **function)
{
    *function = object;
    return SUCCESS;
}

// Such as the registers of a kernel.
int cuFuncGetAttribute(int *value)
{
    *value = 64;
    return SUCCESS;
}

int cuGetErrorName(int error, const char **name)
{
    *name = error == STUB ? "CUDA_ERROR_STUB_LIBRARY" : "CUDA_ERROR_UNKNOWN";
    return SUCCESS;
}

int cuGetErrorString(int error, const char **text)
{
    return cuGetErrorName(error, text);
}

#define REFUSED(name)                                                                              \
    int name(void)                                                                                 \
    {                                                                                              \
        return STUB;                                                                               \
    }
REFUSED(cuCtxGetCurrent)
REFUSED(cuCtxGetDevice)
REFUSED(cuCtxGetLimit)
REFUSED(cuCtxPopCurrent)
REFUSED(cuCtxPushCurrent)
REFUSED(cuDeviceGet)
REFUSED(cuDeviceGetAttribute)
REFUSED(cuDeviceGetCount)
REFUSED(cuDevicePrimaryCtxRelease)
REFUSED(cuDevicePrimaryCtxReset)
REFUSED(cuDevicePrimaryCtxRetain)
REFUSED(cuFuncSetAttribute)
REFUSED(cuInit)
REFUSED(cuKernelGetAttribute)
REFUSED(cuKernelSetAttribute)
REFUSED(cuLaunchCooperativeKernel)
REFUSED(cuLaunchKernel)
REFUSED(cuLaunchKernelEx)
REFUSED(cuLibraryLoadFromFile)
REFUSED(cuLibraryUnload)
REFUSED(cuLinkAddData)
REFUSED(cuLinkAddData_v2)
REFUSED(cuLinkAddFile_v2)
REFUSED(cuLinkComplete)
REFUSED(cuLinkCreate)
REFUSED(cuLinkCreate_v2)
REFUSED(cuLinkDestroy)
REFUSED(cuMemcpyDtoH_v2)
REFUSED(cuModuleGetGlobal_v2)
REFUSED(cuModuleLoadData)
REFUSED(cuModuleLoadDataEx)
REFUSED(cuModuleLoadFatBinary)
REFUSED(cuModuleUnload)
REFUSED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSED(cuOccupancyMaxPotentialClusterSize)
REFUSED(cuStreamGetCtx)
REFUSED(cuStreamSynchronize)
REFUSED(cuTensorMapEncodeTiled)
