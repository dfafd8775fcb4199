/* The `vulkan` driver: what its files share.
 *
 *     loader.c    Vulkan's library, found at run time; instances and devices, with their features
 *     queue.c     points: submissions, and waiting for them
 *     memory.c    large blocks in pieces, and what the host sees of them
 *     spirv.c     what a kernel asks of a device
 *     kernels.c   executables to kernels
 *     pipelines.c these compiled, on several threads
 *     cache.c     the file where these are kept
 *     record.c    commands translated once for the buffers they are run with, and replayed
 *     timing.c    what kernels take
 *     vulkan.c    the driver
 */
#ifndef EDGERT_VULKAN_H
#define EDGERT_VULKAN_H

#include "../../commands.h"
#include "../../platform.h"
#include "api.h"

typedef struct vulkan_device vulkan_device;

/* Functions by their names, and the same in the order of their list: pointers of one size. */
#define VULKAN_POINTER(result, name, arguments) result(VKAPI_PTR *name) arguments;
#define VULKAN_NAME(result, name, arguments) #name "\0"
#define VULKAN_COUNT(result, name, arguments) +1
#define VULKAN_FUNCTIONS(list, in_order)          \
  union {                                         \
    struct {                                      \
      list(VULKAN_POINTER)                        \
    };                                            \
    PFN_vkVoidFunction in_order[0 list(VULKAN_COUNT)]; \
  };

/* --- loader.c --------------------------------------------------------------------------------- */

/* Vulkan's library and an instance of it, with its devices: GPUs first, processors last. */
typedef struct vulkan_instance {
  void *library;
  VkInstance handle;
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
  VULKAN_FUNCTIONS(VULKAN_GLOBAL, global_functions)
  VULKAN_FUNCTIONS(VULKAN_INSTANCE, instance_functions)
  VkPhysicalDevice devices[16];
  uint32_t device_count;
} vulkan_instance;

edgert_status vulkan_instance_open(vulkan_instance *self, edgert_error *error);
void vulkan_instance_close(vulkan_instance *self);

/* The functions of a list, whose names stand one behind the other: of a device, or (NULL) of the
 * instance, or of none before there is one. Whether all are there. */
int vulkan_find_functions(const vulkan_instance *self, VkDevice device, const char *names,
                          PFN_vkVoidFunction *out);

/* What a device has of what kernels may need, by structures of features and by extensions. */
enum {
  VULKAN_HAS_16BIT_STORAGE,
  VULKAN_HAS_VARIABLE_POINTERS,
  VULKAN_HAS_8BIT_STORAGE,
  VULKAN_HAS_FLOAT16_INT8,
  VULKAN_HAS_MEMORY_MODEL,
  VULKAN_HAS_SUBGROUP_TYPES,
  VULKAN_HAS_SUBGROUP_SIZE,
  VULKAN_HAS_DOT_PRODUCT,
  VULKAN_HAS_COOPERATIVE_MATRIX,
  VULKAN_FEATURES,
  VULKAN_HAS_FLOAT_CONTROLS = VULKAN_FEATURES,
  VULKAN_HAS_SPIRV_1_4,
  VULKAN_HAS_PORTABILITY,
  VULKAN_EXTENSIONS
};

typedef struct vulkan_facts {
  VkPhysicalDeviceProperties properties;
  VkPhysicalDeviceFeatures features;   /* 64-bit and 16-bit types */
  VkFeatures more[VULKAN_FEATURES];    /* zeros where the device has not heard of them */
  uint8_t has[VULKAN_EXTENSIONS];      /* 1: in its version, 2: by an extension */
  VkPhysicalDeviceSubgroupProperties subgroup;
  VkPhysicalDeviceSubgroupSizeControlProperties subgroup_sizes;
  VkPhysicalDeviceFloatControlsProperties floats;
  uint64_t largest_allocation;
  uint32_t family; /* of the queue */
  uint32_t timestamp_bits; /* of its clock; 0: it has none */
} vulkan_facts;

/* What a device is; EDGERT_UNSUPPORTED where it is too old or computes nothing. */
edgert_status vulkan_facts_read(const vulkan_instance *instance, VkPhysicalDevice device,
                                vulkan_facts *out, edgert_error *error);

