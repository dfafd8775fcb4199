#include "flatbuffer.h"

static int flatbuffer_has(edgert_flatbuffer *self, uint64_t at, uint64_t size) {
  if (edgert_in_range(at, size, self->size)) return 1;
  self->broken = 1;
  return 0;
}

static edgert_table flatbuffer_table(edgert_flatbuffer *self, uint64_t at) {
  const edgert_table none = {0, 0, 0, 0};
  if (self->broken || at == 0 || !flatbuffer_has(self, at, 4)) return none;
  int64_t vtable = (int64_t)at - (int32_t)edgert_load_u32(self->data + at);
  if (vtable < 0 || !flatbuffer_has(self, (uint64_t)vtable, 4)) {
    self->broken = 1;
    return none;
  }
  uint32_t vtable_size = edgert_load_u16(self->data + vtable);
  uint32_t size = edgert_load_u16(self->data + vtable + 2);
  if (vtable_size < 4 || !flatbuffer_has(self, (uint64_t)vtable, vtable_size) ||
      !flatbuffer_has(self, at, size)) {
    self->broken = 1;
    return none;
  }
  return (edgert_table){(uint32_t)at, (uint32_t)vtable, vtable_size, size};
}

edgert_table edgert_flatbuffer_root(edgert_flatbuffer *self) {
  if (!flatbuffer_has(self, 0, 8)) return (edgert_table){0, 0, 0, 0};
  return flatbuffer_table(self, edgert_load_u32(self->data));
}

/* Where a field of `width` bytes lies; 0: absent. */
static uint32_t flatbuffer_field(edgert_flatbuffer *self, edgert_table table, uint32_t field,
                                 uint32_t width) {
  uint32_t slot = 4 + 2 * field;
  if (self->broken || table.at == 0 || slot + 2 > table.vtable_size) return 0;
  uint32_t offset = edgert_load_u16(self->data + table.vtable + slot);
  if (offset == 0) return 0;
  if (!edgert_in_range(offset, width, table.size)) {
    self->broken = 1;
    return 0;
  }
  return table.at + offset;
}

uint64_t edgert_table_number(edgert_flatbuffer *self, edgert_table table, uint32_t field,
                             uint32_t width, uint64_t otherwise) {
  uint32_t at = flatbuffer_field(self, table, field, width);
  if (at == 0) return otherwise;
  uint64_t value = 0;
  memcpy(&value, self->data + at, width);
  return value;
}

#if EDGERT_WITH_CUDA
const uint8_t *edgert_table_bytes(edgert_flatbuffer *self, edgert_table table, uint32_t field,
                                  uint32_t width) {
  uint32_t at = flatbuffer_field(self, table, field, width);
  return at == 0 ? NULL : self->data + at;
}
#endif

/* What a field that holds an offset points at; 0: absent. */
static uint64_t flatbuffer_target(edgert_flatbuffer *self, edgert_table table, uint32_t field) {
  uint32_t at = flatbuffer_field(self, table, field, 4);
  return at == 0 ? 0 : (uint64_t)at + edgert_load_u32(self->data + at);
}

edgert_table edgert_table_table(edgert_flatbuffer *self, edgert_table table, uint32_t field) {
  return flatbuffer_table(self, flatbuffer_target(self, table, field));
}

edgert_vector edgert_table_vector(edgert_flatbuffer *self, edgert_table table, uint32_t field,
                                  uint32_t width) {
  const edgert_vector none = {0, 0};
  uint64_t at = flatbuffer_target(self, table, field);
  if (at == 0 || !flatbuffer_has(self, at, 4)) return none;
  uint32_t count = edgert_load_u32(self->data + at);
  if (!flatbuffer_has(self, at + 4, (uint64_t)count * width)) return none;
  return (edgert_vector){(uint32_t)at + 4, count};
}

edgert_text edgert_table_text(edgert_flatbuffer *self, edgert_table table, uint32_t field) {
  const edgert_text none = {NULL, 0};
  edgert_vector bytes = edgert_table_vector(self, table, field, 1);
  if (bytes.at == 0) return none;
  if (!flatbuffer_has(self, (uint64_t)bytes.at + bytes.count, 1) ||
      self->data[bytes.at + bytes.count] != 0) {
    self->broken = 1;
    return none;
  }
  return (edgert_text){(const char *)self->data + bytes.at, bytes.count};
}

edgert_table edgert_vector_table(edgert_flatbuffer *self, edgert_vector vector, uint32_t index) {
  uint32_t at = vector.at + 4 * index;
  return flatbuffer_table(self, (uint64_t)at + edgert_load_u32(self->data + at));
}
