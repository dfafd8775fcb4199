#include "tensor.h"

#define TENSOR_MAX_RANK 64

void edgert_tensor_destroy(edgert_object *object) {
  edgert_release(((edgert_tensor *)object)->buffer);
}

/* --- types ------------------------------------------------------------------------------------ */

/* Names and what they stand for, in one order; those that MLIR spells otherwise come last. */
static const char tensor_names[] =
    "bool\0" "i8\0" "i16\0" "i32\0" "i64\0" "u8\0" "u16\0" "u32\0" "u64\0"
    "f16\0" "f32\0" "f64\0" "bf16\0" "c64\0" "c128\0"
    "i1\0" "si8\0" "si16\0" "si32\0" "si64\0" "ui8\0" "ui16\0" "ui32\0" "ui64\0"
    "complex<f32>\0" "complex<f64>\0";
static const uint32_t tensor_types[] = {
    EDGERT_BOOL, EDGERT_I8,  EDGERT_I16, EDGERT_I32,  EDGERT_I64, EDGERT_U8,
    EDGERT_U16,  EDGERT_U32, EDGERT_U64, EDGERT_F16,  EDGERT_F32, EDGERT_F64,
    EDGERT_BF16, EDGERT_C64, EDGERT_C128, EDGERT_BOOL, EDGERT_I8, EDGERT_I16,
    EDGERT_I32,  EDGERT_I64, EDGERT_U8,  EDGERT_U16,  EDGERT_U32, EDGERT_U64,
    EDGERT_C64,  EDGERT_C128,
};
#define TENSOR_TYPES (sizeof tensor_types / sizeof *tensor_types)

#define TENSOR_KIND(type) ((type) >> 24)
#define TENSOR_SIGNLESS 0x10u
#define TENSOR_SIGNED 0x11u
#define TENSOR_BOOL 0x13u

uint32_t edgert_type_parse(const char *name) {
  size_t index = edgert_name_index(tensor_names, (edgert_text){name, strlen(name)});
  return index < TENSOR_TYPES ? tensor_types[index] : 0;
}

const char *edgert_type_name(uint32_t type) {
  if (TENSOR_KIND(type) == TENSOR_SIGNLESS) type += (TENSOR_SIGNED - TENSOR_SIGNLESS) << 24;
  for (size_t i = 0; i < TENSOR_TYPES; ++i)
    if (tensor_types[i] == type) return edgert_name_at(tensor_names, i);
  return "?";
}

int edgert_type_fits(uint32_t type, uint32_t wanted) {
  if (type == wanted) return 1;
  uint32_t kind = TENSOR_KIND(type), wanted_kind = TENSOR_KIND(wanted);
  return (type & 0xFFFFFF) == (wanted & 0xFFFFFF) && kind >= TENSOR_SIGNLESS &&
         kind <= TENSOR_BOOL && wanted_kind >= TENSOR_SIGNLESS && wanted_kind <= TENSOR_BOOL;
}

/* The bytes that a shape takes, or a refusal. */
static edgert_status tensor_measure(uint32_t type, size_t rank, const int64_t *shape,
                                    uint64_t *out, edgert_error *error) {
  *out = 0;
  uint32_t bits = type & 0xFFFF;
  if (bits == 0 || bits > 1024)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "there is no element type 0x%08x",
                       (unsigned)type);
  if (rank > TENSOR_MAX_RANK)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "a tensor has more than %d dimensions",
                       TENSOR_MAX_RANK);
  uint64_t count = 1;
  int empty = 0;
  for (size_t i = 0; i < rank; ++i) {
    if (shape[i] < 0)
      return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "a dimension is %lld",
                         (long long)shape[i]);
    if (shape[i] == 0) empty = 1;
    if (shape[i] && count > (uint64_t)(INT64_MAX / 1024) / (uint64_t)shape[i])
      return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "a tensor is larger than any memory");
    count *= shape[i] ? (uint64_t)shape[i] : 1;
  }
  *out = empty ? 0 : (count * bits + 7) / 8;
  return EDGERT_OK;
}

/* --- making ----------------------------------------------------------------------------------- */

/* Takes over the caller's reference to `buffer`, also where this fails. */
static edgert_status tensor_over(edgert_buffer *buffer, uint32_t type, uint32_t encoding,
                                 size_t rank, const int64_t *shape, uint64_t size,
                                 edgert_tensor **out, edgert_error *error) {
  void *made;
  edgert_status status =
      edgert_object_create(&buffer->object.allocator, EDGERT_KIND_TENSOR,
                           sizeof **out + rank * sizeof *shape, &made, error);
  if (status != EDGERT_OK) {
    edgert_release(buffer);
    return status;
  }
  edgert_tensor *self = made;
  self->buffer = buffer;
  self->type = type;
  self->encoding = encoding;
  self->size = size;
  self->rank = rank;
  if (rank) memcpy(self->shape, shape, rank * sizeof *shape);
  *out = self;
  return EDGERT_OK;
}

edgert_status edgert_tensor_view(edgert_buffer *buffer, uint64_t offset, uint64_t length,
                                 uint32_t type, uint32_t encoding, size_t rank,
                                 const int64_t *shape, edgert_tensor **out, edgert_error *error) {
  *out = NULL;
  uint64_t size;
  edgert_status status = tensor_measure(type, rank, shape, &size, error);
  if (status != EDGERT_OK) return status;
  if (length == EDGERT_WHOLE && offset <= buffer->size) length = buffer->size - offset;
  if (size > length)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "a tensor of %llu bytes lies on only %llu",
                       (unsigned long long)size, (unsigned long long)length);
  edgert_buffer *part;
  status = edgert_buffer_part(buffer, offset, size, &part, error);
  if (status != EDGERT_OK) return status;
  return tensor_over(part, type, encoding, rank, shape, size, out, error);
}

