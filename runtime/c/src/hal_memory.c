/* The `hal` module's functions on memory: allocators, buffers, buffer views, files. */
#include "format.h"
#include "hal.h"
#include "session.h"

void edgert_heap_destroy(edgert_object *object) {
  edgert_release(((edgert_heap *)object)->device);
}

void edgert_file_destroy(edgert_object *object) {
  edgert_release(((edgert_file *)object)->bytes);
}

/* --- allocators ------------------------------------------------------------------------------- */

#define HAL_ALLOCATE(X) X(a, heap) X(I, affinity) X(i, types) X(i, usage) X(I, size)

static edgert_status hal_memory_allocate(edgert_session *session, const edgert_cell *in,
                                         edgert_cell *out, edgert_error *error) {
  EDGERT_TAKE(HAL_ALLOCATE, given, in);
  const edgert_memory kind = {(uint32_t)given.types, (uint32_t)given.usage};
  edgert_buffer *buffer;
  edgert_status status = edgert_session_buffer(session, kind, given.size, &buffer, error);
  out[0].ref = (edgert_object *)buffer;
  return status;
}

/* The range of some bytes that a program names; a length of -1 is the rest. */
static edgert_status hal_memory_range(const edgert_bytes *bytes, int64_t offset, int64_t length,
                                      uint64_t *out_length, edgert_error *error) {
  uint64_t size = bytes->size;
  *out_length = (uint64_t)length;
  if (length == -1 && offset >= 0 && (uint64_t)offset <= size) *out_length = size - (uint64_t)offset;
  if (edgert_in_range((uint64_t)offset, *out_length, size)) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "%lld bytes at %lld are not inside %llu",
                     (long long)length, (long long)offset, (unsigned long long)size);
}

#define HAL_IMPORT(X)                                                                   \
  X(a, heap) X(i, is_try) X(I, affinity) X(i, types) X(i, usage) X(y, bytes) X(I, offset) \
  X(I, length)

static edgert_status hal_memory_import(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  EDGERT_TAKE(HAL_IMPORT, given, in);
  const edgert_memory kind = {(uint32_t)given.types, (uint32_t)given.usage};
  edgert_bytes *bytes = given.bytes;
  uint64_t length;
  edgert_status status = hal_memory_range(bytes, given.offset, given.length, &length, error);
  if (status != EDGERT_OK) return status;
  const uint8_t *data = bytes->data + given.offset;
  edgert_buffer *buffer = NULL;
  if (bytes->writable || (kind.usage & EDGERT_USAGE_IMMUTABLE))
    status = edgert_buffer_lend(session->device, data, length, !bytes->writable, &bytes->object,
                                NULL, NULL, &buffer, error);
  else
    status = EDGERT_UNSUPPORTED;
  if (status == EDGERT_UNSUPPORTED) {
    edgert_error_clear(error);
    if (given.is_try) return EDGERT_OK;
    /* The program insists: give it a copy. */
    status = edgert_session_buffer(session, kind, (int64_t)length, &buffer, error);
    if (status == EDGERT_OK) status = edgert_buffer_write(buffer, 0, data, length, error);
  }
  if (status == EDGERT_OK)
    out[0].ref = &buffer->object;
  else
    edgert_release(buffer);
  return status;
}

/* The first of the places that are offered. */
#define HAL_SELECT(X) X(i, types) X(i, usage) X(I, flags)

static edgert_status hal_memory_select(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)session;
  EDGERT_TAKE(HAL_SELECT, given, in);
  in += EDGERT_CELLS(given);
  if (in[0].wide == 0)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program offers no device");
  out[0].ref = edgert_retain(in[1].ref);
  out[1].wide = in[2].wide;
  return EDGERT_OK;
}

/* --- buffers ---------------------------------------------------------------------------------- */

#define HAL_ASSERT(X) \
  X(b, buffer) X(Y, what) X(a, heap) X(I, least) X(i, types) X(i, usage)

static edgert_status hal_memory_assert(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  EDGERT_TAKE(HAL_ASSERT, given, in);
  edgert_text what = edgert_bytes_text((edgert_object *)given.what);
  (void)what;
  if (given.least >= 0 && given.buffer->size >= (uint64_t)given.least) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "%.*s has %llu bytes and needs %lld",
                     EDGERT_TEXT(what), (unsigned long long)given.buffer->size,
                     (long long)given.least);
}

