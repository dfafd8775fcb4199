/* The `cpu` driver's parts. */
#ifndef EDGERT_CPU_H
#define EDGERT_CPU_H

#include "../../commands.h"
#include "../../platform.h"

#ifndef EDGERT_WITH_ELF
#if defined(__wasm__)
#define EDGERT_WITH_ELF 0
#else
#define EDGERT_WITH_ELF 1
#endif
#endif

#ifndef EDGERT_WITH_WASM
#if defined(__wasm__)
#define EDGERT_WITH_WASM 1
#else
#define EDGERT_WITH_WASM 0
#endif
#endif

/* --- kernels: the interface that compiled libraries have, version 6 ---------------------------- */

#define EDGERT_LIBRARY_VERSION 6u

typedef struct edgert_library_environment {
  const uint32_t *constants;
  int (*import_thunk)(void *, void *, void *, void *);
  const void *const *import_functions;
  const void *const *import_contexts;
  uint64_t cpu_data[8];
} edgert_library_environment;

typedef struct edgert_library_dispatch {
  uint32_t size_x, size_y;
  uint16_t size_z;
  uint16_t constant_count;
  uint32_t count_x, count_y;
  uint16_t count_z;
  uint8_t max_concurrency;
  uint8_t binding_count;
  const uint32_t *constants;
  void *const *bindings;
  const size_t *lengths;
} edgert_library_dispatch;

typedef struct edgert_library_workgroup {
  uint32_t x, y;
  uint16_t z;
  uint16_t reserved;
  uint32_t processor;
  void *scratch;
  uint32_t scratch_size;
} edgert_library_workgroup;

/* ELF kernels keep to the conventions of Unix everywhere, so Windows calls them by those; kernels
 * that are linked into a program there would keep to its own, and are not run. */
#if defined(_WIN32) && defined(__x86_64__)
#define EDGERT_KERNEL_CALL __attribute__((sysv_abi))
#define EDGERT_WITH_STATIC 0
#else
#define EDGERT_KERNEL_CALL
#define EDGERT_WITH_STATIC 1
#endif

typedef int(EDGERT_KERNEL_CALL *edgert_library_kernel)(const edgert_library_environment *environment,
                                                       const edgert_library_dispatch *dispatch,
                                                       const edgert_library_workgroup *workgroup);
typedef const void *(EDGERT_KERNEL_CALL *edgert_kernel_query)(uint32_t max_version,
                                                              const void *environment);

#define EDGERT_KERNEL_SEQUENTIAL 1u /* workgroups in order, one at a time */

typedef struct edgert_library_attributes {
  uint64_t flags;
  uint16_t scratch_pages; /* of 4096 bytes for each workgroup */
  uint8_t constant_count;
  uint8_t binding_count;
  uint32_t size_x, size_y;
  uint16_t size_z;
  uint16_t parameter_count;
  uint64_t reserved[5];
} edgert_library_attributes;

typedef struct edgert_library_header {
  uint32_t version;
  const char *name;
  uint32_t features;
  uint32_t sanitizer;
} edgert_library_header;

/* Where a kernel comes from in the model's source. */
typedef struct edgert_library_place {
  uint32_t line;
  uint32_t path_size;
  const char *path;
} edgert_library_place;

typedef struct edgert_library {
  const edgert_library_header *header;
  struct {
    uint32_t count;
    const char *const *names;
  } imports;
  struct {
    uint32_t count;
    const edgert_library_kernel *kernels;
    const edgert_library_attributes *attributes;
    const void *parameters;
    const void *occupancy;
    const char *const *names;
    const void *tags, *parameter_names;
    const edgert_library_place *places;
    const void *stage_places;
  } exports;
  struct {
    uint32_t count;
  } constants;
} edgert_library;

/* --- machine code in an ELF image ------------------------------------------------------------- */

typedef struct edgert_elf {
  uint8_t *base;
  size_t size;
} edgert_elf;

/* What programs call this machine's code ("embedded-elf-x86_64"); NULL where none can be loaded. */
const char *edgert_elf_format(void);

