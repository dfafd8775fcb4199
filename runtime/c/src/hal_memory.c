/* The `hal` module's functions on memory: allocators, buffers, buffer views, files. */
#include "format.h"
#include "hal.h"
#include "session.h"

#define HAL_MEMORY_IMMUTABLE (1u << 19) /* usage: nobody will write */

static void hal_memory_heap_destroy(edgert_object *object) {
  edgert_release(((edgert_heap *)object)->device);
}

const edgert_kind edgert_heap_kind = {"hal.allocator", hal_memory_heap_destroy};

static void hal_memory_file_destroy(edgert_object *object) {
  edgert_release(((edgert_file *)object)->bytes);
}

const edgert_kind edgert_file_kind = {"hal.file", hal_memory_file_destroy};

edgert_status edgert_argument_object(edgert_object *object, const edgert_kind *kind, void *out,
                                     edgert_error *error) {
  void *found = edgert_object_as(object, kind);
  memcpy(out, &found, sizeof found);
  if (found) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program gives a %s for a %s",
                     object ? object->kind->name : "null", kind->name);
}

/* --- allocators ------------------------------------------------------------------------------- */

static edgert_status hal_memory_allocate(edgert_session *session, const edgert_cell *in,
                                         edgert_cell *out, edgert_error *error) {
  int64_t size = in[4].wide;
  edgert_buffer *buffer;
  if (size < 0)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program asks for %lld bytes",
                       (long long)size);
  edgert_status status = edgert_session_buffer(session, (uint64_t)size, &buffer, error);
  if (status == EDGERT_OK) out[0].ref = &buffer->object;
  return status;
}

/* The range of some bytes that a program names; a length of -1 is the rest. */
static edgert_status hal_memory_range(edgert_object *object, int64_t offset, int64_t length,
                                      edgert_bytes **out, uint64_t *out_length,
                                      edgert_error *error) {
  edgert_status status = edgert_argument_object(object, &edgert_bytes_kind, out, error);
  if (status != EDGERT_OK) return status;
  uint64_t size = (*out)->size;
  *out_length = (uint64_t)length;
  if (length == -1 && offset >= 0 && (uint64_t)offset <= size) *out_length = size - (uint64_t)offset;
  if (edgert_in_range((uint64_t)offset, *out_length, size)) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "%lld bytes at %lld are not inside %llu",
                     (long long)length, (long long)offset, (unsigned long long)size);
}

static edgert_status hal_memory_import(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  int is_try = in[1].word != 0;
  uint32_t usage = (uint32_t)in[4].word;
  edgert_bytes *bytes;
  uint64_t length;
  edgert_status status =
      hal_memory_range(in[5].ref, in[6].wide, in[7].wide, &bytes, &length, error);
  if (status != EDGERT_OK) return status;
  const uint8_t *data = bytes->data + in[6].wide;
  edgert_buffer *buffer = NULL;
  if (bytes->writable || (usage & HAL_MEMORY_IMMUTABLE))
    status = edgert_buffer_lend(session->device, data, length, !bytes->writable, &bytes->object,
                                NULL, NULL, &buffer, error);
  else
    status = EDGERT_UNSUPPORTED;
  if (status == EDGERT_UNSUPPORTED && is_try) {
    edgert_error_clear(error);
    return EDGERT_OK;
  }
  if (status == EDGERT_UNSUPPORTED) { /* the program insists: give it a copy */
    edgert_error_clear(error);
    status = edgert_session_buffer(session, length, &buffer, error);
    if (status == EDGERT_OK) status = edgert_buffer_write(buffer, 0, data, length, error);
  }
  if (status == EDGERT_OK)
    out[0].ref = &buffer->object;
  else
    edgert_release(buffer);
  return status;
}

/* The first of the places that are offered. */
static edgert_status hal_memory_select(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)session;
  if (in[3].wide == 0)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program offers no device");
  out[0].ref = edgert_retain(in[4].ref);
  out[1].wide = in[5].wide;
  return EDGERT_OK;
}

/* --- buffers ---------------------------------------------------------------------------------- */

static edgert_status hal_memory_assert(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  edgert_buffer *buffer;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_buffer_kind, &buffer, error);
  if (status != EDGERT_OK) return status;
  edgert_text what = edgert_bytes_text(in[1].ref);
  (void)what;
  if (in[3].wide >= 0 && buffer->size >= (uint64_t)in[3].wide) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "%.*s has %llu bytes and needs %lld",
                     EDGERT_TEXT(what), (unsigned long long)buffer->size, (long long)in[3].wide);
}

static edgert_status hal_memory_part(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  (void)session;
  edgert_buffer *buffer, *part;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_buffer_kind, &buffer, error);
  if (status == EDGERT_OK)
    status = edgert_buffer_part(buffer, (uint64_t)in[1].wide, (uint64_t)in[2].wide, &part, error);
  if (status == EDGERT_OK) out[0].ref = &part->object;
  return status;
}

