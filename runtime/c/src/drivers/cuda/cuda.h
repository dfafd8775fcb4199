/* The `cuda` driver: what its files share.
 *
 *     loader.c    NVIDIA's library, found at run time, and what its devices are
 *     stream.c    points: what was submitted to the stream, and waiting for it
 *     pool.c      memory that is kept for the next time
 *     transfer.c  what the host reads and writes of it
 *     ptx.c       executables to kernels
 *     execute.c   commands to the stream
 *     graph.c     commands that run again, as graphs
 *     stamps.c    what kernels take
 *     native.c    what other libraries may do beside it
 *     cuda.c      the driver
 *
 * A device is the primary context of a GPU, which it shares with other libraries in the process,
 * and one stream of its own. Functions of CUDA's that work in a context work in that of the calling
 * thread; the driver's functions put its own there for as long as they run. */
#ifndef EDGERT_CUDA_H
#define EDGERT_CUDA_H

#include "../../commands.h"
#include "../../platform.h"
#include "api.h"

/* --- loader.c --------------------------------------------------------------------------------- */

#define CUDA_POINTER(name, version, arguments) CUresult(CUDAAPI *name) arguments;
#define CUDA_COUNT(name, version, arguments) +1

/* Its functions by their names, and the same in the order of their list. */
typedef union cuda_library {
  struct {
    CUDA_FUNCTIONS(CUDA_POINTER)
    CUDA_GRAPH_FUNCTIONS(CUDA_POINTER) /* all of them, or all NULL */
    CUDA_EARLY_FUNCTIONS(CUDA_POINTER) /* or NULL */
  };
  void (*in_order[0 CUDA_FUNCTIONS(CUDA_COUNT) CUDA_GRAPH_FUNCTIONS(CUDA_COUNT)])(void);
} cuda_library;

typedef struct cuda_facts {
  char name[128];
  int driver; /* its version, as 12040 */
  int major, minor; /* of the compute capability */
  uint32_t most_block[3], most_threads, most_grid[3], most_shared;
  uint64_t memory; /* bytes */
} cuda_facts;

edgert_status cuda_library_open(cuda_library *self, edgert_error *error);
edgert_status cuda_facts_read(const cuda_library *self, uint32_t index, CUdevice *out_device,
                              cuda_facts *out, edgert_error *error);

/* --- the device ------------------------------------------------------------------------------- */

#define CUDA_EVENTS 64
#define CUDA_KEPT_CHUNKS 256
#define CUDA_NOBODY UINT64_MAX

enum { CUDA_LOCAL, CUDA_HOST }; /* the device's memory; the host's, which both see */

/* Memory of a buffer: what `edgert_buffer.memory` points to. */
typedef struct cuda_chunk {
  CUdeviceptr address;
  uint8_t *host; /* or NULL */
  uint64_t size;
  uint64_t owner; /* whose bytes it holds: a session's number, 0, or CUDA_NOBODY */
  uint64_t point; /* when it was last used, once its buffer is gone */
  int kind;
} cuda_chunk;

typedef struct cuda_device {
  edgert_device device;
  cuda_library cuda;
  CUdevice number;
  CUcontext context;
  CUstream stream;
  cuda_facts facts;
  edgert_mutex lock; /* for all below */
  edgert_condition nap; /* that nobody ends */

  atomic_int lost; /* with this result, or 0 */
  uint64_t submitted, done; /* points */
  CUevent events[CUDA_EVENTS]; /* of the points that are not done, by their remainders */

  cuda_chunk *kept[CUDA_KEPT_CHUNKS]; /* the oldest first */
  size_t kept_count;
  uint64_t kept_bytes, kept_limit;

  edgert_mutex recording; /* for the stream that nothing runs in, and held while graphs are made */
  CUstream recorder;

  edgert_mutex timing; /* for the stamps, and held while what is timed runs */
  CUevent *stamps;     /* of a device that tells what takes how long */
  size_t stamp_count, stamp_capacity;
} cuda_device;

/* A status for a result that is no success; `what` says what was tried. */
edgert_status cuda_fail(cuda_device *self, CUresult result, const char *what, edgert_error *error);

/* The device's context for this thread, and the one before it again. */
static inline edgert_status cuda_enter(cuda_device *self, edgert_error *error) {
  CUresult result = self->cuda.CtxPushCurrent(self->context);
  return result == CUDA_SUCCESS ? EDGERT_OK : cuda_fail(self, result, "entering it", error);
}
static inline void cuda_leave(cuda_device *self) {
  CUcontext left;
  (void)self->cuda.CtxPopCurrent(&left);
}

/* --- stream.c --------------------------------------------------------------------------------- */

/* `*out_point` is when all is done that was given to the stream so far. In the context. */
edgert_status cuda_submit(cuda_device *self, uint64_t *out_point, edgert_error *error);
/* Whether it is done by now; under the lock and in the context. What failed is not done. */
int cuda_is_done(cuda_device *self, uint64_t point);
/* In the context. */
edgert_status cuda_await(cuda_device *self, uint64_t point, uint64_t milliseconds,
                         const edgert_watch *watch, edgert_error *error);
