/* Devices and their memories: edgert's, as PJRT counts and names them. */
#include <string.h>

#include "plugin.h"

#define PJRT_TEXT(args, value) ((args)->text = (value), (args)->text_size = strlen(value))

pjrt_error *pjrt_device_description_id(device_description_id_args *args) {
  args->id = args->device->id;
  return NULL;
}

pjrt_error *pjrt_device_description_process_index(device_description_process_index_args *args) {
  args->process_index = 0;
  return NULL;
}

pjrt_error *pjrt_device_description_attributes(device_description_attributes_args *args) {
  args->attributes = NULL;
  args->num_attributes = 0;
  return NULL;
}

pjrt_error *pjrt_device_description_kind(device_description_kind_args *args) {
  PJRT_TEXT(args, args->device->kind);
  return NULL;
}

pjrt_error *pjrt_device_description_debug_string(device_description_debug_string_args *args) {
  PJRT_TEXT(args, args->device->text);
  return NULL;
}

pjrt_error *pjrt_device_description_to_string(device_description_to_string_args *args) {
  PJRT_TEXT(args, args->device->text);
  return NULL;
}

pjrt_error *pjrt_device_description(device_description_args *args) {
  args->description = args->device;
  return NULL;
}

pjrt_error *pjrt_device_is_addressable(device_is_addressable_args *args) {
  args->is_addressable = true;
  return NULL;
}

pjrt_error *pjrt_device_local_hardware_id(device_local_hardware_id_args *args) {
  args->id = args->device->id;
  return NULL;
}

pjrt_error *pjrt_device_addressable_memories(device_addressable_memories_args *args) {
  args->memories = args->device->memories;
  args->num_memories = 1;
  return NULL;
}

static void nothing_to_delete(void *held) { (void)held; }

pjrt_error *pjrt_device_attributes(device_attributes_args *args) {
  args->attributes = NULL;
  args->num_attributes = 0;
  args->held = NULL;
  args->deleter = nothing_to_delete;
  return NULL;
}

pjrt_error *pjrt_device_default_memory(device_default_memory_args *args) {
  args->memory = &args->device->memory;
  return NULL;
}

pjrt_error *pjrt_memory_id(memory_id_args *args) {
  args->id = args->memory->device->id;
  return NULL;
}

pjrt_error *pjrt_memory_kind(memory_kind_args *args) {
  PJRT_TEXT(args, PJRT_MEMORY_KIND);
  return NULL;
}

pjrt_error *pjrt_memory_kind_id(memory_kind_id_args *args) {
  args->id = 0;
  return NULL;
}

pjrt_error *pjrt_memory_debug_string(memory_debug_string_args *args) {
  PJRT_TEXT(args, args->memory->text);
  return NULL;
}

pjrt_error *pjrt_memory_to_string(memory_to_string_args *args) {
  PJRT_TEXT(args, args->memory->text);
  return NULL;
}

pjrt_error *pjrt_memory_addressable_by_devices(memory_addressable_by_devices_args *args) {
  pjrt_device *device = args->memory->device;
  args->devices = &device->client->device_list[device->id];
  args->num_devices = 1;
  return NULL;
}