/* Open it with all of these facts. */
edgert_status vulkan_facts_open(const vulkan_instance *instance, VkPhysicalDevice device,
                                vulkan_facts *facts, VkDevice *out, edgert_error *error);

/* --- the device ------------------------------------------------------------------------------- */

#define VULKAN_FENCES 32
#define VULKAN_KEPT_CHUNKS 128
#define VULKAN_MAKERS 8 /* threads that compile kernels, at most */

typedef struct vulkan_fence {
  VkFence handle;
  uint64_t point;   /* of the submission that signals it */
  uint32_t waiters; /* it stays as it is while there are any */
  int is_used;
} vulkan_fence;

/* A large piece of the device's memory, all of it one buffer. */
typedef struct vulkan_span {
  uint64_t offset, size;
} vulkan_span;

typedef struct vulkan_block vulkan_block;
struct vulkan_block {
  vulkan_block *next;
  uint64_t number; /* no other one's, not even of one that is gone */
  int kind;
  VkDeviceMemory memory;
  VkBuffer buffer;
  uint64_t size;
  uint8_t *host;    /* all of it mapped, or NULL */
  vulkan_span *free; /* in order, never side by side */
  size_t free_count, free_capacity;
  size_t chunk_count; /* that are taken, or kept */
};

#define VULKAN_NOBODY UINT64_MAX

/* Memory of a buffer: what `edgert_buffer.memory` points to. */
typedef struct vulkan_chunk {
  vulkan_block *block;
  uint64_t offset, size;
  uint64_t owner; /* whose bytes it holds: a session's number, 0, or VULKAN_NOBODY */
  uint64_t point; /* when it was last used, once its buffer is gone */
} vulkan_chunk;

enum {
  VULKAN_LOCAL, /* the device's own */
  VULKAN_HOST,  /* the host's, that both see */
  VULKAN_KINDS
};

/* A translation: a command buffer, and what it was recorded with. */
typedef struct vulkan_place {
  uint64_t block; /* its number */
  uint64_t offset, length;
} vulkan_place;

typedef struct vulkan_record vulkan_record;
struct vulkan_record {
  vulkan_record *next;
  VkCommandPool pool;
  VkCommandBuffer commands;
  VkDescriptorPool descriptors;
  uint32_t set_capacity, descriptor_capacity;
  vulkan_place *slots; /* what each slot was bound to */
  size_t slot_count, slot_capacity;
  vulkan_chunk *bytes; /* what updates and fills copy from */
  vulkan_chunk *aside; /* where bindings are copied that begin where none may */
  uint64_t point;      /* of the last submission */
  VkQueryPool stamps;  /* two for each command, where the app is told; else 0 */
  uint32_t stamp_count, stamped; /* in all, and recorded so far */
};

struct vulkan_device {
  edgert_device device;
  vulkan_instance instance;
  uint32_t number; /* among its devices */
  vulkan_facts facts;
  VkDevice handle;
  VkQueue queue;
  VULKAN_FUNCTIONS(VULKAN_DEVICE, functions)
  edgert_mutex lock; /* for all below */

  atomic_int is_lost;
  uint64_t submitted, done; /* points */
  vulkan_fence fences[VULKAN_FENCES];

  int is_shared; /* its memory is the host's */
  uint32_t types[VULKAN_KINDS]; /* of memory */
  uint32_t type_flags[VULKAN_KINDS];
  uint64_t alignment;
  uint64_t next_block; /* how large the next one will be */
  vulkan_block *blocks;
  uint64_t block_count; /* so far */
  uint64_t span_point; /* when all free spans are */
  vulkan_chunk *kept[VULKAN_KEPT_CHUNKS]; /* the oldest first */
  size_t kept_count;
  uint64_t kept_bytes, kept_limit;

  vulkan_record *records; /* that are not in use */

  edgert_mutex making; /* for what compiles kernels */
  edgert_condition made;
  edgert_thread makers[VULKAN_MAKERS];
  uint32_t maker_count, idle_makers, waiting_count;
  struct vulkan_kernel *waiting; /* the oldest first */
  int is_closing;