edgert_status cuda_wait(edgert_device *device, uint64_t point, uint64_t milliseconds,
                        const edgert_watch *watch, edgert_error *error);

/* --- pool.c --------------------------------------------------------------------------------- */

/* At least `size` bytes, those that `owner` left where there are such; the host waits for its
 * `point` before it looks into them. In the context. */
edgert_status cuda_chunk_take(cuda_device *self, int kind, uint64_t owner, uint64_t size,
                              cuda_chunk **out, edgert_error *error);
void cuda_chunk_give(cuda_device *self, cuda_chunk *chunk);
void cuda_pool_open(cuda_device *self, uint64_t cache_bytes);
void cuda_pool_close(cuda_device *self);

edgert_status cuda_allocate(edgert_device *device, edgert_buffer *buffer, edgert_error *error);
void cuda_deallocate(edgert_device *device, edgert_buffer *buffer);

/* Where a range of a buffer lies; of one that was resolved. */
static inline CUdeviceptr cuda_address(const edgert_range *range) {
  const edgert_buffer *buffer = range->buffer;
  const cuda_chunk *chunk = (buffer->whole ? buffer->whole : buffer)->memory;
  return chunk->address + buffer->offset + range->offset;
}

/* --- transfer.c ------------------------------------------------------------------------------- */

edgert_status cuda_map(edgert_device *device, edgert_buffer *buffer, uint64_t offset, uint64_t size,
                       int for_write, edgert_error *error);
edgert_status cuda_read(edgert_device *device, edgert_buffer *buffer, uint64_t offset, void *data,
                        uint64_t size, edgert_error *error);
edgert_status cuda_write(edgert_device *device, edgert_buffer *buffer, uint64_t offset,
                         const void *data, uint64_t size, edgert_error *error);

/* --- ptx.c ------------------------------------------------------------------------------------ */

typedef struct cuda_kernel {
  CUfunction function;
  edgert_text name; /* a zero follows it */
  uint32_t block[3];
  uint32_t shared; /* bytes */
  uint32_t constant_count, binding_count;
  int waits; /* for what was launched before it, by itself */
} cuda_kernel;

typedef struct cuda_executable {
  edgert_executable executable;
  CUmodule *modules;
  cuda_kernel *kernels;
  uint32_t module_count, kernel_count;
  char *names;
} cuda_executable;

#define CUDA_FORMAT "cuda-nvptx-fb"
#define CUDA_MOST_PARAMETERS 512u /* 4 KB, as much as a kernel takes on every GPU */

edgert_status cuda_load(edgert_device *device, edgert_text format, const uint8_t *data, size_t size,
                        const uint32_t *constants, size_t constant_count, edgert_executable **out,
                        edgert_error *error);
void cuda_unload(edgert_executable *executable);
edgert_status cuda_find(edgert_executable *executable, edgert_text name, uint32_t *out,
                        edgert_error *error);
edgert_status cuda_check(edgert_executable *executable, uint32_t kernel, size_t constant_count,
                         size_t binding_count, edgert_error *error);

/* --- execute.c -------------------------------------------------------------------------------- */

/* All commands to a stream. `*bytes` is what updates copy from: if it is NULL and needed it is taken,
 * for the caller to give back. In the context. */
edgert_status cuda_encode(cuda_device *self, const edgert_commands *commands,
                          const edgert_range *slots, size_t slot_count, CUstream stream,
                          cuda_chunk **bytes, edgert_error *error);

edgert_status cuda_execute(edgert_device *device, edgert_commands *commands,
                           const edgert_range *slots, size_t slot_count, const edgert_watch *watch,
                           uint64_t *out_point, edgert_error *error);

/* A buffer is in use until that point; under the lock. */
void cuda_touch(edgert_buffer *buffer, uint64_t point);

/* --- graph.c ---------------------------------------------------------------------------------- */

/* The graph of commands that are run again, for these slots; NULL where they are to be launched one
 * by one. It is the commands', and used by the next submission. In the context. */
edgert_status cuda_graph_find(cuda_device *self, edgert_commands *commands,
                              const edgert_range *slots, size_t slot_count, CUgraphExec *out,
                              edgert_error *error);
void cuda_forget(edgert_device *device, edgert_commands *commands);

/* --- stamps.c --------------------------------------------------------------------------------- */

/* Where the app is told what takes how long: a stamp before and one behind each command that does
 * something, and what they say once all is done. Under the lock for timing. */
edgert_status cuda_stamps_add(cuda_device *self, edgert_error *error);
edgert_status cuda_stamps_tell(cuda_device *self, const edgert_commands *commands,
                               edgert_error *error);
void cuda_stamps_close(cuda_device *self);
/* Whether a command does anything; dispatches without workgroups do not. */
int cuda_is_work(const edgert_command *command);

/* --- native.c --------------------------------------------------------------------------------- */

#if EDGERT_WITH_NATIVE
extern const edgert_neighbour cuda_neighbour;
#endif

#endif
