/* The `hal` module's functions on devices: queries, executables, queues and fences. */
#include "hal.h"
#include "session.h"

/* What every queue operation begins with. */
#define HAL_QUEUE(X) X(d, device) X(I, affinity) X(E, wait) X(E, signal)

/* When what it waits for is reached. The device does things in order, so that is nothing to wait
 * for; but what signals must not do so sooner. */
static edgert_status hal_queue_begin(const edgert_cell *in, uint64_t *out_point,
                                     edgert_error *error) {
  EDGERT_TAKE(HAL_QUEUE, given, in);
  return edgert_fence_point(given.wait, out_point, error);
}

static edgert_status hal_queue_end(const edgert_cell *in, edgert_status status, uint64_t point) {
  EDGERT_TAKE(HAL_QUEUE, given, in);
  if (status == EDGERT_OK) edgert_fence_signal(given.signal, point);
  return status;
}

/* --- devices ---------------------------------------------------------------------------------- */

static edgert_status hal_queue_count(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  (void)session, (void)in, (void)error;
  out[0].word = 1;
  return EDGERT_OK;
}

#define HAL_INDEX(X) X(i, index)

static edgert_status hal_queue_get(edgert_session *session, const edgert_cell *in,
                                   edgert_cell *out, edgert_error *error) {
  (void)error;
  EDGERT_TAKE(HAL_INDEX, given, in);
  if (given.index == 0) out[0].ref = edgert_retain(session->device);
  return EDGERT_OK;
}

#define HAL_DEVICE(X) X(d, device)

static edgert_status hal_queue_allocator(edgert_session *session, const edgert_cell *in,
                                         edgert_cell *out, edgert_error *error) {
  (void)in, (void)error;
  out[0].ref = edgert_retain(session->heap);
  return EDGERT_OK;
}

#define HAL_QUERY(X) X(d, device) X(Y, category) X(Y, key)

static edgert_status hal_queue_query(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  (void)error;
  EDGERT_TAKE(HAL_QUERY, given, in);
  int64_t value;
  edgert_text category = edgert_bytes_text((edgert_object *)given.category);
  edgert_text key = edgert_bytes_text((edgert_object *)given.key);
  out[0].word = edgert_device_ask(given.device, category, key, &value);
  out[1].wide = value;
  if (!session->is_ready && !value && !session->refused &&
      (edgert_text_equal(category, "hal.device.id") ||
       edgert_text_equal(category, "hal.executable.format")))
    session->refused = edgert_retain(given.key);
  return EDGERT_OK;
}

/* --- executables ------------------------------------------------------------------------------ */

#define HAL_EXECUTABLE(X) X(d, device) X(I, affinity) X(Y, format) X(y, data) X(Y, constants)

static edgert_status hal_queue_load(edgert_session *session, const edgert_cell *in,
                                    edgert_cell *out, edgert_error *error) {
  EDGERT_TAKE(HAL_EXECUTABLE, given, in);
  edgert_text format = edgert_bytes_text((edgert_object *)given.format);
  int64_t runs;
  if (!edgert_device_ask(given.device, (edgert_text){"hal.executable.format", 21}, format, &runs) ||
      !runs)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "%s does not run '%.*s'", given.device->name,
                       EDGERT_TEXT(format));
  edgert_text values = edgert_bytes_text((edgert_object *)given.constants);
  size_t count = values.size / sizeof(uint32_t);
  void *constants;
  edgert_status status = edgert_stack_take(&session->stack, &session->object.allocator,
                                           count * sizeof(uint32_t), &constants, error);
  if (status != EDGERT_OK) return status;
  if (count) memcpy(constants, values.data, count * sizeof(uint32_t));
  edgert_executable *executable;
  status = given.device->driver->load(given.device, format, given.data->data, given.data->size,
                                      constants, count, &executable, error);
  if (status == EDGERT_OK) out[0].ref = &executable->object;
  return status;
}

#define HAL_LOOKUP(X) X(x, executable) X(Y, name)

