/* The PJRT C interface, as far as this plugin speaks it: layouts of what crosses it, and its table.
 *
 * PJRT is how a framework sees a device of somebody else's (OpenXLA, `xla/pjrt/c/pjrt_c_api.h`,
 * version 0.93). Every function takes one structure that begins with its own size and a list of
 * extensions; members are only ever added at the end of a structure, functions at the end of the
 * table. Layouts and their order are the interface; names here are this repository's.
 */
#ifndef EDGEC_PJRT_ABI_H
#define EDGEC_PJRT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PJRT_MAJOR 0
#define PJRT_MINOR 93

typedef struct pjrt_error pjrt_error;
typedef struct pjrt_event pjrt_event;
typedef struct pjrt_client pjrt_client;
typedef struct pjrt_device pjrt_device;
typedef struct pjrt_memory pjrt_memory;
typedef struct pjrt_topology pjrt_topology;
typedef struct pjrt_executable pjrt_executable;
typedef struct pjrt_buffer pjrt_buffer;
typedef struct pjrt_context pjrt_context;

/* As in https://abseil.io/docs/cpp/guides/status-codes. */
typedef enum pjrt_code {
  PJRT_CANCELLED = 1,
  PJRT_UNKNOWN = 2,
  PJRT_INVALID_ARGUMENT = 3,
  PJRT_DEADLINE_EXCEEDED = 4,
  PJRT_NOT_FOUND = 5,
  PJRT_RESOURCE_EXHAUSTED = 8,
  PJRT_FAILED_PRECONDITION = 9,
  PJRT_UNIMPLEMENTED = 12,
  PJRT_INTERNAL = 13,
  PJRT_UNAVAILABLE = 14
} pjrt_code;

/* Types of elements. */
typedef enum pjrt_type {
  PJRT_INVALID,
  PJRT_PRED,
  PJRT_S8,
  PJRT_S16,
  PJRT_S32,
  PJRT_S64,
  PJRT_U8,
  PJRT_U16,
  PJRT_U32,
  PJRT_U64,
  PJRT_F16,
  PJRT_F32,
  PJRT_F64,
  PJRT_BF16,
  PJRT_C64,
  PJRT_C128,
  PJRT_S4 = 21,
  PJRT_U4 = 22,
  PJRT_S2 = 24,
  PJRT_U2 = 25
} pjrt_type;

/* What the caller promises of memory that becomes a buffer. */
typedef enum pjrt_host_semantics {
  PJRT_DURING_CALL,   /* it stays until the call returns */
  PJRT_UNTIL_COPIED,  /* until `done` is ready */
  PJRT_ZERO_COPY,     /* as long as the buffer, and nobody writes to it; then `done` is ready */
  PJRT_MUTABLE_ZERO_COPY
} pjrt_host_semantics;

typedef enum pjrt_value_type {
  PJRT_STRING = 0,
  PJRT_INT64 = 1,
  PJRT_INT64_LIST = 2,
  PJRT_FLOAT = 3,
  PJRT_BOOL = 4
} pjrt_value_type;

typedef struct pjrt_named_value {
  size_t size;
  void *extensions;
  const char *name;
  size_t name_size;
  pjrt_value_type type;
  union {
    const char *string;
    int64_t int64;
    const int64_t *int64_list;
    float f32;
    bool boolean;
  } as;
  size_t value_size; /* of a string or list; else 1 */
} pjrt_named_value;

typedef enum pjrt_layout_type { PJRT_TILED = 0, PJRT_STRIDES = 1 } pjrt_layout_type;

typedef struct pjrt_layout {
  size_t size;
  void *extensions;
  union {
    struct {
      size_t size;
      void *extensions;
      const int64_t *minor_to_major;
      size_t minor_to_major_size;
      const int64_t *tile_dims;
      const size_t *tile_dim_sizes;
      size_t num_tiles;
    } tiled;
    struct {
      size_t size;
      void *extensions;
      const int64_t *byte_strides;
      size_t num_byte_strides;
    } strides;
  } as;
  pjrt_layout_type type;
} pjrt_layout;

typedef struct pjrt_program {
  size_t size;
  void *extensions;
  char *code;
  size_t code_size;
  const char *format; /* "mlir" */
  size_t format_size;
} pjrt_program;