/* Copy, relocate and protect an image, and find its query function. */
edgert_status edgert_elf_load(const uint8_t *data, size_t size, edgert_elf *out,
                              edgert_library_query *out_query, edgert_error *error);
void edgert_elf_unload(edgert_elf *self);

/* --- WebAssembly beside edgert's own -------------------------------------------------------- */

#define EDGERT_WASM_FORMAT "system-wasm-wasm_32"

edgert_status edgert_wasm_load(const uint8_t *data, size_t size, edgert_library_query *out,
                               edgert_error *error);
void edgert_wasm_unload(edgert_library_query query);

/* --- processor features ----------------------------------------------------------------------- */

/* What this processor says of itself, read once a device: asking it may be slow. */
typedef struct edgert_cpu_features {
  uint32_t words[8];
} edgert_cpu_features;

void edgert_cpu_read_features(edgert_cpu_features *out);

/* 1 and whether the processor has a feature, by LLVM's name; 0 for one that is not known. */
int edgert_cpu_feature(const edgert_cpu_features *features, edgert_text name, int64_t *out);

/* --- memory that is used again ---------------------------------------------------------------- */

/* A step of training gives back hundreds of results of the pass before it. */
#define EDGERT_CACHE_ENTRIES 512

typedef struct edgert_cache {
  edgert_mutex lock;
  uint64_t limit; /* bytes that may wait here */
  uint8_t unwritten; /* what a session's memory holds at first */
  uint64_t held;
  size_t count;
  struct {
    void *memory;
    size_t size;
    uint64_t owner;
  } entries[EDGERT_CACHE_ENTRIES]; /* the oldest first */
} edgert_cache;

void edgert_cache_create(edgert_cache *self, uint64_t limit, uint8_t unwritten);
void edgert_cache_destroy(edgert_cache *self, const edgert_allocator *allocator);
/* Memory of at least `size` bytes; for a session (`owner` is not 0) full of `unwritten`, or, where
 * that is 0, what it left there. `*out_fresh`: these are zeros that nobody has touched. */
edgert_status edgert_cache_take(edgert_cache *self, const edgert_allocator *allocator,
                                uint64_t owner, uint64_t size, void **out, int *out_fresh,
                                edgert_error *error);
void edgert_cache_give(edgert_cache *self, const edgert_allocator *allocator, void *memory,
                       uint64_t owner, uint64_t size);

/* --- threads ---------------------------------------------------------------------------------- */

/* One dispatch of a batch. */
typedef struct edgert_work {
  edgert_library_kernel kernel;
  const edgert_library_environment *environment;
  edgert_library_dispatch dispatch;
  uint32_t scratch_size;
  int is_sequential;
  uint64_t first; /* among the workgroups of the batch */
  uint64_t count;
  atomic_uint *cost; /* nanoseconds that a workgroup of this kernel took, 0: not known yet */
} edgert_work;

/* Memory of one thread for the kernels it runs. */
typedef struct edgert_scratch {
  void *memory;
  size_t size;
} edgert_scratch;

typedef struct edgert_pool edgert_pool;

/* `threads` with the caller's, 1 at least. */
edgert_status edgert_pool_create(const edgert_allocator *allocator, unsigned threads,
                                 edgert_pool **out, edgert_error *error);
void edgert_pool_destroy(edgert_pool *self);
unsigned edgert_pool_threads(const edgert_pool *self);

/* Run dispatches that do not depend on each other, with the caller's thread and the others. Where
 * the others work for another caller, this one does it all, with `scratch`. When `watch` is over,
 * the workgroups that have begun are the last. */
edgert_status edgert_pool_run(edgert_pool *self, const edgert_work *works, size_t count,
                              edgert_scratch *scratch, const edgert_watch *watch,
                              edgert_error *error);

/* A thread's memory of at least that size. */
edgert_status edgert_scratch_reserve(edgert_scratch *self, const edgert_allocator *allocator,
                                     size_t size, edgert_error *error);

#endif