static edgert_status hal_queue_lookup(edgert_session *session, const edgert_cell *in,
                                      edgert_cell *out, edgert_error *error) {
  (void)session;
  EDGERT_TAKE(HAL_LOOKUP, given, in);
  uint32_t kernel = 0;
  edgert_status status = given.executable->device->driver->find(
      given.executable, edgert_bytes_text((edgert_object *)given.name), &kernel, error);
  out[0].wide = kernel;
  return status;
}

/* --- queues ----------------------------------------------------------------------------------- */

#define HAL_ALLOCA(X) HAL_QUEUE(X) X(I, pool) X(i, types) X(i, usage) X(I, size) X(I, flags)

static edgert_status hal_queue_alloca(edgert_session *session, const edgert_cell *in,
                                      edgert_cell *out, edgert_error *error) {
  EDGERT_TAKE(HAL_ALLOCA, given, in);
  const edgert_memory kind = {(uint32_t)given.types, (uint32_t)given.usage};
  uint64_t point;
  edgert_buffer *buffer;
  edgert_status status = hal_queue_begin(in, &point, error);
  if (status != EDGERT_OK) return status;
  status = edgert_session_buffer(session, kind, given.size, &buffer, error);
  out[0].ref = (edgert_object *)buffer;
  return hal_queue_end(in, status, point);
}

#define HAL_DEALLOCA(X) HAL_QUEUE(X) X(b, buffer) X(I, flags)
#define HAL_BARRIER(X) HAL_QUEUE(X) X(I, flags)

/* Memory goes back when the last reference to it goes; and what only signals. */
static edgert_status hal_queue_nothing(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  uint64_t point;
  edgert_status status = hal_queue_begin(in, &point, error);
  return hal_queue_end(in, status, point);
}

#define HAL_FLUSH(X) X(d, device) X(I, affinity)

static edgert_status hal_queue_flush(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  (void)session, (void)in, (void)out, (void)error;
  return EDGERT_OK;
}

/* Run commands, and signal when they are done; NULL are none. */
static edgert_status hal_queue_run(edgert_session *session, const edgert_cell *in,
                                   edgert_commands *commands, const edgert_range *slots,
                                   size_t slot_count, edgert_error *error) {
  uint64_t point, after = 0;
  edgert_status status = hal_queue_begin(in, &point, error);
  if (status == EDGERT_OK && commands)
    status = session->device->driver->execute(session->device, commands, slots, slot_count,
                                              &session->watch, &after, error);
  return hal_queue_end(in, status, after > point ? after : point);
}

#define HAL_EXECUTE(X) HAL_QUEUE(X) X(K, commands) X(I, flags)

/* The bindings are a span: buffer, offset, length. */
static edgert_status hal_queue_execute_indirect(edgert_session *session, const edgert_cell *in,
                                                edgert_cell *out, edgert_error *error) {
  (void)out;
  EDGERT_TAKE(HAL_EXECUTE, given, in);
  if (given.commands && !given.commands->finished)
    return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program runs unfinished commands");
  const edgert_cell *binding = in + EDGERT_CELLS(given);
  size_t count = (size_t)(binding++)->wide;
  void *memory;
  edgert_status status = edgert_stack_take(&session->stack, &session->object.allocator,
                                           count * sizeof(edgert_range), &memory, error);
  edgert_range *slots = memory;
  for (size_t i = 0; i < count && status == EDGERT_OK; ++i, binding += 3) {
    edgert_buffer *buffer = (edgert_buffer *)binding[0].ref;
    slots[i] = (edgert_range){buffer, 0, (uint64_t)binding[1].wide,
                              binding[2].wide == -1 ? EDGERT_WHOLE : (uint64_t)binding[2].wide};
    if (buffer) status = edgert_range_resolve(slots[i], NULL, 0, &slots[i], error);
  }
  if (status != EDGERT_OK) return status;
  return hal_queue_run(session, in, given.commands, slots, count, error);
}

static edgert_status hal_queue_execute(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  EDGERT_TAKE(HAL_EXECUTE, given, in);
  edgert_cell cells[EDGERT_CELLS(given) + 1];
  memcpy(cells, &given, sizeof given);
  cells[EDGERT_CELLS(given)].wide = 0;
  return hal_queue_execute_indirect(session, cells, out, error);
}