typedef struct pjrt_execute_options {
  size_t size;
  void *extensions;
  void **send_callbacks;
  void **receive_callbacks;
  size_t num_send_ops;
  size_t num_receive_ops;
  int launch_id;
  const int64_t *not_donated;
  size_t not_donated_count;
  pjrt_context *context;
  const char *call_location;
} pjrt_execute_options;

/* Reads and writes of a `pjrt_error` go through functions, so a callback may own one. */
typedef void (*pjrt_on_ready)(pjrt_error *error, void *user);

/* A function's structure; "out" comes last. */
#define PJRT_ARGS(name, ...)     \
  typedef struct name##_args {   \
    size_t size;                 \
    void *extensions;            \
    __VA_ARGS__                  \
  } name##_args

PJRT_ARGS(error_destroy, pjrt_error *error;);
PJRT_ARGS(error_message, const pjrt_error *error; const char *message; size_t message_size;);
PJRT_ARGS(error_code, const pjrt_error *error; pjrt_code code;);

PJRT_ARGS(plugin_initialize, );
PJRT_ARGS(plugin_attributes, const pjrt_named_value *attributes; size_t num_attributes;);

PJRT_ARGS(event_destroy, pjrt_event *event;);
PJRT_ARGS(event_is_ready, pjrt_event *event; bool is_ready;);
PJRT_ARGS(event_error, pjrt_event *event;);
PJRT_ARGS(event_await, pjrt_event *event;);
PJRT_ARGS(event_on_ready, pjrt_event *event; pjrt_on_ready callback; void *user;);

PJRT_ARGS(client_create, const pjrt_named_value *options; size_t num_options; void *kv_get;
          void *kv_get_user; void *kv_put; void *kv_put_user; pjrt_client *client;);
PJRT_ARGS(client_destroy, pjrt_client *client;);
PJRT_ARGS(client_platform_name, pjrt_client *client; const char *name; size_t name_size;);
PJRT_ARGS(client_process_index, pjrt_client *client; int process_index;);
PJRT_ARGS(client_platform_version, pjrt_client *client; const char *version; size_t version_size;);
PJRT_ARGS(client_topology, pjrt_client *client; pjrt_topology *topology;);
PJRT_ARGS(client_devices, pjrt_client *client; pjrt_device *const *devices; size_t num_devices;);
PJRT_ARGS(client_addressable_devices, pjrt_client *client; pjrt_device *const *devices;
          size_t num_devices;);
PJRT_ARGS(client_lookup_device, pjrt_client *client; int id; pjrt_device *device;);
PJRT_ARGS(client_lookup_addressable_device, pjrt_client *client; int id; pjrt_device *device;);
PJRT_ARGS(client_addressable_memories, pjrt_client *client; pjrt_memory *const *memories;
          size_t num_memories;);
PJRT_ARGS(client_compile, pjrt_client *client; const pjrt_program *program; const char *options;
          size_t options_size; pjrt_executable *executable;);
PJRT_ARGS(client_default_device_assignment, pjrt_client *client; int num_replicas;
          int num_partitions; size_t assignment_size; int *assignment;);
PJRT_ARGS(client_buffer_from_host_buffer, pjrt_client *client; const void *data; pjrt_type type;
          const int64_t *dims; size_t num_dims; const int64_t *byte_strides;
          size_t num_byte_strides; pjrt_host_semantics semantics; pjrt_device *device;
          pjrt_memory *memory; pjrt_layout *device_layout; pjrt_event *done; pjrt_buffer *buffer;);
PJRT_ARGS(client_create_view_of_device_buffer, pjrt_client *client; void *data;
          const int64_t *dims; size_t num_dims; pjrt_type type; pjrt_layout *layout;
          pjrt_device *device; void (*on_delete)(void *data, void *user); void *on_delete_user;
          intptr_t stream; pjrt_buffer *buffer; pjrt_memory *memory;);

PJRT_ARGS(device_description_id, pjrt_device *device; int id;);
PJRT_ARGS(device_description_process_index, pjrt_device *device; int process_index;);
PJRT_ARGS(device_description_attributes, pjrt_device *device; size_t num_attributes;
          const pjrt_named_value *attributes;);
