#include "bytes.h"

void edgert_bytes_destroy(edgert_object *object) {
  edgert_bytes *self = (edgert_bytes *)object;
  if (self->owner)
    edgert_release(self->owner);
  else
    edgert_deallocate(&object->allocator, self->data);
}

edgert_status edgert_bytes_create(const edgert_allocator *allocator, uint64_t size,
                                  uint32_t alignment, edgert_bytes **out, edgert_error *error) {
  *out = NULL;
  if (alignment == 0) alignment = 16;
  if (alignment > EDGERT_ALIGNMENT || (alignment & (alignment - 1)))
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "bytes cannot be aligned to %u",
                       (unsigned)alignment);
  if (size > SIZE_MAX / 2)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "no memory for %llu bytes",
                       (unsigned long long)size);
  edgert_bytes *self;
  void *made;
  edgert_status status =
      edgert_object_create(allocator, EDGERT_KIND_BYTES, sizeof *self, &made, error);
  if (status != EDGERT_OK) return status;
  self = made;
  void *data;
  status = edgert_allocate(allocator, (size_t)size, alignment < 16 ? 16 : alignment, &data, error);
  if (status != EDGERT_OK) {
    edgert_release(self);
    return status;
  }
  memset(data, 0, (size_t)size);
  self->data = data;
  self->size = (size_t)size;
  self->writable = 1;
  *out = self;
  return EDGERT_OK;
}

edgert_status edgert_bytes_view(const edgert_allocator *allocator, const uint8_t *data, size_t size,
                                edgert_object *owner, edgert_bytes **out, edgert_error *error) {
  *out = NULL;
  void *made;
  edgert_status status =
      edgert_object_create(allocator, EDGERT_KIND_BYTES, sizeof **out, &made, error);
  if (status != EDGERT_OK) return status;
  edgert_bytes *self = made;
  self->data = (uint8_t *)(uintptr_t)data;
  self->size = size;
  self->owner = edgert_retain(owner);
  *out = self;
  return EDGERT_OK;
}

static edgert_status bytes_range(edgert_object *object, int64_t index, int64_t count,
                                 uint32_t width, edgert_bytes **out, edgert_error *error) {
  edgert_bytes *self = edgert_object_as(object, EDGERT_KIND_BYTES);
  *out = self;
  if (!self)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program uses bytes that are null");
  uint64_t whole = self->size / width;
  if (index < 0 || count < 0 || !edgert_in_range((uint64_t)index, (uint64_t)count, whole))
    return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE,
                       "the program reaches for %lld elements at %lld of %llu bytes by %u",
                       (long long)count, (long long)index,
                       (unsigned long long)self->size, (unsigned)width);
  return EDGERT_OK;
}

edgert_status edgert_bytes_read(edgert_object *object, int64_t index, int64_t count, uint32_t width,
                                const uint8_t **out, edgert_error *error) {
  edgert_bytes *self;
  edgert_status status = bytes_range(object, index, count, width, &self, error);
  if (status == EDGERT_OK) *out = self->data + (size_t)index * width;
  return status;
}

edgert_status edgert_bytes_write(edgert_object *object, int64_t index, int64_t count,
                                 uint32_t width, uint8_t **out, edgert_error *error) {
  edgert_bytes *self;
  edgert_status status = bytes_range(object, index, count, width, &self, error);
  if (status != EDGERT_OK) return status;
  if (!self->writable)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program writes to constant bytes");
  *out = self->data + (size_t)index * width;
  return EDGERT_OK;
}

edgert_text edgert_bytes_text(edgert_object *object) {
  edgert_bytes *self = edgert_object_as(object, EDGERT_KIND_BYTES);
  if (!self) return (edgert_text){"", 0};
  return (edgert_text){(const char *)self->data, self->size};
}

static uint64_t bytes_rotate(uint64_t value, int by) { return value << by | value >> (64 - by); }

static void bytes_sip_rounds(uint64_t v[4], int rounds) {
  for (int i = 0; i < rounds; ++i) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = bytes_rotate(v[1], 13) ^ v[0];
    v[3] = bytes_rotate(v[3], 16) ^ v[2];
    v[0] = bytes_rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = bytes_rotate(v[1], 17) ^ v[2];
    v[3] = bytes_rotate(v[3], 21) ^ v[0];
    v[2] = bytes_rotate(v[2], 32);
  }
}

uint64_t edgert_bytes_hash(const uint8_t *data, size_t size) {
  const uint64_t key[2] = {0x0706050403020100u, 0x0F0E0D0C0B0A0908u};
  /* "somepseudorandomlygeneratedbytes", as SipHash begins. */
  uint64_t v[4] = {key[0] ^ 0x736F6D6570736575u, key[1] ^ 0x646F72616E646F6Du,
                   key[0] ^ 0x6C7967656E657261u, key[1] ^ 0x7465646279746573u};
  size_t at = 0;
  for (; size - at >= 8; at += 8) {
    uint64_t word = edgert_load_u64(data + at);
    v[3] ^= word;
    bytes_sip_rounds(v, 2);
    v[0] ^= word;
  }
  uint64_t last = (uint64_t)size << 56;
  for (size_t i = 0; at + i < size; ++i) last |= (uint64_t)data[at + i] << (8 * i);
  v[3] ^= last;
  bytes_sip_rounds(v, 2);
  v[0] ^= last;
  v[2] ^= 0xFF;
  bytes_sip_rounds(v, 4);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}