/* One transfer as commands of its own, `status` if it was recorded. */
static edgert_status hal_queue_once(edgert_session *session, const edgert_cell *in,
                                    edgert_commands *commands, edgert_status status,
                                    edgert_error *error) {
  if (status == EDGERT_OK) status = hal_queue_run(session, in, commands, NULL, 0, error);
  edgert_release(commands);
  return status;
}

#define HAL_COPY(X)                                                                    \
  HAL_QUEUE(X) X(b, source) X(I, source_offset) X(b, target) X(I, offset) X(I, length) \
  X(I, flags)

static edgert_status hal_queue_copy(edgert_session *session, const edgert_cell *in,
                                    edgert_cell *out, edgert_error *error) {
  (void)out;
  EDGERT_TAKE(HAL_COPY, given, in);
  const edgert_range source = {given.source, 0, (uint64_t)given.source_offset,
                               (uint64_t)given.length};
  const edgert_range target = {given.target, 0, (uint64_t)given.offset, (uint64_t)given.length};
  edgert_commands *commands;
  edgert_status status =
      edgert_commands_create(session->device, &session->object.allocator, &commands, error);
  if (status != EDGERT_OK) return status;
  status = edgert_commands_copy(commands, source, target, error);
  return hal_queue_once(session, in, commands, status, error);
}

#define HAL_FILL(X)                                                                  \
  HAL_QUEUE(X) X(b, target) X(I, offset) X(I, length) X(I, pattern) X(i, width) X(I, flags)

static edgert_status hal_queue_fill(edgert_session *session, const edgert_cell *in,
                                    edgert_cell *out, edgert_error *error) {
  (void)out;
  EDGERT_TAKE(HAL_FILL, given, in);
  const edgert_range target = {given.target, 0, (uint64_t)given.offset, (uint64_t)given.length};
  edgert_commands *commands;
  edgert_status status =
      edgert_commands_create(session->device, &session->object.allocator, &commands, error);
  if (status != EDGERT_OK) return status;
  status = edgert_commands_fill(commands, target, (uint64_t)given.pattern, (uint32_t)given.width,
                                error);
  return hal_queue_once(session, in, commands, status, error);
}

#define HAL_UPDATE(X)                                                             \
  HAL_QUEUE(X) X(y, bytes) X(I, from) X(b, target) X(I, offset) X(I, length) X(I, flags)

static edgert_status hal_queue_update(edgert_session *session, const edgert_cell *in,
                                      edgert_cell *out, edgert_error *error) {
  (void)out;
  EDGERT_TAKE(HAL_UPDATE, given, in);
  const edgert_range target = {given.target, 0, (uint64_t)given.offset, (uint64_t)given.length};
  const uint8_t *data;
  edgert_commands *commands;
  edgert_status status =
      edgert_bytes_read(&given.bytes->object, given.from, given.length, 1, &data, error);
  if (status == EDGERT_OK)
    status = edgert_commands_create(session->device, &session->object.allocator, &commands, error);
  if (status != EDGERT_OK) return status;
  status = edgert_commands_update(commands, data, target, error);
  return hal_queue_once(session, in, commands, status, error);
}

/* Where a stretch of a file lies. */
static edgert_status hal_queue_file(const edgert_file *file, int64_t offset, int64_t length,
                                    uint8_t **out, edgert_error *error) {
  edgert_status status = edgert_range_check(file->size, (uint64_t)offset, (uint64_t)length, error);
  if (status != EDGERT_OK) return status;
  *out = file->bytes->data + file->offset + offset;
  return EDGERT_OK;
}

#define HAL_READ(X)                                                                \
  HAL_QUEUE(X) X(l, file) X(I, from) X(b, target) X(I, offset) X(I, length) X(I, flags)

static edgert_status hal_queue_read(edgert_session *session, const edgert_cell *in,
                                    edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  EDGERT_TAKE(HAL_READ, given, in);
  uint8_t *data = NULL;
  uint64_t point;
  edgert_status status = hal_queue_begin(in, &point, error);
  if (status == EDGERT_OK)
    status = hal_queue_file(given.file, given.from, given.length, &data, error);
  if (status == EDGERT_OK)
    status = edgert_buffer_write(given.target, (uint64_t)given.offset, data,
                                 (uint64_t)given.length, error);
  return hal_queue_end(in, status, point);
}