PJRT_ARGS(device_description_kind, pjrt_device *device; const char *text; size_t text_size;);
PJRT_ARGS(device_description_debug_string, pjrt_device *device; const char *text;
          size_t text_size;);
PJRT_ARGS(device_description_to_string, pjrt_device *device; const char *text; size_t text_size;);
PJRT_ARGS(device_description, pjrt_device *device; pjrt_device *description;);
PJRT_ARGS(device_is_addressable, pjrt_device *device; bool is_addressable;);
PJRT_ARGS(device_local_hardware_id, pjrt_device *device; int id;);
PJRT_ARGS(device_attributes, pjrt_device *device; const pjrt_named_value *attributes;
          size_t num_attributes; void *held; void (*deleter)(void *held););
PJRT_ARGS(device_addressable_memories, pjrt_device *device; pjrt_memory *const *memories;
          size_t num_memories;);
PJRT_ARGS(device_default_memory, pjrt_device *device; pjrt_memory *memory;);

PJRT_ARGS(memory_id, pjrt_memory *memory; int id;);
PJRT_ARGS(memory_kind, pjrt_memory *memory; const char *text; size_t text_size;);
PJRT_ARGS(memory_kind_id, pjrt_memory *memory; int id;);
PJRT_ARGS(memory_debug_string, pjrt_memory *memory; const char *text; size_t text_size;);
PJRT_ARGS(memory_to_string, pjrt_memory *memory; const char *text; size_t text_size;);
PJRT_ARGS(memory_addressable_by_devices, pjrt_memory *memory; pjrt_device *const *devices;
          size_t num_devices;);

PJRT_ARGS(executable_destroy, pjrt_executable *executable;);
PJRT_ARGS(executable_name, pjrt_executable *executable; const char *text; size_t text_size;);
PJRT_ARGS(executable_num_replicas, pjrt_executable *executable; size_t count;);
PJRT_ARGS(executable_num_partitions, pjrt_executable *executable; size_t count;);
PJRT_ARGS(executable_num_outputs, pjrt_executable *executable; size_t count;);
PJRT_ARGS(executable_size_of_code, pjrt_executable *executable; int64_t bytes;);
PJRT_ARGS(executable_fingerprint, pjrt_executable *executable; const char *text;
          size_t text_size;);
PJRT_ARGS(executable_output_types, pjrt_executable *executable; pjrt_type *types;
          size_t num_types;);
PJRT_ARGS(executable_output_dimensions, pjrt_executable *executable; size_t num_outputs;
          const int64_t *dims; const size_t *dim_sizes;);
PJRT_ARGS(executable_output_memory_kinds, pjrt_executable *executable; size_t num_outputs;
          const char *const *kinds; const size_t *kind_sizes;);
PJRT_ARGS(executable_memory_stats, pjrt_executable *executable; int64_t code; int64_t arguments;
          int64_t outputs; int64_t aliases; int64_t temporary; int64_t host_code;
          int64_t host_arguments; int64_t host_outputs; int64_t host_aliases;
          int64_t host_temporary; int64_t peak; int64_t total;);

PJRT_ARGS(executable_cost_analysis, pjrt_executable *executable; size_t num_properties;
          const pjrt_named_value *properties;);
PJRT_ARGS(executable_optimized_program, pjrt_executable *executable; pjrt_program *program;);

PJRT_ARGS(executable_serialize, pjrt_executable *executable; const char *bytes; size_t bytes_size;
          void *serialized; void (*deleter)(void *serialized););
PJRT_ARGS(executable_deserialize_and_load, pjrt_client *client; const char *bytes;
          size_t bytes_size; pjrt_executable *executable; const char *options;
          size_t options_size;);

PJRT_ARGS(loaded_destroy, pjrt_executable *executable;);
PJRT_ARGS(loaded_get_executable, pjrt_executable *loaded; pjrt_executable *executable;);
PJRT_ARGS(loaded_addressable_devices, pjrt_executable *executable; pjrt_device *const *devices;
          size_t num_devices;);
PJRT_ARGS(loaded_delete, pjrt_executable *executable;);
PJRT_ARGS(loaded_is_deleted, pjrt_executable *executable; bool is_deleted;);
PJRT_ARGS(loaded_fingerprint, pjrt_executable *executable; const char *text; size_t text_size;);
PJRT_ARGS(loaded_device_assignment, pjrt_executable *executable; const char *bytes;
          size_t bytes_size; void *serialized; void (*deleter)(void *serialized););