#define HAL_PART(X) X(b, buffer) X(I, offset) X(I, length)

static edgert_status hal_memory_part(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  (void)session;
  EDGERT_TAKE(HAL_PART, given, in);
  edgert_buffer *part;
  edgert_status status = edgert_buffer_part(given.buffer, (uint64_t)given.offset,
                                            (uint64_t)given.length, &part, error);
  out[0].ref = (edgert_object *)part;
  return status;
}

#define HAL_BUFFER(X) X(b, buffer)

static edgert_status hal_memory_length(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)session, (void)error;
  EDGERT_TAKE(HAL_BUFFER, given, in);
  out[0].wide = (int64_t)given.buffer->size;
  return EDGERT_OK;
}

static edgert_status hal_memory_check_width(int32_t width, edgert_error *error) {
  if (width >= 0 && width <= 4) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "a value has %d bytes", (int)width);
}

#define HAL_LOAD(X) X(b, buffer) X(I, offset) X(i, width)

static edgert_status hal_memory_load(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  (void)session;
  EDGERT_TAKE(HAL_LOAD, given, in);
  edgert_status status = hal_memory_check_width(given.width, error);
  if (status != EDGERT_OK) return status;
  return edgert_buffer_read(given.buffer, (uint64_t)given.offset, &out[0].word,
                            (uint64_t)given.width, error);
}

#define HAL_STORE(X) X(i, value) X(b, buffer) X(I, offset) X(i, width)

static edgert_status hal_memory_store(edgert_session *session, const edgert_cell *in,
                                      edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  EDGERT_TAKE(HAL_STORE, given, in);
  edgert_status status = hal_memory_check_width(given.width, error);
  if (status != EDGERT_OK) return status;
  return edgert_buffer_write(given.buffer, (uint64_t)given.offset, &given.value,
                             (uint64_t)given.width, error);
}

static edgert_status hal_memory_preserve(edgert_session *session, const edgert_cell *in,
                                         edgert_cell *out, edgert_error *error) {
  (void)session, (void)out, (void)error;
  EDGERT_TAKE(HAL_BUFFER, given, in);
  atomic_fetch_add(&given.buffer->owners, 1);
  return EDGERT_OK;
}

static edgert_status hal_memory_discard(edgert_session *session, const edgert_cell *in,
                                        edgert_cell *out, edgert_error *error) {
  (void)session, (void)error;
  EDGERT_TAKE(HAL_BUFFER, given, in);
  out[0].word = atomic_fetch_sub(&given.buffer->owners, 1) == 1;
  return EDGERT_OK;
}

static edgert_status hal_memory_is_terminal(edgert_session *session, const edgert_cell *in,
                                            edgert_cell *out, edgert_error *error) {
  (void)session, (void)error;
  EDGERT_TAKE(HAL_BUFFER, given, in);
  out[0].word = atomic_load(&given.buffer->owners) == 1;
  return EDGERT_OK;
}

/* --- buffer views ----------------------------------------------------------------------------- */

#define HAL_MEMORY_MAX_RANK 64

/* A span of sizes. */
static edgert_status hal_memory_shape(const edgert_cell *in, size_t *out_rank,
                                      int64_t out[HAL_MEMORY_MAX_RANK], edgert_error *error) {
  if (in[0].wide > HAL_MEMORY_MAX_RANK)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "a tensor has more than %d dimensions",
                       HAL_MEMORY_MAX_RANK);
  *out_rank = (size_t)in[0].wide;
  for (size_t i = 0; i < *out_rank; ++i) out[i] = in[1 + i].wide;
  return EDGERT_OK;
}

#define HAL_VIEW(X) X(b, buffer) X(I, offset) X(I, length) X(i, type) X(i, encoding)