static edgert_status hal_memory_length(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)session;
  edgert_buffer *buffer;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_buffer_kind, &buffer, error);
  if (status == EDGERT_OK) out[0].wide = (int64_t)buffer->size;
  return status;
}

static edgert_status hal_memory_check_width(int32_t width, edgert_error *error) {
  if (width >= 0 && width <= 4) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "a value has %d bytes", (int)width);
}

static edgert_status hal_memory_load(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  (void)session;
  edgert_buffer *buffer;
  uint32_t value = 0;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_buffer_kind, &buffer, error);
  if (status == EDGERT_OK) status = hal_memory_check_width(in[2].word, error);
  if (status == EDGERT_OK)
    status =
        edgert_buffer_read(buffer, (uint64_t)in[1].wide, &value, (uint64_t)in[2].word, error);
  memcpy(&out[0].word, &value, sizeof value);
  return status;
}

static edgert_status hal_memory_store(edgert_session *session, const edgert_cell *in,
                                      edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  edgert_buffer *buffer;
  edgert_status status = edgert_argument_object(in[1].ref, &edgert_buffer_kind, &buffer, error);
  if (status == EDGERT_OK) status = hal_memory_check_width(in[3].word, error);
  if (status != EDGERT_OK) return status;
  return edgert_buffer_write(buffer, (uint64_t)in[2].wide, &in[0].word, (uint64_t)in[3].word,
                             error);
}

static edgert_status hal_memory_preserve(edgert_session *session, const edgert_cell *in,
                                         edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  edgert_buffer *buffer;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_buffer_kind, &buffer, error);
  if (status == EDGERT_OK) atomic_fetch_add(&buffer->owners, 1);
  return status;
}

static edgert_status hal_memory_discard(edgert_session *session, const edgert_cell *in,
                                        edgert_cell *out, edgert_error *error) {
  (void)session;
  edgert_buffer *buffer;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_buffer_kind, &buffer, error);
  if (status == EDGERT_OK) out[0].word = atomic_fetch_sub(&buffer->owners, 1) == 1;
  return status;
}

static edgert_status hal_memory_is_terminal(edgert_session *session, const edgert_cell *in,
                                            edgert_cell *out, edgert_error *error) {
  (void)session;
  edgert_buffer *buffer;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_buffer_kind, &buffer, error);
  if (status == EDGERT_OK) out[0].word = atomic_load(&buffer->owners) == 1;
  return status;
}

/* --- buffer views ----------------------------------------------------------------------------- */

#define HAL_MEMORY_MAX_RANK 64

static edgert_status hal_memory_shape(const edgert_cell *in, size_t *out_rank,
                                      int64_t out[HAL_MEMORY_MAX_RANK], edgert_error *error) {
  if (in[0].wide > HAL_MEMORY_MAX_RANK)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "a tensor has more than %d dimensions",
                       HAL_MEMORY_MAX_RANK);
  *out_rank = (size_t)in[0].wide;
  for (size_t i = 0; i < *out_rank; ++i) out[i] = in[1 + i].wide;
  return EDGERT_OK;
}

static edgert_status hal_memory_view(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  (void)session;
  edgert_buffer *buffer;
  edgert_tensor *tensor;
  size_t rank = 0;
  int64_t shape[HAL_MEMORY_MAX_RANK];
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_buffer_kind, &buffer, error);
  if (status == EDGERT_OK) status = hal_memory_shape(in + 5, &rank, shape, error);
  if (status == EDGERT_OK)
    status = edgert_tensor_view(buffer, (uint64_t)in[1].wide, (uint64_t)in[2].wide,
                                (uint32_t)in[3].word, (uint32_t)in[4].word, rank, shape, &tensor,
                                error);
  if (status == EDGERT_OK) out[0].ref = &tensor->object;
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

static edgert_status hal_memory_assert_view(edgert_session *session, const edgert_cell *in,
                                            edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  edgert_tensor *tensor;
  size_t rank = 0;
  int64_t shape[HAL_MEMORY_MAX_RANK];
  uint32_t type = (uint32_t)in[2].word;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_tensor_kind, &tensor, error);
  if (status == EDGERT_OK) status = hal_memory_shape(in + 4, &rank, shape, error);
  if (status != EDGERT_OK) return status;
  int fits = rank == tensor->rank && edgert_type_fits(tensor->type, type) &&
             (uint32_t)in[3].word == tensor->encoding;
  for (size_t i = 0; fits && i < rank; ++i) fits = shape[i] < 0 || shape[i] == tensor->shape[i];
  if (fits) return EDGERT_OK;
#if EDGERT_MESSAGES
  char wanted[120], given[120];
  edgert_text what = edgert_bytes_text(in[1].ref);
  return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "%.*s takes %s and was given %s",
                     what.size < 40 ? (int)what.size : 40, what.data,
                     hal_memory_spell(type, rank, shape, wanted, sizeof wanted),
                     hal_memory_spell(tensor->type, tensor->rank, tensor->shape, given,
                                      sizeof given));
