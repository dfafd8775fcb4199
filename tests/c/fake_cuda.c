/* A `libcuda.so.1` without a GPU: memory is the host's, transfers happen when they are asked for,
 * and kernels are written down instead of run. What the environment says:
 *
 *     FAKE_FAIL=cuMemAlloc_v2 FAKE_AFTER=2 FAKE_RESULT=2   the third call of that fails so
 *     FAKE_BUSY=3       events have not passed the first three times that they are asked
 *     FAKE_DEVICES=0    so many GPUs instead of two
 *     FAKE_LAUNCHES=F   each kernel's line in the file F: its name, grid, block, shared bytes, and
 *                       its parameters by the types that its PTX declares
 *     FAKE_EARLY=F      the names in the file F of kernels that may begin before others have ended
 *     FAKE_GRAPHS=F     a line in the file F for each graph that is made, changed and launched
 *
 * A stream that is captured does nothing; its graph does all that again when it is launched.
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

/* A module is its text and its functions, a function the place of its parameters there. */
struct CUmod_st {
  char *text;
  struct CUfunc_st *functions;
};
struct CUfunc_st {
  struct CUfunc_st *next;
  char name[256];
  const char *parameters;
  int shared;
};
struct CUevent_st {
  int asked;
};

/* What a stream was asked for: a transfer, or a kernel with its parameters' values. */
typedef struct work {
  enum { COPY, FILL, LAUNCH } kind;
  CUdeviceptr to, from;
  size_t size, width, pitch; /* `size` bytes, or rows of `width` bytes, `pitch` apart */
  uint32_t value;
  CUfunction function;
  unsigned numbers[7];
  uint64_t parameters[64];
} work;
struct CUgraph_st {
  work *works;
  size_t count;
};
struct CUgraphExec_st {
  struct CUgraph_st graph;
};
struct CUstream_st {
  CUgraph captured; /* or NULL */
};

static const char *setting(const char *name, const char *otherwise) {
  const char *found = getenv(name);
  return found ? found : otherwise;
}

/* What goes on failing once the device is lost. */
static int is_work(const char *name) {
  return strcmp(name, "cuEventQuery") == 0 || strcmp(name, "cuEventRecord") == 0 ||
         strcmp(name, "cuMemcpyAsync") == 0 || strcmp(name, "cuLaunchKernel") == 0 ||
         strcmp(name, "cuGraphLaunch") == 0;
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
  (void)flags;
  *out = calloc(1, sizeof **out);
  ++live;
END

CALL(cuStreamDestroy_v2, CUstream stream)
  free(stream);
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

/* --- what streams do -------------------------------------------------------------------------- */

static void launched(const work *work);

/* `size` rows of `pitch` bytes, of each the first `width`. */
static void fill(const work *work) {
  for (size_t i = 0; i < work->size; ++i)
    memcpy((uint8_t *)(uintptr_t)work->to + i * work->pitch, &work->value, work->width);
}

static void perform(const work *work) {
  if (work->kind == COPY)
    memmove((void *)(uintptr_t)work->to, (void *)(uintptr_t)work->from, work->size);
  if (work->kind == FILL) fill(work);
  if (work->kind == LAUNCH) launched(work);
}

static CUresult enqueue(CUstream stream, const work *asked) {
  CUgraph graph = stream->captured;
  if (!graph) {
    perform(asked);
    return CUDA_SUCCESS;
  }
  graph->works = realloc(graph->works, (graph->count + 1) * sizeof *graph->works);
  graph->works[graph->count++] = *asked;
  return CUDA_SUCCESS;
}

CALL(cuMemcpyAsync, CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
  INSIDE
  return enqueue(stream, &(work){.kind = COPY, .to = to, .from = from, .size = size});
}

static CUresult filled(CUstream stream, CUdeviceptr to, size_t pitch, uint32_t value, size_t width,
                       size_t count) {
  return enqueue(stream, &(work){.kind = FILL, .to = to, .pitch = pitch, .value = value,
                                 .width = width, .size = count});
}

CALL(cuMemsetD8Async, CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
  INSIDE
  return filled(stream, to, 1, value, 1, count);
}

CALL(cuMemsetD16Async, CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
  INSIDE
  return to % 2 ? FAKE_INVALID : filled(stream, to, 2, value, 2, count);
}

CALL(cuMemsetD32Async, CUdeviceptr to, unsigned value, size_t count, CUstream stream)
  INSIDE
  return to % 4 ? FAKE_INVALID : filled(stream, to, 4, value, 4, count);
}

CALL(cuMemsetD2D32Async, CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height,
     CUstream stream)
  INSIDE
  if (to % 4 || pitch % 4 || width != 1) return FAKE_INVALID;
  return filled(stream, to, pitch, value, 4, height);
}

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
  (*out)->functions = NULL;
  (*out)->text = malloc(strlen(image) + 1);
  strcpy((*out)->text, image);
  ++live;
END

CALL(cuModuleUnload, CUmodule module)
  INSIDE
  for (struct CUfunc_st *each = module->functions, *next; each; each = next) {
    next = each->next;
    free(each);
  }
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
  (*out)->next = module->functions;
  module->functions = *out;