static edgert_status hal_memory_view(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  (void)session;
  EDGERT_TAKE(HAL_VIEW, given, in);
  edgert_tensor *tensor;
  size_t rank = 0;
  int64_t shape[HAL_MEMORY_MAX_RANK];
  edgert_status status = hal_memory_shape(in + EDGERT_CELLS(given), &rank, shape, error);
  if (status != EDGERT_OK) return status;
  status = edgert_tensor_view(given.buffer, (uint64_t)given.offset, (uint64_t)given.length,
                              (uint32_t)given.type, (uint32_t)given.encoding, rank, shape, &tensor,
                              error);
  out[0].ref = (edgert_object *)tensor;
  return status;
}

#if EDGERT_MESSAGES
/* `2x?x3xf32`, for messages. */
static const char *hal_memory_spell(uint32_t type, size_t rank, const int64_t *shape, char *out,
                                    size_t size) {
  size_t at = 0;
  for (size_t i = 0; i < rank && at + 24 < size; ++i)
    at += shape[i] < 0 ? edgert_format(out + at, size - at, "?x")
                       : edgert_format(out + at, size - at, "%lldx", (long long)shape[i]);
  edgert_format(out + at, size - at, "%s", edgert_type_name(type));
  return out;
}
#endif

#define HAL_ASSERT_VIEW(X) X(t, tensor) X(Y, what) X(i, type) X(i, encoding)

static edgert_status hal_memory_assert_view(edgert_session *session, const edgert_cell *in,
                                            edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  EDGERT_TAKE(HAL_ASSERT_VIEW, given, in);
  const edgert_tensor *tensor = given.tensor;
  size_t rank = 0;
  int64_t shape[HAL_MEMORY_MAX_RANK];
  uint32_t type = (uint32_t)given.type;
  edgert_status status = hal_memory_shape(in + EDGERT_CELLS(given), &rank, shape, error);
  if (status != EDGERT_OK) return status;
  int fits = rank == tensor->rank && edgert_type_fits(tensor->type, type) &&
             (uint32_t)given.encoding == tensor->encoding;
  for (size_t i = 0; fits && i < rank; ++i) fits = shape[i] < 0 || shape[i] == tensor->shape[i];
  if (fits) return EDGERT_OK;
#if EDGERT_MESSAGES
  char wanted[120], got[120];
  edgert_text what = edgert_bytes_text((edgert_object *)given.what);
  return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "%.*s takes %s and was given %s",
                     what.size < 40 ? (int)what.size : 40, what.data,
                     hal_memory_spell(type, rank, shape, wanted, sizeof wanted),
                     hal_memory_spell(tensor->type, tensor->rank, tensor->shape, got,
                                      sizeof got));
#else
  return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "");
#endif
}

#define HAL_TENSOR(X) X(t, tensor)

static edgert_status hal_memory_view_buffer(edgert_session *session, const edgert_cell *in,
                                            edgert_cell *out, edgert_error *error) {
  (void)session, (void)error;
  EDGERT_TAKE(HAL_TENSOR, given, in);
  out[0].ref = edgert_retain(given.tensor->buffer);
  return EDGERT_OK;
}

static edgert_status hal_memory_view_type(edgert_session *session, const edgert_cell *in,
                                          edgert_cell *out, edgert_error *error) {
  (void)session, (void)error;
  EDGERT_TAKE(HAL_TENSOR, given, in);
  out[0].word = (int32_t)given.tensor->type;
  return EDGERT_OK;
}

static edgert_status hal_memory_view_encoding(edgert_session *session, const edgert_cell *in,
                                              edgert_cell *out, edgert_error *error) {
  (void)session, (void)error;
  EDGERT_TAKE(HAL_TENSOR, given, in);
  out[0].word = (int32_t)given.tensor->encoding;
  return EDGERT_OK;
}

static edgert_status hal_memory_view_rank(edgert_session *session, const edgert_cell *in,
                                          edgert_cell *out, edgert_error *error) {
  (void)session, (void)error;
  EDGERT_TAKE(HAL_TENSOR, given, in);
  out[0].word = (int32_t)given.tensor->rank;
  return EDGERT_OK;
}

#define HAL_DIMENSION(X) X(t, tensor) X(i, index)