#else
  return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "");
#endif
}

static edgert_status hal_memory_view_buffer(edgert_session *session, const edgert_cell *in,
                                            edgert_cell *out, edgert_error *error) {
  (void)session;
  edgert_tensor *tensor;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_tensor_kind, &tensor, error);
  if (status == EDGERT_OK) out[0].ref = edgert_retain(tensor->buffer);
  return status;
}

static edgert_status hal_memory_view_type(edgert_session *session, const edgert_cell *in,
                                          edgert_cell *out, edgert_error *error) {
  (void)session;
  edgert_tensor *tensor;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_tensor_kind, &tensor, error);
  if (status == EDGERT_OK) out[0].word = (int32_t)tensor->type;
  return status;
}

static edgert_status hal_memory_view_encoding(edgert_session *session, const edgert_cell *in,
                                              edgert_cell *out, edgert_error *error) {
  (void)session;
  edgert_tensor *tensor;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_tensor_kind, &tensor, error);
  if (status == EDGERT_OK) out[0].word = (int32_t)tensor->encoding;
  return status;
}

static edgert_status hal_memory_view_rank(edgert_session *session, const edgert_cell *in,
                                          edgert_cell *out, edgert_error *error) {
  (void)session;
  edgert_tensor *tensor;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_tensor_kind, &tensor, error);
  if (status == EDGERT_OK) out[0].word = (int32_t)tensor->rank;
  return status;
}

static edgert_status hal_memory_view_dim(edgert_session *session, const edgert_cell *in,
                                         edgert_cell *out, edgert_error *error) {
  (void)session;
  edgert_tensor *tensor;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_tensor_kind, &tensor, error);
  if (status != EDGERT_OK) return status;
  if (in[1].word < 0 || (size_t)in[1].word >= tensor->rank)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "a tensor has no dimension %d",
                       (int)in[1].word);
  out[0].wide = tensor->shape[in[1].word];
  return EDGERT_OK;
}

static edgert_status hal_memory_view_trace(edgert_session *session, const edgert_cell *in,
                                           edgert_cell *out, edgert_error *error) {
  (void)in, (void)out, (void)error;
  edgert_device_remark(session->device, "the program traces a tensor, which nobody looks at");
  return EDGERT_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static edgert_status hal_memory_file(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  edgert_bytes *bytes;
  uint64_t length;
  edgert_status status =
      hal_memory_range(in[3].ref, in[4].wide, in[5].wide, &bytes, &length, error);
  if (status != EDGERT_OK) return status;
  void *made;
  status = edgert_object_create(&session->object.allocator, &edgert_file_kind, sizeof(edgert_file),
                                &made, error);
  if (status != EDGERT_OK) return status;
  edgert_file *file = made;
  file->bytes = edgert_retain(bytes);
  file->offset = (size_t)in[4].wide;
  file->size = (size_t)length;
  out[0].ref = &file->object;
  return EDGERT_OK;
}

#define HAL_MEMORY_IMPORTS(X) \
  X("allocator.allocate", "rIiiI_r", hal_memory_allocate)           \
  X("allocator.import", "riIiirII_r", hal_memory_import)            \
  X("allocator.select", "iiICrID_rI", hal_memory_select)            \
  X("buffer.allocation.discard", "r_i", hal_memory_discard)         \
  X("buffer.allocation.is_terminal", "r_i", hal_memory_is_terminal) \
  X("buffer.allocation.preserve", "r_v", hal_memory_preserve)       \
  X("buffer.assert", "rrrIii_v", hal_memory_assert)                 \
  X("buffer.length", "r_I", hal_memory_length)                      \
  X("buffer.load", "rIi_i", hal_memory_load)                        \
  X("buffer.store", "irIi_v", hal_memory_store)                     \
  X("buffer.subspan", "rII_r", hal_memory_part)                     \
  X("buffer_view.assert", "rriiCID_v", hal_memory_assert_view)      \
  X("buffer_view.buffer", "r_r", hal_memory_view_buffer)            \
  X("buffer_view.create", "rIIiiCID_r", hal_memory_view)            \
  X("buffer_view.dim", "ri_I", hal_memory_view_dim)                 \
  X("buffer_view.element_type", "r_i", hal_memory_view_type)        \
  X("buffer_view.encoding_type", "r_i", hal_memory_view_encoding)   \
  X("buffer_view.rank", "r_i", hal_memory_view_rank)                \
  X("buffer_view.trace", "rCrD_v", hal_memory_view_trace)           \
  X("ex.file.from_memory", "rIirIIi_r", hal_memory_file)

static const edgert_import_call hal_memory_calls[] = {HAL_MEMORY_IMPORTS(EDGERT_IMPORT_CALL)};
const edgert_import_table edgert_hal_memory_imports = {HAL_MEMORY_IMPORTS(EDGERT_IMPORT_NAME),
    hal_memory_calls};
