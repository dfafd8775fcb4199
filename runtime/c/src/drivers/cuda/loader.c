/* NVIDIA's library, found at run time; what its devices are. */
#include "../../drivers.h"

#if EDGERT_WITH_CUDA

#include "cuda.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

static const char *const cuda_file = "nvcuda.dll";
static void *cuda_open_file(void) { return LoadLibraryA(cuda_file); }
static void *cuda_symbol(void *library, const char *name) {
  FARPROC found = GetProcAddress(library, name);
  void *symbol;
  memcpy(&symbol, &found, sizeof symbol);
  return symbol;
}
#else
#include <dlfcn.h>

static const char *const cuda_file = "libcuda.so.1";
static void *cuda_open_file(void) { return dlopen(cuda_file, RTLD_NOW | RTLD_LOCAL); }
static void *cuda_symbol(void *library, const char *name) { return dlsym(library, name); }
#endif

enum { CUDA_NEEDED = 0 CUDA_FUNCTIONS(CUDA_COUNT) };
#define CUDA_SYMBOL(name, version, arguments) "cu" #name version "\0"

/* The library stays for good: it has threads of its own. */
edgert_status cuda_library_open(cuda_library *self, edgert_error *error) {
  memset(self, 0, sizeof *self);
  void *library = cuda_open_file();
  if (!library)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "this system has no CUDA: there is no %s",
                       cuda_file);
  const char *name = CUDA_FUNCTIONS(CUDA_SYMBOL) CUDA_GRAPH_FUNCTIONS(CUDA_SYMBOL);
  for (size_t i = 0; *name; ++i, name += strlen(name) + 1) {
    void *symbol = cuda_symbol(library, name);
    if (!symbol && i >= CUDA_NEEDED) { /* without graphs */
      memset(&self->in_order[CUDA_NEEDED], 0, sizeof *self - sizeof *self->in_order * CUDA_NEEDED);
      break;
    }
    if (!symbol)
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "this system's %s is too old: it has no %s",
                         cuda_file, name);
    memcpy(&self->in_order[i], &symbol, sizeof symbol);
  }
  void *early = cuda_symbol(library, "cuLaunchKernelEx");
  memcpy(&self->LaunchKernelEx, &early, sizeof early);
  CUresult result = self->Init(0);
  if (result == CUDA_SUCCESS) return EDGERT_OK;
  if (result == CUDA_ERROR_NO_DEVICE)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "CUDA finds no GPU here");
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "CUDA does not start: error %d", (int)result);
}

/* Attributes of a device into unsigned numbers; those below 0 are 0. */
static CUresult cuda_attributes(const cuda_library *self, CUdevice device, int first,
                                uint32_t count, uint32_t *out) {
  CUresult result = CUDA_SUCCESS;
  for (uint32_t i = 0; i < count && result == CUDA_SUCCESS; ++i) {
    int value = 0;
    result = self->DeviceGetAttribute(&value, first + (int)i, device);
    out[i] = value > 0 ? (uint32_t)value : 0;
  }
  return result;
}

edgert_status cuda_facts_read(const cuda_library *self, uint32_t index, CUdevice *out_device,
                              cuda_facts *out, edgert_error *error) {
  int count = 0;
  uint32_t capability[2] = {0, 0}, is_unified = 0;
  size_t memory = 0;
  memset(out, 0, sizeof *out);
  CUresult result = self->DeviceGetCount(&count);
  if (result == CUDA_SUCCESS && index >= (uint32_t)count)
    return EDGERT_FAIL(error, EDGERT_NOT_FOUND, "CUDA has %u devices here, and none of number %u",
                       (unsigned)count, (unsigned)index);
  if (result == CUDA_SUCCESS) result = self->DeviceGet(out_device, (int)index);
  if (result == CUDA_SUCCESS)
    result = self->DeviceGetName(out->name, (int)sizeof out->name - 1, *out_device);
  if (result == CUDA_SUCCESS) result = self->DriverGetVersion(&out->driver);
  if (result == CUDA_SUCCESS) result = self->DeviceTotalMem(&memory, *out_device);
  const struct {
    int first;
    uint32_t count;
    uint32_t *out;
  } asked[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 2, capability},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 3, out->most_block},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 3, out->most_grid},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1, &out->most_threads},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 1, &out->most_shared},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1, &is_unified},
  };
  for (size_t i = 0; i < sizeof asked / sizeof *asked && result == CUDA_SUCCESS; ++i)
    result = cuda_attributes(self, *out_device, asked[i].first, asked[i].count, asked[i].out);
  if (result != CUDA_SUCCESS)
    return EDGERT_FAIL(error, EDGERT_DEVICE_FAILED, "CUDA does not tell of device %u: error %d",
                       (unsigned)index, (int)result);
  out->memory = memory;
  out->major = (int)capability[0];
  out->minor = (int)capability[1];
  if (!is_unified) /* one address space for the host's memory and the device's */
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "%s is too old", out->name);
  return EDGERT_OK;
}

#endif