static edgert_status hal_memory_view_dim(edgert_session *session, const edgert_cell *in,
                                         edgert_cell *out, edgert_error *error) {
  (void)session;
  EDGERT_TAKE(HAL_DIMENSION, given, in);
  if (given.index < 0 || (size_t)given.index >= given.tensor->rank)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "a tensor has no dimension %d",
                       (int)given.index);
  out[0].wide = given.tensor->shape[given.index];
  return EDGERT_OK;
}

static edgert_status hal_memory_view_trace(edgert_session *session, const edgert_cell *in,
                                           edgert_cell *out, edgert_error *error) {
  (void)in, (void)out, (void)error;
  edgert_device_remark(session->device, "the program traces a tensor for nobody");
  return EDGERT_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

#define HAL_FILE(X) \
  X(d, device) X(I, affinity) X(i, access) X(y, bytes) X(I, offset) X(I, length) X(i, flags)

static edgert_status hal_memory_file(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  EDGERT_TAKE(HAL_FILE, given, in);
  uint64_t length;
  edgert_status status = hal_memory_range(given.bytes, given.offset, given.length, &length, error);
  if (status != EDGERT_OK) return status;
  void *made;
  status = edgert_object_create(&session->object.allocator, EDGERT_KIND_FILE, sizeof(edgert_file),
                                &made, error);
  if (status != EDGERT_OK) return status;
  edgert_file *file = made;
  file->bytes = edgert_retain(given.bytes);
  file->offset = (size_t)given.offset;
  file->size = (size_t)length;
  out[0].ref = &file->object;
  return EDGERT_OK;
}

#define HAL_MEMORY_IMPORTS(X)                                                                   \
  X("allocator.allocate", EDGERT_ARGUMENTS(HAL_ALLOCATE), "r", hal_memory_allocate)             \
  X(".import", EDGERT_ARGUMENTS(HAL_IMPORT), "r", hal_memory_import)                            \
  X(".select", EDGERT_ARGUMENTS(HAL_SELECT) "CrID", "rI", hal_memory_select)                    \
  X("buffer.allocation.discard", EDGERT_ARGUMENTS(HAL_BUFFER), "i", hal_memory_discard)         \
  X(".allocation.is_terminal", EDGERT_ARGUMENTS(HAL_BUFFER), "i", hal_memory_is_terminal)       \
  X(".allocation.preserve", EDGERT_ARGUMENTS(HAL_BUFFER), "v", hal_memory_preserve)             \
  X(".assert", EDGERT_ARGUMENTS(HAL_ASSERT), "v", hal_memory_assert)                            \
  X(".length", EDGERT_ARGUMENTS(HAL_BUFFER), "I", hal_memory_length)                            \
  X(".load", EDGERT_ARGUMENTS(HAL_LOAD), "i", hal_memory_load)                                  \
  X(".store", EDGERT_ARGUMENTS(HAL_STORE), "v", hal_memory_store)                               \
  X(".subspan", EDGERT_ARGUMENTS(HAL_PART), "r", hal_memory_part)                               \
  X("buffer_view.assert", EDGERT_ARGUMENTS(HAL_ASSERT_VIEW) "CID", "v", hal_memory_assert_view) \
  X(".buffer", EDGERT_ARGUMENTS(HAL_TENSOR), "r", hal_memory_view_buffer)                       \
  X(".create", EDGERT_ARGUMENTS(HAL_VIEW) "CID", "r", hal_memory_view)                          \
  X(".dim", EDGERT_ARGUMENTS(HAL_DIMENSION), "I", hal_memory_view_dim)                          \
  X(".element_type", EDGERT_ARGUMENTS(HAL_TENSOR), "i", hal_memory_view_type)                   \
  X(".encoding_type", EDGERT_ARGUMENTS(HAL_TENSOR), "i", hal_memory_view_encoding)              \
  X(".rank", EDGERT_ARGUMENTS(HAL_TENSOR), "i", hal_memory_view_rank)                           \
  X(".trace", "rCrD", "v", hal_memory_view_trace)                                               \
  X("ex.file.from_memory", EDGERT_ARGUMENTS(HAL_FILE), "r", hal_memory_file)

EDGERT_IMPORT_TABLE(hal_memory, HAL_MEMORY_IMPORTS)