edgert_status edgert_tensor_create(edgert_device *device, uint32_t type, size_t rank,
                                   const int64_t *shape, edgert_tensor **out_tensor,
                                   edgert_error *error) {
  *out_tensor = NULL;
  edgert_error_clear(error);
  uint64_t size;
  edgert_status status = tensor_measure(type, rank, shape, &size, error);
  if (status != EDGERT_OK) return status;
  edgert_buffer *buffer;
  status = edgert_buffer_create(device, 0, NULL, (edgert_memory){0, 0}, size, &buffer, error);
  if (status != EDGERT_OK) return status;
  return tensor_over(buffer, type, EDGERT_DENSE, rank, shape, size, out_tensor, error);
}

edgert_status edgert_tensor_wrap(edgert_device *device, uint32_t type, size_t rank,
                                 const int64_t *shape, void *data, size_t data_size,
                                 void (*release)(void *user), void *user,
                                 edgert_tensor **out_tensor, edgert_error *error) {
  *out_tensor = NULL;
  edgert_error_clear(error);
  uint64_t size;
  edgert_status status = tensor_measure(type, rank, shape, &size, error);
  if (status == EDGERT_OK && size != data_size)
    status = EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT,
                         "the tensor takes %llu bytes and was given %llu",
                         (unsigned long long)size, (unsigned long long)data_size);
  if (status == EDGERT_OK && size && (uintptr_t)data % EDGERT_ALIGNMENT != 0)
    status = EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT,
                         "the memory does not begin at a multiple of %d: copy it",
                         EDGERT_ALIGNMENT);
  if (status != EDGERT_OK || size == 0) {
    if (release) release(user);
    if (status != EDGERT_OK) return status;
    return edgert_tensor_create(device, type, rank, shape, out_tensor, error);
  }
  if (!device->driver->lend) { /* its memory is not the host's: give it a copy */
    status = edgert_tensor_create(device, type, rank, shape, out_tensor, error);
    if (status == EDGERT_OK)
      status = edgert_buffer_write((*out_tensor)->buffer, 0, data, size, error);
    if (release) release(user);
    if (status == EDGERT_OK) return status;
    edgert_release(*out_tensor);
    *out_tensor = NULL;
    return status;
  }
  edgert_buffer *buffer;
  status = edgert_buffer_lend(device, data, size, 0, NULL, release, user, &buffer, error);
  if (status != EDGERT_OK) return status;
  return tensor_over(buffer, type, EDGERT_DENSE, rank, shape, size, out_tensor, error);
}

int edgert_tensor_is_alone(const edgert_tensor *self, size_t references) {
  const edgert_buffer *buffer = self->buffer;
  const edgert_buffer *whole = buffer->whole ? buffer->whole : buffer;
  return atomic_load(&self->object.references) == references &&
         atomic_load(&buffer->object.references) == 1 &&
         atomic_load(&whole->object.references) == 1 && whole->memory && !whole->read_only &&
         !whole->lender && !whole->release;
}

/* --- reading ---------------------------------------------------------------------------------- */

edgert_tensor *edgert_tensor_retain(edgert_tensor *tensor) { return edgert_retain(tensor); }
void edgert_tensor_release(edgert_tensor *tensor) { edgert_release(tensor); }
uint32_t edgert_tensor_type(const edgert_tensor *tensor) { return tensor->type; }
size_t edgert_tensor_rank(const edgert_tensor *tensor) { return tensor->rank; }
const int64_t *edgert_tensor_shape(const edgert_tensor *tensor) { return tensor->shape; }
uint64_t edgert_tensor_size(const edgert_tensor *tensor) { return tensor->size; }
void edgert_tensor_describe(const edgert_tensor *tensor, edgert_tensor_facts *out_facts) {
  *out_facts = (edgert_tensor_facts){
      .type = edgert_tensor_type(tensor),
      .rank = (uint32_t)tensor->rank,
      .size = tensor->size,
      .shape = tensor->shape,
  };
}
const void *edgert_tensor_data(const edgert_tensor *tensor) {
  edgert_buffer *buffer = tensor->buffer;
  if (edgert_buffer_trust(buffer, 0, tensor->size, NULL) != EDGERT_OK) return NULL;
  if (!buffer->host || edgert_buffer_map(buffer, 0, tensor->size, 0, NULL) != EDGERT_OK) return NULL;
  return buffer->host;
}

static edgert_status tensor_check(const edgert_tensor *self, size_t size, edgert_error *error) {
  edgert_error_clear(error);
  if (size == self->size) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the tensor has %llu bytes, not %llu",
                     (unsigned long long)self->size, (unsigned long long)size);
}

edgert_status edgert_tensor_read(const edgert_tensor *tensor, void *data, size_t data_size,
                                 edgert_error *error) {
  edgert_status status = tensor_check(tensor, data_size, error);
  if (status != EDGERT_OK) return status;
  return edgert_buffer_read(tensor->buffer, 0, data, data_size, error);
}

edgert_status edgert_tensor_write(edgert_tensor *tensor, const void *data, size_t data_size,
                                  edgert_error *error) {
  edgert_status status = tensor_check(tensor, data_size, error);
  if (status != EDGERT_OK) return status;
  return edgert_buffer_write(tensor->buffer, 0, data, data_size, error);
}