END

CALL(cuFuncSetAttribute, CUfunction function, int attribute, int value)
  INSIDE
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return FAKE_INVALID;
  function->shared = value;
END

/* A line for a kernel. */
static void launched(const work *work) {
  const char *path = getenv("FAKE_LAUNCHES");
  FILE *file = path ? fopen(path, "a") : NULL;
  const unsigned *n = work->numbers;
  const uint64_t *parameter = work->parameters;
  if (!file) return;
  fprintf(file, "%s %u,%u,%u %u,%u,%u %u", work->function->name, n[0], n[1], n[2], n[3], n[4],
          n[5], n[6]);
  const char *end = strchr(work->function->parameters, ')'), *at = work->function->parameters;
  for (; (at = strstr(at, ".param .")) != NULL && at < end; at += 8, ++parameter) {
    if (strncmp(at + 9, "64", 2) == 0) { /* a binding: what is there must be read */
      (void)*(volatile uint8_t *)(uintptr_t)*parameter;
      fprintf(file, " p");
    } else {
      fprintf(file, " %u", (unsigned)*parameter);
    }
  }
  fprintf(file, "\n");
  fclose(file);
}

CALL(cuLaunchKernel, CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
     unsigned by, unsigned bz, unsigned shared, CUstream stream, void **parameters, void **extra)
  INSIDE
  if (extra || !bx || !gx || (int)shared > function->shared) return FAKE_INVALID;
  work asked = {.kind = LAUNCH, .function = function, .numbers = {gx, gy, gz, bx, by, bz, shared}};
  const char *end = strchr(function->parameters, ')'), *at = function->parameters;
  for (size_t i = 0; (at = strstr(at, ".param .")) != NULL && at < end && i < 64; at += 8, ++i)
    memcpy(&asked.parameters[i], parameters[i], strncmp(at + 9, "64", 2) == 0 ? 8 : 4);
  return enqueue(stream, &asked);
}

#ifndef FAKE_OLD
CALL(cuLaunchKernelEx, const CUlaunchConfig *how, CUfunction function, void **parameters,
     void **extra)
  INSIDE
  const CUlaunchAttribute *early = how->attrs;
  if (how->numAttrs != 1 || early->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION ||
      !early->value.programmaticStreamSerializationAllowed)
    return FAKE_INVALID;
  const char *path = getenv("FAKE_EARLY");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (file) {
    fprintf(file, "%s\n", function->name);
    fclose(file);
  }
  return cuLaunchKernel(function, how->gridDimX, how->gridDimY, how->gridDimZ, how->blockDimX,
                        how->blockDimY, how->blockDimZ, how->sharedMemBytes, how->hStream,
                        parameters, extra);
}

/* --- graphs ----------------------------------------------------------------------------------- */

static void tell(const char *what) {
  const char *path = getenv("FAKE_GRAPHS");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  fprintf(file, "%s\n", what);
  fclose(file);
}

static void copy_graph(CUgraph to, CUgraph from) {
  free(to->works);
  to->count = from->count;
  to->works = malloc((from->count + 1) * sizeof *to->works);
  memcpy(to->works, from->works, from->count * sizeof *to->works);
}

CALL(cuStreamBeginCapture_v2, CUstream stream, int mode)
  INSIDE
  if (stream->captured || mode != CU_STREAM_CAPTURE_MODE_RELAXED) return FAKE_INVALID;
  stream->captured = calloc(1, sizeof *stream->captured);
  ++live;
END

CUresult cuGraphDestroy(CUgraph graph) {
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
  free(graph->works);
  free(graph);
  --live;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *out) {
  CUresult result = fails("cuStreamEndCapture");
  if (!stream->captured) return FAKE_INVALID;
  *out = stream->captured;
  stream->captured = NULL;
  if (result == CUDA_SUCCESS) return result;
  (void)cuGraphDestroy(*out);
  *out = NULL;
  return result;
}

CALL(cuGraphInstantiateWithFlags, CUgraphExec *out, CUgraph graph, unsigned long long flags)
  INSIDE (void)flags;
  *out = calloc(1, sizeof **out);
  copy_graph(&(*out)->graph, graph);
  ++live;
  tell("made");
END

/* As CUDA does, it takes no graph of another form. */
CALL(cuGraphExecUpdate, CUgraphExec exec, CUgraph graph, CUgraphNode *node, int *why)
  INSIDE (void)node, (void)why;
  if (exec->graph.count != graph->count) return FAKE_INVALID;
  for (size_t i = 0; i < graph->count; ++i)
    if (exec->graph.works[i].kind != graph->works[i].kind) return FAKE_INVALID;
  copy_graph(&exec->graph, graph);
  tell("changed");
END

CALL(cuGraphLaunch, CUgraphExec exec, CUstream stream)
  INSIDE
  if (stream->captured) return FAKE_INVALID;
  for (size_t i = 0; i < exec->graph.count; ++i) perform(&exec->graph.works[i]);
  tell("launched");
END

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
  free(exec->graph.works);
  free(exec);
  --live;
  return CUDA_SUCCESS;
}
#endif