  VkPipelineCache cache;
  char *cache_file;
  atomic_int is_cache_old; /* kernels were compiled since it was written */
};

/* A status for a result that is no success; `what` says what was tried. */
edgert_status vulkan_fail(vulkan_device *self, VkResult result, const char *what,
                          edgert_error *error);
/* Stages of a device, and how they use its memory. */
typedef struct vulkan_uses {
  VkFlags stages, reads, writes;
} vulkan_uses;

/* --- queue.c ---------------------------------------------------------------------------------- */

/* Submit a command buffer. `*out_point` is when it is done. */
edgert_status vulkan_submit(vulkan_device *self, VkCommandBuffer commands, uint64_t *out_point,
                            edgert_error *error);
edgert_status vulkan_wait(vulkan_device *self, uint64_t point, uint64_t milliseconds,
                          const edgert_watch *watch, edgert_error *error);
/* All that was submitted; also on a device that is lost. */
void vulkan_wait_all(vulkan_device *self);

/* A record to use, its command buffer begun or not; given back at its `point`. */
edgert_status vulkan_record_take(vulkan_device *self, vulkan_record **out, edgert_error *error);
void vulkan_record_give(vulkan_device *self, vulkan_record *record);
void vulkan_record_destroy(vulkan_device *self, vulkan_record *record);
edgert_status vulkan_record_begin(vulkan_device *self, vulkan_record *record, edgert_error *error);
edgert_status vulkan_record_end(vulkan_device *self, vulkan_record *record, edgert_error *error);
/* What is recorded from here on waits for what was before, as far as `uses` says what each does. */
void vulkan_record_barrier(vulkan_device *self, vulkan_record *record, const vulkan_uses *before,
                           const vulkan_uses *behind);

/* --- memory.c --------------------------------------------------------------------------------- */

edgert_status vulkan_memory_open(vulkan_device *self, uint64_t cache_bytes, edgert_error *error);
void vulkan_memory_close(vulkan_device *self);
/* At least `size` bytes, those that `owner` left where there are such; they may still be in use until
 * the chunk's point. */
edgert_status vulkan_chunk_take(vulkan_device *self, int kind, uint64_t owner, uint64_t size,
                                vulkan_chunk **out, edgert_error *error);
void vulkan_chunk_give(vulkan_device *self, vulkan_chunk *chunk);
/* What the host wrote to it becomes the device's to see. */
edgert_status vulkan_chunk_flush(vulkan_device *self, const vulkan_chunk *chunk, uint64_t offset,
                                 uint64_t size, edgert_error *error);
static inline uint8_t *vulkan_chunk_host(const vulkan_chunk *chunk) {
  return chunk->block->host ? chunk->block->host + chunk->offset : NULL;
}

edgert_status vulkan_allocate(edgert_device *device, edgert_buffer *buffer, edgert_error *error);
void vulkan_deallocate(edgert_device *device, edgert_buffer *buffer);
edgert_status vulkan_map(edgert_device *device, edgert_buffer *buffer, uint64_t offset,
                         uint64_t size, int for_write, edgert_error *error);
edgert_status vulkan_unmap(edgert_device *device, edgert_buffer *buffer, uint64_t offset,
                           uint64_t size, edgert_error *error);
edgert_status vulkan_read(edgert_device *device, edgert_buffer *buffer, uint64_t offset, void *data,
                          uint64_t size, edgert_error *error);
edgert_status vulkan_write(edgert_device *device, edgert_buffer *buffer, uint64_t offset,
                           const void *data, uint64_t size, edgert_error *error);

/* --- spirv.c ---------------------------------------------------------------------------------- */

/* Refuse a kernel that is no SPIR-V, or asks for more than the device has. `*out_counts` is whether
 * it looks at how many workgroups there are. */
edgert_status vulkan_spirv_check(const vulkan_facts *facts, const uint32_t *words, uint32_t count,
                                 edgert_text name, int *out_counts, edgert_error *error);

/* A checked kernel without what tells a compiler to keep NaN, infinities and signs of zeros, for
 * devices that do not know how; the caller releases it. `*out` is NULL where the device knows. */