PJRT_ARGS(loaded_execute, pjrt_executable *executable; pjrt_execute_options *options;
          pjrt_buffer *const *const *argument_lists; size_t num_devices; size_t num_args;
          pjrt_buffer **const *output_lists; pjrt_event **complete_events; pjrt_device *device;);

PJRT_ARGS(buffer_destroy, pjrt_buffer *buffer;);
PJRT_ARGS(buffer_element_type, pjrt_buffer *buffer; pjrt_type type;);
PJRT_ARGS(buffer_dimensions, pjrt_buffer *buffer; const int64_t *dims; size_t num_dims;);
PJRT_ARGS(buffer_unpadded_dimensions, pjrt_buffer *buffer; const int64_t *dims;
          size_t num_dims;);
PJRT_ARGS(buffer_dynamic_dimensions, pjrt_buffer *buffer; const size_t *indices; size_t count;);
PJRT_ARGS(buffer_memory_layout, pjrt_buffer *buffer; pjrt_layout layout;);
PJRT_ARGS(buffer_size_in_bytes, pjrt_buffer *buffer; size_t bytes;);
PJRT_ARGS(buffer_device, pjrt_buffer *buffer; pjrt_device *device;);
PJRT_ARGS(buffer_memory, pjrt_buffer *buffer; pjrt_memory *memory;);
PJRT_ARGS(buffer_delete, pjrt_buffer *buffer;);
PJRT_ARGS(buffer_is_deleted, pjrt_buffer *buffer; bool is_deleted;);
PJRT_ARGS(buffer_copy_to_device, pjrt_buffer *buffer; pjrt_device *device; pjrt_buffer *copy;);
PJRT_ARGS(buffer_copy_to_memory, pjrt_buffer *buffer; pjrt_memory *memory; pjrt_buffer *copy;);
PJRT_ARGS(buffer_to_host, pjrt_buffer *buffer; pjrt_layout *host_layout; void *data;
          size_t data_size; pjrt_event *event;);
PJRT_ARGS(buffer_copy_raw_to_host, pjrt_buffer *buffer; void *data; int64_t offset;
          int64_t count; pjrt_event *event;);
PJRT_ARGS(buffer_is_on_cpu, pjrt_buffer *buffer; bool is_on_cpu;);
PJRT_ARGS(buffer_ready_event, pjrt_buffer *buffer; pjrt_event *event;);
PJRT_ARGS(buffer_unsafe_pointer, pjrt_buffer *buffer; uintptr_t pointer;);
PJRT_ARGS(buffer_lend, pjrt_buffer *buffer;);
PJRT_ARGS(buffer_take_back, pjrt_buffer *buffer;);
PJRT_ARGS(buffer_data_pointer, pjrt_buffer *buffer; void *data;);

PJRT_ARGS(topology_destroy, pjrt_topology *topology;);
PJRT_ARGS(topology_platform_name, pjrt_topology *topology; const char *name; size_t name_size;);
PJRT_ARGS(topology_platform_version, pjrt_topology *topology; const char *version;
          size_t version_size;);
PJRT_ARGS(topology_device_descriptions, pjrt_topology *topology; pjrt_device *const *descriptions;
          size_t num_descriptions;);
PJRT_ARGS(topology_attributes, pjrt_topology *topology; const pjrt_named_value *attributes;
          size_t num_attributes;);

PJRT_ARGS(context_create, pjrt_context *context;);
PJRT_ARGS(context_destroy, pjrt_context *context;);