#define HAL_WRITE(X)                                                                 \
  HAL_QUEUE(X) X(b, source) X(I, from) X(l, file) X(I, offset) X(I, length) X(I, flags)

static edgert_status hal_queue_write(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  EDGERT_TAKE(HAL_WRITE, given, in);
  uint8_t *data = NULL;
  uint64_t point;
  edgert_status status = hal_queue_begin(in, &point, error);
  if (status == EDGERT_OK)
    status = hal_queue_file(given.file, given.offset, given.length, &data, error);
  if (status == EDGERT_OK && !given.file->bytes->writable)
    status = EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program writes to constant bytes");
  if (status == EDGERT_OK)
    status = edgert_buffer_read(given.source, (uint64_t)given.from, data, (uint64_t)given.length,
                                error);
  return hal_queue_end(in, status, point);
}

/* --- fences ----------------------------------------------------------------------------------- */

#define HAL_FENCE_CREATE(X) X(d, device) X(I, flags)

static edgert_status hal_queue_fence_create(edgert_session *session, const edgert_cell *in,
                                            edgert_cell *out, edgert_error *error) {
  (void)in;
  edgert_fence *fence;
  edgert_status status = edgert_fence_create(&session->object.allocator, &fence, error);
  out[0].ref = (edgert_object *)fence;
  return status;
}

/* Fences are reached in order, so a join is what its parts, a span, are by now. */
#define HAL_JOIN(X) X(I, flags)

static edgert_status hal_queue_fence_join(edgert_session *session, const edgert_cell *in,
                                          edgert_cell *out, edgert_error *error) {
  edgert_fence *joined;
  edgert_status status = edgert_fence_create(&session->object.allocator, &joined, error);
  if (status != EDGERT_OK) return status;
  joined->is_signalled = 1;
  for (int64_t i = 0; i < in[1].wide; ++i) {
    const edgert_fence *fence = (const edgert_fence *)in[2 + i].ref;
    if (!fence) continue;
    joined->is_signalled &= fence->is_signalled;
    if (fence->point > joined->point) joined->point = fence->point;
    if (fence->code) joined->code = fence->code;
  }
  out[0].ref = &joined->object;
  return EDGERT_OK;
}

#define HAL_FENCE(X) X(e, fence)

static edgert_status hal_queue_fence_query(edgert_session *session, const edgert_cell *in,
                                           edgert_cell *out, edgert_error *error) {
  EDGERT_TAKE(HAL_FENCE, given, in);
  edgert_status status = EDGERT_TIMED_OUT;
  out[0].word = given.fence->code;
  if (given.fence->code) return EDGERT_OK;
  if (given.fence->is_signalled) status = edgert_session_wait(session, given.fence, 0, error);
  if (status == EDGERT_TIMED_OUT) out[0].word = EDGERT_CODE_DEFERRED;
  return status == EDGERT_TIMED_OUT ? EDGERT_OK : status;
}

static edgert_status hal_queue_fence_signal(edgert_session *session, const edgert_cell *in,
                                            edgert_cell *out, edgert_error *error) {
  (void)session, (void)out, (void)error;
  EDGERT_TAKE(HAL_FENCE, given, in);
  edgert_fence_signal(given.fence, 0);
  return EDGERT_OK;
}

#define HAL_FENCE_FAIL(X) X(e, fence) X(i, code)

static edgert_status hal_queue_fence_fail(edgert_session *session, const edgert_cell *in,
                                          edgert_cell *out, edgert_error *error) {
  (void)session, (void)out, (void)error;
  EDGERT_TAKE(HAL_FENCE_FAIL, given, in);
  if (!given.fence->is_signalled) given.fence->code = given.code;
  return EDGERT_OK;
}

/* The fences are a span. */
#define HAL_AWAIT(X) X(i, milliseconds) X(I, flags)

