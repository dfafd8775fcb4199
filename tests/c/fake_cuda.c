/* A `libcuda.so.1` without a GPU: memory is the host's, transfers happen when they are asked for,
 * and kernels are written down instead of run. What the environment says:
 *
 *     FAKE_FAIL=cuMemAlloc_v2 FAKE_AFTER=2 FAKE_RESULT=2   the third call of that fails so
 *     FAKE_BUSY=3       events have not passed the first three times that they are asked
 *     FAKE_DEVICES=0    so many GPUs instead of two
 *     FAKE_LAUNCHES=F   each kernel's line in the file F: its name, grid, block, shared bytes, and
 *                       its parameters by the types that its PTX declares
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/c/src/drivers/cuda/api.h"

enum { FAKE_INVALID = 1, FAKE_NOT_FOUND = 500 };

static int calls, live, retained;
static CUresult lost;
static __thread CUcontext current;

/* A module is its text, a function the place of its parameters there. */
struct CUmod_st {
  char *text;
};
struct CUfunc_st {
  char name[256];
  const char *parameters;
  int shared;
};
struct CUevent_st {
  int asked;
};

static const char *setting(const char *name, const char *otherwise) {
  const char *found = getenv(name);
  return found ? found : otherwise;
}

/* What goes on failing once the device is lost. */
static int is_work(const char *name) {
  return strcmp(name, "cuEventQuery") == 0 || strcmp(name, "cuEventRecord") == 0 ||
         strcmp(name, "cuMemcpyAsync") == 0 || strcmp(name, "cuLaunchKernel") == 0;
}

/* Whether this call is the one that fails, or comes after one that lost the device, and how. */
static CUresult fails(const char *name) {
  if (lost && is_work(name)) return lost;
  if (strcmp(setting("FAKE_FAIL", ""), name) != 0) return CUDA_SUCCESS;
  int is_the_one = calls++ == atoi(setting("FAKE_AFTER", "0"));
  CUresult result = is_the_one ? atoi(setting("FAKE_RESULT", "719")) : CUDA_SUCCESS;
  if (result >= CUDA_ERROR_ILLEGAL_ADDRESS) lost = result;
  return result;
}

/* For the test: count calls anew; and how many things there are that nobody has given back. */
void fake_begin(void) { calls = lost = 0; }
int fake_live(void) { return live; }

#define CALL(name, ...)                     \
  CUresult name(__VA_ARGS__) {              \
    CUresult result = fails(#name);         \
    if (result != CUDA_SUCCESS) return result;
#define INSIDE \
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
#define END            \
  return CUDA_SUCCESS; \
  }

/* --- devices ---------------------------------------------------------------------------------- */

CALL(cuInit, unsigned flags)
  (void)flags;
  if (!atoi(setting("FAKE_DEVICES", "2"))) return CUDA_ERROR_NO_DEVICE;
END

CALL(cuDriverGetVersion, int *out)
  *out = 12040;
END

CUresult cuGetErrorName(CUresult result, const char **out) {
  *out = result == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : NULL;
  return *out ? CUDA_SUCCESS : FAKE_INVALID;
}

CALL(cuDeviceGetCount, int *out)
  *out = atoi(setting("FAKE_DEVICES", "2"));
END

CALL(cuDeviceGet, CUdevice *out, int index)
  *out = index;
END

CALL(cuDeviceGetName, char *out, int size, CUdevice device)
  snprintf(out, (size_t)size, "Paper %d", device);
END

CALL(cuDeviceGetAttribute, int *out, int attribute, CUdevice device)
  (void)device;
  *out = attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? 227 << 10 : 1024;
  if (attribute == CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) *out = INT32_MAX;
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *out = 9;
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) *out = 0;
  if (attribute == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) *out = 1;
END

CALL(cuDeviceTotalMem_v2, size_t *out, CUdevice device)
  (void)device;
  *out = (size_t)64 << 20;
END

/* --- contexts --------------------------------------------------------------------------------- */

CALL(cuDevicePrimaryCtxRetain, CUcontext *out, CUdevice device)
  *out = (CUcontext)(uintptr_t)(16 + device);
  ++retained;
END

CALL(cuDevicePrimaryCtxRelease_v2, CUdevice device)
  (void)device;
  if (!--retained && (live || current)) {
    fprintf(stderr, "the context goes with %d things in it\n", live);
    exit(98);
  }
END

CALL(cuCtxPushCurrent_v2, CUcontext context)
  current = (CUcontext)((uintptr_t)current << 8 | (uintptr_t)context);
END

CALL(cuCtxPopCurrent_v2, CUcontext *out)
  *out = (CUcontext)((uintptr_t)current & 255);
  current = (CUcontext)((uintptr_t)current >> 8);
END

/* --- the stream ------------------------------------------------------------------------------- */

CALL(cuStreamCreate, CUstream *out, unsigned flags)
  INSIDE
  *out = (CUstream)(uintptr_t)(flags + 64);
  ++live;
END

CALL(cuStreamDestroy_v2, CUstream stream)
  (void)stream;
  --live;
END

CALL(cuStreamSynchronize, CUstream stream)
  INSIDE (void)stream;
END

CALL(cuEventCreate, CUevent *out, unsigned flags)
  INSIDE (void)flags;
  *out = calloc(1, sizeof **out);
  ++live;
END

CALL(cuEventDestroy_v2, CUevent event)
  free(event);
  --live;
END

CALL(cuEventRecord, CUevent event, CUstream stream)
  INSIDE (void)stream;
  event->asked = 0;