/* The table in its order: what returns nothing, what the plugin has, and what it has not. */
#define PJRT_FUNCTIONS(VOID, HAS, LACKS)      \
  VOID(error_destroy)                         \
  VOID(error_message)                         \
  HAS(error_code)                             \
  HAS(plugin_initialize)                      \
  HAS(plugin_attributes)                      \
  HAS(event_destroy)                          \
  HAS(event_is_ready)                         \
  HAS(event_error)                            \
  HAS(event_await)                            \
  HAS(event_on_ready)                         \
  HAS(client_create)                          \
  HAS(client_destroy)                         \
  HAS(client_platform_name)                   \
  HAS(client_process_index)                   \
  HAS(client_platform_version)                \
  HAS(client_devices)                         \
  HAS(client_addressable_devices)             \
  HAS(client_lookup_device)                   \
  HAS(client_lookup_addressable_device)       \
  HAS(client_addressable_memories)            \
  HAS(client_compile)                         \
  HAS(client_default_device_assignment)       \
  HAS(client_buffer_from_host_buffer)         \
  HAS(device_description_id)                  \
  HAS(device_description_process_index)       \
  HAS(device_description_attributes)          \
  HAS(device_description_kind)                \
  HAS(device_description_debug_string)        \
  HAS(device_description_to_string)           \
  HAS(device_description)                     \
  HAS(device_is_addressable)                  \
  HAS(device_local_hardware_id)               \
  HAS(device_addressable_memories)            \
  HAS(device_default_memory)                  \
  LACKS(device_memory_stats)                  \
  HAS(memory_id)                              \
  HAS(memory_kind)                            \
  HAS(memory_debug_string)                    \
  HAS(memory_to_string)                       \
  HAS(memory_addressable_by_devices)          \
  HAS(executable_destroy)                     \
  HAS(executable_name)                        \
  HAS(executable_num_replicas)                \
  HAS(executable_num_partitions)              \
  HAS(executable_num_outputs)                 \
  HAS(executable_size_of_code)                \
  HAS(executable_cost_analysis)               \
  HAS(executable_output_memory_kinds)         \
  HAS(executable_optimized_program)           \
  HAS(executable_serialize)                   \
  HAS(loaded_destroy)                         \
  HAS(loaded_get_executable)                  \
  HAS(loaded_addressable_devices)             \
  HAS(loaded_delete)                          \
  HAS(loaded_is_deleted)                      \
  HAS(loaded_execute)                         \
  HAS(executable_deserialize_and_load)        \
  HAS(loaded_fingerprint)                     \
  HAS(buffer_destroy)                         \
  HAS(buffer_element_type)                    \
  HAS(buffer_dimensions)                      \
  HAS(buffer_unpadded_dimensions)             \
  HAS(buffer_dynamic_dimensions)              \
  HAS(buffer_memory_layout)                   \
  HAS(buffer_size_in_bytes)                   \
  HAS(buffer_device)                          \
  HAS(buffer_memory)                          \
  HAS(buffer_delete)                          \
  HAS(buffer_is_deleted)                      \
  HAS(buffer_copy_to_device)                  \
  HAS(buffer_to_host)                         \
  HAS(buffer_is_on_cpu)                       \
  HAS(buffer_ready_event)                     \
  HAS(buffer_unsafe_pointer)                  \
  HAS(buffer_lend)                            \
  HAS(buffer_take_back)                       \
  HAS(buffer_data_pointer)                    \
  LACKS(copy_stream_destroy)                  \
  LACKS(copy_stream_add_chunk)                \
  LACKS(copy_stream_total_bytes)              \
  LACKS(copy_stream_granule_size)             \
  LACKS(copy_stream_current_bytes)            \
  LACKS(topology_create)                      \
  HAS(topology_destroy)                       \
  HAS(topology_platform_name)                 \
  HAS(topology_platform_version)              \
  HAS(topology_device_descriptions)           \
  LACKS(topology_serialize)                   \
  HAS(topology_attributes)                    \
  LACKS(compile_for_topology)                 \
  HAS(executable_output_types)                \
  HAS(executable_output_dimensions)           \
  HAS(buffer_copy_to_memory)                  \
  HAS(client_create_view_of_device_buffer)    \
  HAS(executable_fingerprint)                 \
  HAS(client_topology)                        \
  HAS(executable_memory_stats)                \
  HAS(memory_kind_id)                         \
  HAS(context_create)                         \
  HAS(context_destroy)                        \
  HAS(buffer_copy_raw_to_host)                \
  LACKS(async_transfer_destroy)               \
  LACKS(async_transfer_data)                  \
  LACKS(client_create_async_buffers)          \
  LACKS(async_transfer_retrieve)              \
  LACKS(async_transfer_device)                \
  LACKS(async_transfer_buffer_count)          \
  LACKS(async_transfer_buffer_size)           \
  LACKS(async_transfer_set_error)             \
  LACKS(async_transfer_add_metadata)          \
  LACKS(client_dma_map)                       \
  LACKS(client_dma_unmap)                     \
  LACKS(client_create_uninitialized_buffer)   \
  LACKS(client_update_process_info)           \
  LACKS(topology_deserialize)                 \
  LACKS(client_create_alias_buffer)           \
  LACKS(client_fulfill_alias_buffer)          \
  HAS(loaded_device_assignment)               \
  LACKS(client_create_error_buffer)           \
  LACKS(async_transfer_literal)               \
  LACKS(buffer_copy_raw_to_host_future)       \
  LACKS(device_poison_execution)              \
  LACKS(device_create_tracking_event)         \
  LACKS(tracking_event_destroy)               \
  LACKS(executable_compile_options)           \
  LACKS(buffer_donate_with_dependency)        \
  LACKS(event_create)                         \
  LACKS(event_set)                            \
  HAS(device_attributes)