static edgert_status hal_queue_fence_await(edgert_session *session, const edgert_cell *in,
                                           edgert_cell *out, edgert_error *error) {
  EDGERT_TAKE(HAL_AWAIT, given, in);
  const edgert_cell *fences = in + EDGERT_CELLS(given);
  int is_endless = given.milliseconds == -1;
  uint64_t most = is_endless ? UINT64_MAX : (uint32_t)given.milliseconds;
  edgert_status status = EDGERT_OK;
  for (int64_t i = 0; i < fences[0].wide && status == EDGERT_OK; ++i) {
    const edgert_fence *fence = (const edgert_fence *)fences[1 + i].ref;
    if (!is_endless && fence && !fence->is_signalled && !fence->code)
      status = EDGERT_TIMED_OUT;
    else
      status = edgert_session_wait(session, fence, most, error);
  }
  if (status == EDGERT_TIMED_OUT) out[0].word = EDGERT_CODE_DEADLINE;
  return status == EDGERT_TIMED_OUT ? EDGERT_OK : status;
}

#define HAL_QUEUE_IMPORTS(X)                                                                    \
  X("device.allocator", EDGERT_ARGUMENTS(HAL_DEVICE), "r", hal_queue_allocator)                 \
  X(".query.i64", EDGERT_ARGUMENTS(HAL_QUERY), "iI", hal_queue_query)                           \
  X(".queue.alloca", EDGERT_ARGUMENTS(HAL_ALLOCA), "r", hal_queue_alloca)                       \
  X(".queue.barrier", EDGERT_ARGUMENTS(HAL_BARRIER), "v", hal_queue_nothing)                    \
  X(".queue.copy", EDGERT_ARGUMENTS(HAL_COPY), "v", hal_queue_copy)                             \
  X(".queue.dealloca", EDGERT_ARGUMENTS(HAL_DEALLOCA), "v", hal_queue_nothing)                  \
  X(".queue.execute", EDGERT_ARGUMENTS(HAL_EXECUTE), "v", hal_queue_execute)                    \
  X(".queue.execute.indirect", EDGERT_ARGUMENTS(HAL_EXECUTE) "CBIID", "v",                      \
    hal_queue_execute_indirect)                                                                 \
  X(".queue.fill", EDGERT_ARGUMENTS(HAL_FILL), "v", hal_queue_fill)                             \
  X(".queue.flush", EDGERT_ARGUMENTS(HAL_FLUSH), "v", hal_queue_flush)                          \
  X(".queue.read", EDGERT_ARGUMENTS(HAL_READ), "v", hal_queue_read)                             \
  X(".queue.update", EDGERT_ARGUMENTS(HAL_UPDATE), "v", hal_queue_update)                       \
  X(".queue.write", EDGERT_ARGUMENTS(HAL_WRITE), "v", hal_queue_write)                          \
  X("devices.count", "v", "i", hal_queue_count)                                                 \
  X(".get", EDGERT_ARGUMENTS(HAL_INDEX), "r", hal_queue_get)                                    \
  X("executable.create", EDGERT_ARGUMENTS(HAL_EXECUTABLE), "r", hal_queue_load)                 \
  X(".lookup.function", EDGERT_ARGUMENTS(HAL_LOOKUP), "I", hal_queue_lookup)                    \
  X("fence.await", EDGERT_ARGUMENTS(HAL_AWAIT) "CED", "i", hal_queue_fence_await)               \
  X(".create", EDGERT_ARGUMENTS(HAL_FENCE_CREATE), "r", hal_queue_fence_create)                 \
  X(".fail", EDGERT_ARGUMENTS(HAL_FENCE_FAIL), "v", hal_queue_fence_fail)                       \
  X(".join", EDGERT_ARGUMENTS(HAL_JOIN) "CED", "r", hal_queue_fence_join)                       \
  X(".query", EDGERT_ARGUMENTS(HAL_FENCE), "i", hal_queue_fence_query)                          \
  X(".signal", EDGERT_ARGUMENTS(HAL_FENCE), "v", hal_queue_fence_signal)

EDGERT_IMPORT_TABLE(hal_queue, HAL_QUEUE_IMPORTS)
