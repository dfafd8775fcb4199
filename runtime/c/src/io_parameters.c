/* The `io_parameters` module: weights from files beside the program. */
#include "hal.h"
#include "seal.h"
#include "session.h"
#include "weights.h"

/* The tables that all three functions take: for each weight a key, and what goes where. */
typedef struct io_parameters_request {
  edgert_text scope;
  edgert_text table; /* offset and length of each key, 32 bits each */
  edgert_text keys;
  edgert_text spans; /* place in the weight, place in the buffer, length, 64 bits each */
  size_t count;
} io_parameters_request;

enum { IO_PARAMETERS_PIECE = 256 << 10 };

typedef struct io_parameters_span {
  uint64_t weight_offset, buffer_offset, length;
} io_parameters_span;

static edgert_status io_parameters_read(edgert_bytes *scope, edgert_bytes *table,
                                        edgert_bytes *keys, edgert_bytes *spans,
                                        io_parameters_request *out, edgert_error *error) {
  out->scope = edgert_bytes_text((edgert_object *)scope);
  out->table = edgert_bytes_text((edgert_object *)table);
  out->keys = edgert_bytes_text((edgert_object *)keys);
  out->spans = edgert_bytes_text((edgert_object *)spans);
  out->count = out->spans.size / sizeof(io_parameters_span);
  if (out->table.size / 8 >= out->count) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program names fewer weights than it takes");
}

static const edgert_weight *io_parameters_search(const edgert_session *session, edgert_text scope,
                                                 edgert_text key) {
  for (size_t i = 0; i < session->scope_count; ++i) {
    const edgert_session_scope *candidate = &session->scopes[i];
    if (candidate->name && !edgert_text_equal(scope, candidate->name)) continue;
    const edgert_weight *found = edgert_weights_find(candidate->weights, key);
    if (found) return found;
  }
  return NULL;
}

/* Which file a weight, which was found in one, lies in. */
static const edgert_session_scope *io_parameters_owner(const edgert_session *session,
                                                       const edgert_weight *weight) {
  const edgert_session_scope *scope = session->scopes;
  while (weight < scope->weights->entries ||
         weight >= scope->weights->entries + scope->weights->count)
    ++scope;
  return scope;
}

/* The weight that entry `index` names, and its span, which lies inside the weight. */
static edgert_status io_parameters_find(const edgert_session *session,
                                        const io_parameters_request *request, size_t index,
                                        const edgert_weight **out, io_parameters_span *out_span,
                                        edgert_error *error) {
  uint32_t at = edgert_load_u32(request->table.data + 8 * index);
  uint32_t size = edgert_load_u32(request->table.data + 8 * index + 4);
  if (!edgert_in_range(at, size, request->keys.size))
    return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "a weight's name lies outside");
  const edgert_text key = {request->keys.data + at, size};
  *out = io_parameters_search(session, request->scope, key);
  if (!*out)
    return EDGERT_FAIL(error, EDGERT_NOT_FOUND,
                       session->scope_count ? "the weights file lacks '%.*s'"
                                            : "the module keeps '%.*s' in a weights file: give it",
                       EDGERT_TEXT(key));
  memcpy(out_span, request->spans.data + index * sizeof *out_span, sizeof *out_span);
  if (edgert_in_range(out_span->weight_offset, out_span->length, (*out)->size)) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT,
                     "the weight '%.*s' has %llu bytes and the module takes more: "
                     "use the file exported with the program",
                     EDGERT_TEXT(key), (unsigned long long)(*out)->size);
}