#define PJRT_DECLARE_VOID(name) void pjrt_##name(name##_args *args);
#define PJRT_DECLARE(name) pjrt_error *pjrt_##name(name##_args *args);
#define PJRT_DECLARE_NOTHING(name)
PJRT_FUNCTIONS(PJRT_DECLARE_VOID, PJRT_DECLARE, PJRT_DECLARE_NOTHING)

#define PJRT_NUMBER(name) PJRT_AT_##name,
enum { PJRT_FUNCTIONS(PJRT_NUMBER, PJRT_NUMBER, PJRT_NUMBER) PJRT_FUNCTION_COUNT };

/* The extension that tells how an executable cuts its arrays, each a serialised `xla.OpSharding`
 * (`xla/pjrt/c/pjrt_c_api_shardings_extension.h`). */
#define PJRT_SHARDINGS 19

PJRT_ARGS(executable_shardings, pjrt_executable *executable; size_t count;
          const char *const *shardings; const size_t *sizes;);

typedef struct pjrt_shardings {
  size_t size;
  int number;
  const void *next;
  pjrt_error *(*of_parameters)(executable_shardings_args *args);
  pjrt_error *(*of_results)(executable_shardings_args *args);
} pjrt_shardings;

/* The one that tells how arrays lie in memory (`xla/pjrt/c/pjrt_c_api_layouts_extension.h`). Of a
 * program for several devices JAX keeps the layouts with its bytes, and takes for granted that it is
 * told them. */
#define PJRT_LAYOUTS 4

typedef struct pjrt_memory_layout pjrt_memory_layout;

PJRT_ARGS(layout_destroy, const pjrt_memory_layout *layout;);
PJRT_ARGS(layout_serialize, const pjrt_memory_layout *layout; const char *bytes;
          size_t bytes_size; void *serialized; void (*deleter)(void *serialized););
PJRT_ARGS(layout_of_buffer, pjrt_buffer *buffer; const pjrt_memory_layout *layout;);
PJRT_ARGS(layout_default, void *client_or_topology; pjrt_type type; const int64_t *dims;
          size_t num_dims; const pjrt_memory_layout *layout;);
PJRT_ARGS(layouts_of_executable, pjrt_executable *executable; size_t count;
          const pjrt_memory_layout *const *layouts;);

typedef struct pjrt_layouts {
  size_t size;
  int number;
  const void *next;
  pjrt_error *(*destroy)(layout_destroy_args *args);
  pjrt_error *(*serialize)(layout_serialize_args *args);
  pjrt_error *(*of_client)(layout_default_args *args);
  pjrt_error *(*of_buffer)(layout_of_buffer_args *args);
  pjrt_error *(*of_topology)(layout_default_args *args);
  pjrt_error *(*of_results)(layouts_of_executable_args *args);
  pjrt_error *(*of_parameters)(layouts_of_executable_args *args);
} pjrt_layouts;

typedef struct pjrt_api {
  size_t size;
  const void *extensions;
  struct {
    size_t size;
    void *extensions;
    int major;
    int minor;
  } version;
  void (*functions[PJRT_FUNCTION_COUNT])(void);
} pjrt_api;

#endif