edgert_status vulkan_spirv_reduce(const vulkan_facts *facts, const edgert_allocator *allocator,
                                  const uint32_t *words, uint32_t *count, uint32_t **out,
                                  edgert_error *error);

/* --- kernels.c -------------------------------------------------------------------------------- */

#define VULKAN_MOST_BINDINGS 256u

/* What kernels are bound to; `bindings` by the number of the binding: a type, or 0. */
typedef struct vulkan_layout {
  VkDescriptorSetLayout set;
  VkPipelineLayout pipeline;
  uint32_t constant_count;
  uint32_t binding_count; /* one more than the largest number */
  uint8_t *bindings;
} vulkan_layout;

enum { VULKAN_KERNEL_NEW, VULKAN_KERNEL_WAITS, VULKAN_KERNEL_IN_WORK, VULKAN_KERNEL_DONE };

typedef struct vulkan_executable vulkan_executable;
typedef struct vulkan_kernel vulkan_kernel;
struct vulkan_kernel {
  const vulkan_executable *executable;
  VkPipeline pipeline; /* once a dispatch was recorded */
  const vulkan_layout *layout;
  edgert_text name;
  int may_split; /* its workgroups may be run in several dispatches */
  VkShaderModule shader;
  uint32_t subgroup; /* the size that it asks for, or 0 */
  /* How far it is compiled, and what came of it; under the device's lock for that. */
  int state;
  VkResult result;
  vulkan_kernel *next;
};

struct vulkan_executable {
  edgert_executable executable;
  VkSpecializationInfo constants; /* its arrays in one piece of memory */
  vulkan_kernel *kernels;
  vulkan_layout *layouts;
  uint32_t kernel_count, layout_count;
  char *names;
};

#define VULKAN_FORMAT "vulkan-spirv-fb"

edgert_status vulkan_load(edgert_device *device, edgert_text format, const uint8_t *data,
                          size_t size, const uint32_t *constants, size_t constant_count,
                          edgert_executable **out, edgert_error *error);
void vulkan_unload(edgert_executable *executable);
edgert_status vulkan_find(edgert_executable *executable, edgert_text name, uint32_t *out,
                          edgert_error *error);
edgert_status vulkan_check(edgert_executable *executable, uint32_t kernel, size_t constant_count,
                           size_t binding_count, edgert_error *error);

/* --- pipelines.c ------------------------------------------------------------------------------ */

/* Compile it some time; now, and say what came of it; and never, or not any longer. */
void vulkan_pipelines_begin(vulkan_device *self, vulkan_kernel *kernel);
edgert_status vulkan_pipelines_await(vulkan_device *self, vulkan_kernel *kernel,
                                     edgert_error *error);
void vulkan_pipelines_drop(vulkan_device *self, vulkan_kernel *kernel);
void vulkan_pipelines_close(vulkan_device *self);

/* --- cache.c ---------------------------------------------------------------------------------- */

/* `path` may be NULL. */
edgert_status vulkan_cache_open(vulkan_device *self, const char *path, edgert_error *error);
/* Write what is new, if anything is. */
void vulkan_cache_save(vulkan_device *self);
uint64_t vulkan_cache_identity(const vulkan_device *self);
void vulkan_cache_close(vulkan_device *self);

/* --- record.c --------------------------------------------------------------------------------- */

edgert_status vulkan_execute(edgert_device *device, edgert_commands *commands,
                             const edgert_range *slots, size_t slot_count,
                             const edgert_watch *watch, uint64_t *out_point, edgert_error *error);
void vulkan_forget(edgert_device *device, edgert_commands *commands);

/* --- timing.c --------------------------------------------------------------------------------- */

/* Room for a translation's stamps where the app is told what takes how long; a stamp before and one
 * behind each command; and what they say, once it has run. */
edgert_status vulkan_timing_prepare(vulkan_device *self, vulkan_record *record,
                                    const edgert_commands *commands, edgert_error *error);
void vulkan_timing_drop(vulkan_device *self, vulkan_record *record);
void vulkan_timing_stamp(vulkan_device *self, vulkan_record *record, const edgert_command *command);
edgert_status vulkan_timing_read(vulkan_device *self, const vulkan_record *record,
                                 const edgert_commands *commands, edgert_error *error);

#endif