/* Repeat a pattern over a buffer, piece by piece. */
static edgert_status io_parameters_splat(const edgert_weight *weight, edgert_buffer *buffer,
                                         const io_parameters_span *span, edgert_error *error) {
  uint8_t piece[240]; /* a multiple of 1 to 6, 8, 10, 12, 15 and 16 */
  size_t whole = sizeof piece - sizeof piece % weight->pattern_size;
  size_t phase = (size_t)(span->weight_offset % weight->pattern_size);
  for (size_t i = 0; i < whole; ++i) piece[i] = weight->pattern[(i + phase) % weight->pattern_size];
  for (uint64_t at = 0; at < span->length; at += whole) {
    uint64_t size = span->length - at < whole ? span->length - at : whole;
    edgert_status status =
        edgert_buffer_write(buffer, span->buffer_offset + at, piece, size, error);
    if (status != EDGERT_OK) return status;
  }
  return EDGERT_OK;
}

/* Bytes that a reader gives, piece by piece. */
static edgert_status io_parameters_ask(const edgert_session *session, const edgert_weight *weight,
                                       edgert_buffer *buffer, const io_parameters_span *span,
                                       edgert_error *error) {
  const edgert_weights *weights = io_parameters_owner(session, weight)->weights;
  const edgert_allocator *allocator = &session->object.allocator;
  size_t most = span->length < IO_PARAMETERS_PIECE ? (size_t)span->length : IO_PARAMETERS_PIECE;
  void *piece;
  edgert_status status = edgert_allocate(allocator, most + 1, EDGERT_ALIGNMENT, &piece, error);
  if (status != EDGERT_OK) return status;
  for (uint64_t at = 0; status == EDGERT_OK && at < span->length; at += most) {
    size_t size = span->length - at < most ? (size_t)(span->length - at) : most;
    status = edgert_weights_copy(weights, weight, span->weight_offset + at, piece, size, error);
    if (status == EDGERT_OK)
      status = edgert_buffer_write(buffer, span->buffer_offset + at, piece, size, error);
  }
  edgert_deallocate(allocator, piece);
  return status;
}

static edgert_status io_parameters_fill(const edgert_session *session, const edgert_weight *weight,
                                        edgert_buffer *buffer, const io_parameters_span *span,
                                        edgert_error *error) {
  if (weight->pattern_size) return io_parameters_splat(weight, buffer, span, error);
#if EDGERT_WITH_SIGNATURES
  edgert_status status =
      edgert_pages_check(io_parameters_owner(session, weight)->pages,
                         weight->place + span->weight_offset, span->length, error);
  if (status != EDGERT_OK) return status;
#endif
  if (EDGERT_WITH_READERS && !weight->data)
    return io_parameters_ask(session, weight, buffer, span, error);
  return edgert_buffer_write(buffer, span->buffer_offset, weight->data + span->weight_offset,
                             span->length, error);
}

/* A buffer for one weight: the file's own memory where nobody writes to it and it lies well. */
static edgert_status io_parameters_buffer(edgert_session *session, const edgert_weight *weight,
                                          const io_parameters_span *span, edgert_memory kind,
                                          edgert_buffer **out, edgert_error *error) {
  *out = NULL;
  const edgert_session_scope *owner = io_parameters_owner(session, weight);
  if ((kind.usage & EDGERT_USAGE_IMMUTABLE) && weight->data && span->buffer_offset == 0) {
    edgert_object *lender = &owner->weights->object;
#if EDGERT_WITH_SIGNATURES
    if (owner->pages) lender = (edgert_object *)owner->pages;
#endif
    edgert_status status = edgert_buffer_lend(session->device, weight->data + span->weight_offset,
                                              span->length, 1, lender, NULL, NULL, out, error);
#if EDGERT_WITH_SIGNATURES
    if (status == EDGERT_OK) (*out)->pages = owner->pages;
    if (status == EDGERT_OK) (*out)->place = weight->place + span->weight_offset;
#endif
    if (status != EDGERT_UNSUPPORTED) return status;
    edgert_error_clear(error);
  }
  uint64_t size = span->buffer_offset + span->length;
  if (size < span->length || size > INT64_MAX)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "a weight's place overflows");
  edgert_status status = edgert_session_buffer(session, kind, (int64_t)size, out, error);
  if (status == EDGERT_OK) status = io_parameters_fill(session, weight, *out, span, error);
  if (status == EDGERT_OK) return status;
  edgert_release(*out);
  *out = NULL;
  return status;
}

