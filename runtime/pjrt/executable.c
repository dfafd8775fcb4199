/* What an executable says of itself, and how it is let go. */
#include <string.h>

#include "plugin.h"

pjrt_error *pjrt_executable_destroy(executable_destroy_args *args) {
  pjrt_executable_release(args->executable);
  return NULL;
}

pjrt_error *pjrt_executable_name(executable_name_args *args) {
  args->text = args->executable->name;
  args->text_size = strlen(args->text);
  return NULL;
}

pjrt_error *pjrt_executable_num_replicas(executable_num_replicas_args *args) {
  args->count = 1;
  return NULL;
}

pjrt_error *pjrt_executable_num_partitions(executable_num_partitions_args *args) {
  args->count = args->executable->device_count;
  return NULL;
}

pjrt_error *pjrt_executable_num_outputs(executable_num_outputs_args *args) {
  args->count = args->executable->output_count;
  return NULL;
}

pjrt_error *pjrt_executable_size_of_code(executable_size_of_code_args *args) {
  args->bytes = -1; /* unknown */
  return NULL;
}

pjrt_error *pjrt_executable_fingerprint(executable_fingerprint_args *args) {
  args->text = args->executable->fingerprint;
  args->text_size = strlen(args->text);
  return NULL;
}

pjrt_error *pjrt_executable_output_types(executable_output_types_args *args) {
  args->types = args->executable->output_types;
  args->num_types = args->executable->output_count;
  return NULL;
}

pjrt_error *pjrt_executable_output_dimensions(executable_output_dimensions_args *args) {
  args->num_outputs = args->executable->output_count;
  args->dims = args->executable->output_dims;
  args->dim_sizes = args->executable->output_ranks;
  return NULL;
}

pjrt_error *pjrt_executable_output_memory_kinds(executable_output_memory_kinds_args *args) {
  args->num_outputs = args->executable->output_count;
  args->kinds = args->executable->output_kinds;
  args->kind_sizes = args->executable->output_kind_sizes;
  return NULL;
}

/* --- loaded ----------------------------------------------------------------------------------- */

pjrt_error *pjrt_loaded_destroy(loaded_destroy_args *args) {
  pjrt_executable_release(args->executable);
  return NULL;
}

pjrt_error *pjrt_loaded_get_executable(loaded_get_executable_args *args) {
  atomic_fetch_add(&args->loaded->references, 1);
  args->executable = args->loaded;
  return NULL;
}

pjrt_error *pjrt_loaded_addressable_devices(loaded_addressable_devices_args *args) {
  args->devices = args->executable->devices;
  args->num_devices = args->executable->device_count;
  return NULL;
}

pjrt_error *pjrt_loaded_delete(loaded_delete_args *args) {
  atomic_store(&args->executable->is_deleted, true);
  return NULL;
}

pjrt_error *pjrt_loaded_is_deleted(loaded_is_deleted_args *args) {
  args->is_deleted = atomic_load(&args->executable->is_deleted);
  return NULL;
}

pjrt_error *pjrt_loaded_fingerprint(loaded_fingerprint_args *args) {
  args->text = args->executable->fingerprint;
  args->text_size = strlen(args->text);
  return NULL;
}

static void nothing_to_delete(void *serialized) { (void)serialized; }

pjrt_error *pjrt_loaded_device_assignment(loaded_device_assignment_args *args) {
  args->bytes = args->executable->assignment;
  args->bytes_size = args->executable->assignment_size;
  args->serialized = args->executable;
  args->deleter = nothing_to_delete;
  return NULL;
}
