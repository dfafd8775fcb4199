/* As much of CUDA's driver API as the driver uses, in its own names: what NVIDIA's reference says
 * of it. No header of an SDK is needed. Where a function's symbol has a version, it is the one that
 * programs have been linked with since CUDA 4 to 12. */
#ifndef EDGERT_CUDA_API_H
#define EDGERT_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define CUDAAPI __stdcall
#else
#define CUDAAPI
#endif

typedef int32_t CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef uint64_t CUdeviceptr;

typedef int32_t CUresult;
enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
  CUDA_ERROR_INVALID_PC = 718,
  CUDA_ERROR_LAUNCH_FAILED = 719
};

/* Attributes of devices. */
enum {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2, /* and Y and Z */
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,  /* and Y and Z */
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};

enum {
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DEFAULT = 0,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2,
  CU_MEMHOSTALLOC_PORTABLE = 1,
  CU_MEMHOSTALLOC_DEVICEMAP = 2
};

/* How a kernel is launched that may begin before what was launched before it has ended: CUDA 11.8. */
typedef struct CUlaunchAttribute {
  int id;
  int unused;
  union {
    unsigned char bytes[64];
    int programmaticStreamSerializationAllowed;
  } value;
} CUlaunchAttribute;
typedef struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned numAttrs;
} CUlaunchConfig;
enum { CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

/* Each function's name without its `cu`, the version behind it, and what it takes; all give a
 * CUresult. */
#define CUDA_FUNCTIONS(X)                                                                       \
  X(Init, "", (unsigned))                                                                       \
  X(DriverGetVersion, "", (int *))                                                              \
  X(GetErrorName, "", (CUresult, const char **))                                                \
  X(DeviceGetCount, "", (int *))                                                                \
  X(DeviceGet, "", (CUdevice *, int))                                                           \
  X(DeviceGetName, "", (char *, int, CUdevice))                                                 \
  X(DeviceGetAttribute, "", (int *, int, CUdevice))                                             \
  X(DeviceTotalMem, "_v2", (size_t *, CUdevice))                                                \
  X(DevicePrimaryCtxRetain, "", (CUcontext *, CUdevice))                                        \
  X(DevicePrimaryCtxRelease, "_v2", (CUdevice))                                                 \
  X(CtxPushCurrent, "_v2", (CUcontext))                                                         \
  X(CtxPopCurrent, "_v2", (CUcontext *))                                                        \
  X(StreamCreate, "", (CUstream *, unsigned))                                                   \
  X(StreamDestroy, "_v2", (CUstream))                                                           \
  X(StreamSynchronize, "", (CUstream))                                                          \
  X(EventCreate, "", (CUevent *, unsigned))                                                     \
  X(EventDestroy, "_v2", (CUevent))                                                             \
  X(EventRecord, "", (CUevent, CUstream))                                                       \
  X(EventQuery, "", (CUevent))                                                                  \
  X(EventElapsedTime, "", (float *, CUevent, CUevent))                                          \
  X(MemAlloc, "_v2", (CUdeviceptr *, size_t))                                                   \
  X(MemFree, "_v2", (CUdeviceptr))                                                              \
  X(MemHostAlloc, "", (void **, size_t, unsigned))                                              \
  X(MemFreeHost, "", (void *))                                                                  \
  X(MemHostGetDevicePointer, "_v2", (CUdeviceptr *, void *, unsigned))                          \
  X(MemcpyAsync, "", (CUdeviceptr, CUdeviceptr, size_t, CUstream))                              \
  X(MemsetD8Async, "", (CUdeviceptr, unsigned char, size_t, CUstream))                          \
  X(MemsetD16Async, "", (CUdeviceptr, unsigned short, size_t, CUstream))                        \
  X(MemsetD32Async, "", (CUdeviceptr, unsigned, size_t, CUstream))                              \
  X(MemsetD2D32Async, "", (CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream))            \
  X(ModuleLoadDataEx, "", (CUmodule *, const void *, unsigned, int *, void **))                 \
  X(ModuleUnload, "", (CUmodule))                                                               \
  X(ModuleGetFunction, "", (CUfunction *, CUmodule, const char *))                              \
  X(FuncSetAttribute, "", (CUfunction, int, int))                                               \
  X(LaunchKernel, "",                                                                           \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, \
     void **, void **))

/* The same of graphs, which may be missing: they are of CUDA 10 to 11.4. */
#define CUDA_GRAPH_FUNCTIONS(X)                                                    \
  X(StreamBeginCapture, "_v2", (CUstream, int))                                    \
  X(StreamEndCapture, "", (CUstream, CUgraph *))                                   \
  X(GraphInstantiateWithFlags, "", (CUgraphExec *, CUgraph, unsigned long long))   \
  X(GraphExecUpdate, "", (CUgraphExec, CUgraph, CUgraphNode *, int *))             \
  X(GraphLaunch, "", (CUgraphExec, CUstream))                                      \
  X(GraphExecDestroy, "", (CUgraphExec))                                           \
  X(GraphDestroy, "", (CUgraph))

/* May be missing alone. */
#define CUDA_EARLY_FUNCTIONS(X) \
  X(LaunchKernelEx, "", (const CUlaunchConfig *, CUfunction, void **, void **))

#endif