#define IO_LOAD(X)                                                                      \
  X(d, device) X(I, affinity) X(E, wait) X(E, signal) X(Y, scope) X(I, target) X(i, types) \
  X(i, usage) X(Y, table) X(Y, keys) X(Y, spans)

static edgert_status io_parameters_load(edgert_session *session, const edgert_cell *in,
                                        edgert_cell *out, edgert_error *error) {
  EDGERT_TAKE(IO_LOAD, given, in);
  const edgert_memory kind = {(uint32_t)given.types, (uint32_t)given.usage};
  uint64_t point;
  io_parameters_request request;
  edgert_list *list = NULL;
  const edgert_type type = {.slot = EDGERT_SLOT_REF, .kind = EDGERT_KIND_BUFFER, .known = 1};
  edgert_status status = edgert_fence_point(given.wait, &point, error);
  if (status == EDGERT_OK)
    status = io_parameters_read(given.scope, given.table, given.keys, given.spans, &request, error);
  if (status == EDGERT_OK)
    status = edgert_list_create(&session->object.allocator, &session->lists, type, 0, &list, error);
  if (status == EDGERT_OK) status = edgert_list_resize(list, (uint32_t)request.count, error);
  for (size_t i = 0; status == EDGERT_OK && i < request.count; ++i) {
    const edgert_weight *weight;
    io_parameters_span span;
    edgert_buffer *buffer;
    status = io_parameters_find(session, &request, i, &weight, &span, error);
    if (status == EDGERT_OK)
      status = io_parameters_buffer(session, weight, &span, kind, &buffer, error);
    if (status == EDGERT_OK)
      status = edgert_list_set_ref(list, (uint32_t)i, &buffer->object, error);
  }
  if (status != EDGERT_OK) {
    edgert_release(list);
    return status;
  }
  edgert_fence_signal(given.signal, point);
  out[0].ref = &list->object;
  return EDGERT_OK;
}

#define IO_GATHER(X)                                                                  \
  X(d, device) X(I, affinity) X(E, wait) X(E, signal) X(Y, scope) X(b, target) X(Y, table) \
  X(Y, keys) X(Y, spans)

static edgert_status io_parameters_gather(edgert_session *session, const edgert_cell *in,
                                          edgert_cell *out, edgert_error *error) {
  (void)out;
  EDGERT_TAKE(IO_GATHER, given, in);
  uint64_t point;
  io_parameters_request request;
  edgert_status status = edgert_fence_point(given.wait, &point, error);
  if (status == EDGERT_OK)
    status = io_parameters_read(given.scope, given.table, given.keys, given.spans, &request, error);
  for (size_t i = 0; status == EDGERT_OK && i < request.count; ++i) {
    const edgert_weight *weight;
    io_parameters_span span;
    status = io_parameters_find(session, &request, i, &weight, &span, error);
    if (status == EDGERT_OK) status = io_parameters_fill(session, weight, given.target, &span, error);
  }
  if (status == EDGERT_OK) edgert_fence_signal(given.signal, point);
  return status;
}

static edgert_status io_parameters_scatter(edgert_session *session, const edgert_cell *in,
                                           edgert_cell *out, edgert_error *error) {
  (void)session, (void)in, (void)out;
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "weights files are not written");
}

#define IO_PARAMETERS_IMPORTS(X)                                     \
  X("gather", EDGERT_ARGUMENTS(IO_GATHER), "v", io_parameters_gather) \
  X("load", EDGERT_ARGUMENTS(IO_LOAD), "r", io_parameters_load)       \
  X("scatter", "rIrrrrrrr", "v", io_parameters_scatter)

EDGERT_IMPORT_TABLE(io_parameters, IO_PARAMETERS_IMPORTS)