END

CALL(cuEventQuery, CUevent event)
  INSIDE
  if (event->asked++ < atoi(setting("FAKE_BUSY", "0"))) return CUDA_ERROR_NOT_READY;
END

CALL(cuEventElapsedTime, float *out, CUevent from, CUevent to)
  INSIDE (void)from, (void)to;
  *out = 0.001f;
END

/* --- memory ----------------------------------------------------------------------------------- */

CALL(cuMemAlloc_v2, CUdeviceptr *out, size_t size)
  INSIDE
  void *made = size <= (size_t)1 << 30 ? aligned_alloc(512, (size + 511) / 512 * 512) : NULL;
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(made, 0xA5, size);
  *out = (CUdeviceptr)(uintptr_t)made;
  ++live;
END

CALL(cuMemFree_v2, CUdeviceptr at)
  INSIDE
  free((void *)(uintptr_t)at);
  --live;
END

CALL(cuMemHostAlloc, void **out, size_t size, unsigned flags)
  INSIDE (void)flags;
  *out = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  memset(*out, 0x5A, size);
  ++live;
END

CALL(cuMemFreeHost, void *at)
  INSIDE
  free(at);
  --live;
END

CALL(cuMemHostGetDevicePointer_v2, CUdeviceptr *out, void *at, unsigned flags)
  INSIDE (void)flags;
  *out = (CUdeviceptr)(uintptr_t)at;
END

CALL(cuMemcpyAsync, CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
  INSIDE (void)stream;
  memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
END

/* `count` rows of `pitch` bytes, of each the first `width`. */
static void fill(CUdeviceptr to, size_t pitch, uint32_t value, size_t width, size_t count) {
  for (size_t i = 0; i < count; ++i) memcpy((uint8_t *)(uintptr_t)to + i * pitch, &value, width);
}

CALL(cuMemsetD8Async, CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
  INSIDE (void)stream;
  memset((void *)(uintptr_t)to, value, count);
END

CALL(cuMemsetD16Async, CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
  INSIDE (void)stream;
  if (to % 2) return FAKE_INVALID;
  fill(to, 2, value, 2, count);
END

CALL(cuMemsetD32Async, CUdeviceptr to, unsigned value, size_t count, CUstream stream)
  INSIDE (void)stream;
  if (to % 4) return FAKE_INVALID;
  fill(to, 4, value, 4, count);
END

CALL(cuMemsetD2D32Async, CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height,
     CUstream stream)
  INSIDE (void)stream;
  if (to % 4 || pitch % 4 || width != 1) return FAKE_INVALID;
  fill(to, pitch, value, 4, height);
END

/* --- kernels ---------------------------------------------------------------------------------- */

CALL(cuModuleLoadDataEx, CUmodule *out, const void *image, unsigned count, int *options,
     void **values)
  INSIDE
  if (!strstr(image, ".version") || !strstr(image, ".target")) {
    if (count == 2 && options[0] == CU_JIT_ERROR_LOG_BUFFER)
      snprintf(values[0], (size_t)(uintptr_t)values[1], "ptxas fatal: no .version");
    return CUDA_ERROR_INVALID_PTX;
  }
  *out = malloc(sizeof **out);
  (*out)->text = malloc(strlen(image) + 1);
  strcpy((*out)->text, image);
  ++live;
END

CALL(cuModuleUnload, CUmodule module)
  INSIDE /* its functions are left to the end of the process */
  free(module->text);
  free(module);
  --live;
END

/* A kernel's own name ends where its parameters begin. */
static const char *find_entry(const char *text, const char *name) {
  size_t size = strlen(name);
  for (const char *at = text; (at = strstr(at, ".entry ")) != NULL; ++at)
    if (strncmp(at + 7, name, size) == 0 && at[7 + size] == '(') return at + 8 + size;
  return NULL;
}

CALL(cuModuleGetFunction, CUfunction *out, CUmodule module, const char *name)
  INSIDE
  const char *parameters = find_entry(module->text, name);
  if (!parameters) return FAKE_NOT_FOUND;
  *out = calloc(1, sizeof **out);
  snprintf((*out)->name, sizeof(*out)->name, "%s", name);
  (*out)->parameters = parameters;
END

CALL(cuFuncSetAttribute, CUfunction function, int attribute, int value)
  INSIDE
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return FAKE_INVALID;
  function->shared = value;
END

CALL(cuLaunchKernel, CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
     unsigned by, unsigned bz, unsigned shared, CUstream stream, void **parameters, void **extra)
  INSIDE (void)stream;
  if (extra || !bx || !gx || (int)shared > function->shared) return FAKE_INVALID;
  const char *path = getenv("FAKE_LAUNCHES");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file) return CUDA_SUCCESS;
  fprintf(file, "%s %u,%u,%u %u,%u,%u %u", function->name, gx, gy, gz, bx, by, bz, shared);
  const char *end = strchr(function->parameters, ')'), *at = function->parameters;
  for (; (at = strstr(at, ".param .")) != NULL && at < end; at += 8, ++parameters) {
    uint64_t wide;
    uint32_t narrow;
    if (strncmp(at + 9, "64", 2) == 0) { /* a binding: what is there must be read */
      memcpy(&wide, *parameters, sizeof wide);
      (void)*(volatile uint8_t *)(uintptr_t)wide;
      fprintf(file, " p");
    } else {
      memcpy(&narrow, *parameters, sizeof narrow);
      fprintf(file, " %u", narrow);
    }
  }
  fprintf(file, "\n");
  fclose(file);
END
