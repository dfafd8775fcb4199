/* The `hal` module's functions on devices: queries, executables, queues and fences. */
#include "hal.h"
#include "session.h"

static edgert_status hal_queue_fence(edgert_object *object, edgert_fence **out,
                                     edgert_error *error) {
  *out = NULL;
  return object ? edgert_argument_object(object, &edgert_fence_kind, out, error) : EDGERT_OK;
}

/* What every queue operation begins with: device, affinity, the fence to wait for, the fence to
 * signal. */
static edgert_status hal_queue_begin(edgert_session *session, const edgert_cell *in,
                                     edgert_fence **out_signal, edgert_error *error) {
  edgert_device *device;
  edgert_fence *wait;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_device_kind, &device, error);
  if (status == EDGERT_OK) status = hal_queue_fence(in[2].ref, &wait, error);
  if (status == EDGERT_OK) status = hal_queue_fence(in[3].ref, out_signal, error);
  if (status == EDGERT_OK) status = edgert_fence_wait(wait, error);
  if (status == EDGERT_OK && device != session->device)
    status = EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program uses a foreign device");
  return status;
}

static edgert_status hal_queue_end(edgert_status status, edgert_fence *signal) {
  if (status == EDGERT_OK) edgert_fence_signal(signal);
  return status;
}

/* --- devices ---------------------------------------------------------------------------------- */

static edgert_status hal_queue_count(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  (void)session, (void)in, (void)error;
  out[0].word = 1;
  return EDGERT_OK;
}

static edgert_status hal_queue_get(edgert_session *session, const edgert_cell *in,
                                   edgert_cell *out, edgert_error *error) {
  (void)error;
  if (in[0].word == 0) out[0].ref = edgert_retain(session->device);
  return EDGERT_OK;
}

static edgert_status hal_queue_allocator(edgert_session *session, const edgert_cell *in,
                                         edgert_cell *out, edgert_error *error) {
  edgert_device *device;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_device_kind, &device, error);
  if (status == EDGERT_OK) out[0].ref = edgert_retain(session->heap);
  return status;
}

static edgert_status hal_queue_query(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  edgert_device *device;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_device_kind, &device, error);
  if (status != EDGERT_OK) return status;
  int64_t value = 0;
  edgert_text category = edgert_bytes_text(in[1].ref);
  out[0].word = device->driver->query(device, category, edgert_bytes_text(in[2].ref), &value);
  out[1].wide = value;
  if (!session->is_ready && !value && !session->refused &&
      (edgert_text_equal(category, "hal.device.id") ||
       edgert_text_equal(category, "hal.executable.format")))
    session->refused = edgert_retain(in[2].ref);
  return EDGERT_OK;
}

/* --- executables ------------------------------------------------------------------------------ */

static edgert_status hal_queue_load(edgert_session *session, const edgert_cell *in,
                                    edgert_cell *out, edgert_error *error) {
  edgert_device *device;
  edgert_bytes *data;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_device_kind, &device, error);
  if (status == EDGERT_OK)
    status = edgert_argument_object(in[3].ref, &edgert_bytes_kind, &data, error);
  if (status != EDGERT_OK) return status;
  edgert_text given = edgert_bytes_text(in[4].ref);
  size_t count = given.size / sizeof(uint32_t);
  void *constants;
  status = edgert_stack_take(&session->stack, &session->object.allocator,
                             count * sizeof(uint32_t), &constants, error);
  if (status != EDGERT_OK) return status;
  if (count) memcpy(constants, given.data, count * sizeof(uint32_t));
  edgert_executable *executable;
  status = session->device->driver->load(session->device, edgert_bytes_text(in[2].ref), data->data,
                                         data->size, constants, count, &executable, error);
  if (status == EDGERT_OK) out[0].ref = &executable->object;
  return status;
}

static edgert_status hal_queue_lookup(edgert_session *session, const edgert_cell *in,
                                      edgert_cell *out, edgert_error *error) {
  (void)session;
  edgert_executable *executable;
  uint32_t kernel = 0;
  edgert_status status =
      edgert_argument_object(in[0].ref, &edgert_executable_kind, &executable, error);
  if (status == EDGERT_OK)
    status = executable->device->driver->find(executable, edgert_bytes_text(in[1].ref), &kernel,
                                              error);
  out[0].wide = kernel;
  return status;
}

/* --- queues ----------------------------------------------------------------------------------- */

static edgert_status hal_queue_alloca(edgert_session *session, const edgert_cell *in,
                                      edgert_cell *out, edgert_error *error) {
  edgert_fence *signal;
  edgert_buffer *buffer;
  edgert_status status = hal_queue_begin(session, in, &signal, error);
  if (status != EDGERT_OK) return status;
  if (in[7].wide < 0)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program asks for %lld bytes",
                       (long long)in[7].wide);
  status = edgert_session_buffer(session, (uint64_t)in[7].wide, &buffer, error);
  if (status == EDGERT_OK) out[0].ref = &buffer->object;
  return hal_queue_end(status, signal);
}

/* Memory goes back when the last reference to it goes; and what only signals. */
static edgert_status hal_queue_nothing(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)out;
  edgert_fence *signal;
  edgert_status status = hal_queue_begin(session, in, &signal, error);
  return hal_queue_end(status, signal);
}

static edgert_status hal_queue_flush(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  edgert_device *device;
  return edgert_argument_object(in[0].ref, &edgert_device_kind, &device, error);
}

static edgert_status hal_queue_run(edgert_session *session, const edgert_cell *in,
                                   const edgert_range *slots, size_t slot_count,
                                   edgert_error *error) {
  edgert_fence *signal;
  edgert_commands *commands = NULL;
  edgert_status status = hal_queue_begin(session, in, &signal, error);
  if (status == EDGERT_OK && in[4].ref)
    status = edgert_argument_object(in[4].ref, &edgert_commands_kind, &commands, error);
  if (status != EDGERT_OK) return status;
  if (commands && !commands->finished)
    return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program runs unfinished commands");
  if (commands)
    status = session->device->driver->execute(session->device, commands, slots, slot_count,
                                              &session->watch, error);
  return hal_queue_end(status, signal);
}

static edgert_status hal_queue_execute(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)out;
  return hal_queue_run(session, in, NULL, 0, error);
}

static edgert_status hal_queue_execute_indirect(edgert_session *session, const edgert_cell *in,
                                                edgert_cell *out, edgert_error *error) {
  (void)out;
  size_t count = (size_t)in[6].wide;
  void *memory;
  edgert_status status = edgert_stack_take(&session->stack, &session->object.allocator,
                                           count * sizeof(edgert_range), &memory, error);
  if (status != EDGERT_OK) return status;
  edgert_range *slots = memory;
  in += 7;
  for (size_t i = 0; i < count; ++i, in += 3) {
    edgert_buffer *buffer = NULL;
    if (in[0].ref)
      status = edgert_argument_object(in[0].ref, &edgert_buffer_kind, &buffer, error);
    if (status != EDGERT_OK) return status;
    slots[i] = (edgert_range){buffer, 0, (uint64_t)in[1].wide,
                              in[2].wide == -1 ? EDGERT_WHOLE : (uint64_t)in[2].wide};
    if (buffer) status = edgert_range_resolve(slots[i], NULL, 0, &slots[i], error);
    if (status != EDGERT_OK) return status;
  }
  return hal_queue_run(session, in - 3 * (ptrdiff_t)count - 7, slots, count, error);
}

/* One transfer as commands of its own. */
static edgert_status hal_queue_once(edgert_session *session, edgert_fence *signal,
                                    edgert_commands *commands, edgert_status status,
                                    edgert_error *error) {
  if (status == EDGERT_OK)
    status = session->device->driver->execute(session->device, commands, NULL, 0, &session->watch,
                                              error);
  edgert_release(commands);
  return hal_queue_end(status, signal);
}

static edgert_status hal_queue_begin_once(edgert_session *session, const edgert_cell *in,
                                          edgert_fence **out_signal, edgert_commands **out,
                                          edgert_error *error) {
  *out = NULL;
  edgert_status status = hal_queue_begin(session, in, out_signal, error);
  return status == EDGERT_OK ? edgert_commands_create(session->device, &session->object.allocator, out, error) : status;
}

static edgert_status hal_queue_copy(edgert_session *session, const edgert_cell *in,
                                    edgert_cell *out, edgert_error *error) {
  (void)out;
  edgert_fence *signal;
  edgert_commands *commands;
  edgert_range source = {NULL, 0, (uint64_t)in[5].wide, (uint64_t)in[8].wide};
  edgert_range target = {NULL, 0, (uint64_t)in[7].wide, (uint64_t)in[8].wide};
  edgert_status status = hal_queue_begin_once(session, in, &signal, &commands, error);
  if (status != EDGERT_OK) return status;
  status = edgert_argument_object(in[4].ref, &edgert_buffer_kind, &source.buffer, error);
  if (status == EDGERT_OK)
    status = edgert_argument_object(in[6].ref, &edgert_buffer_kind, &target.buffer, error);
  if (status == EDGERT_OK) status = edgert_commands_copy(commands, source, target, error);
  return hal_queue_once(session, signal, commands, status, error);
}

static edgert_status hal_queue_fill(edgert_session *session, const edgert_cell *in,
                                    edgert_cell *out, edgert_error *error) {
  (void)out;
  edgert_fence *signal;
  edgert_commands *commands;
  edgert_range target = {NULL, 0, (uint64_t)in[5].wide, (uint64_t)in[6].wide};
  edgert_status status = hal_queue_begin_once(session, in, &signal, &commands, error);
  if (status != EDGERT_OK) return status;
  status = edgert_argument_object(in[4].ref, &edgert_buffer_kind, &target.buffer, error);
  if (status == EDGERT_OK)
    status = edgert_commands_fill(commands, target, (uint64_t)in[7].wide, (uint32_t)in[8].word,
                                  error);
  return hal_queue_once(session, signal, commands, status, error);
}

static edgert_status hal_queue_update(edgert_session *session, const edgert_cell *in,
                                      edgert_cell *out, edgert_error *error) {
  (void)out;
  edgert_fence *signal;
  edgert_commands *commands;
  const uint8_t *data;
  edgert_range target = {NULL, 0, (uint64_t)in[7].wide, (uint64_t)in[8].wide};
  edgert_status status = hal_queue_begin_once(session, in, &signal, &commands, error);
  if (status != EDGERT_OK) return status;
  status = edgert_bytes_read(in[4].ref, in[5].wide, in[8].wide, 1, &data, error);
  if (status == EDGERT_OK)
    status = edgert_argument_object(in[6].ref, &edgert_buffer_kind, &target.buffer, error);
  if (status == EDGERT_OK) status = edgert_commands_update(commands, data, target, error);
  return hal_queue_once(session, signal, commands, status, error);
}

/* Where a stretch of a file lies. */
static edgert_status hal_queue_file(edgert_object *object, int64_t offset, int64_t length,
                                    edgert_file **out, uint8_t **out_data, edgert_error *error) {
  edgert_status status = edgert_argument_object(object, &edgert_file_kind, out, error);
  if (status != EDGERT_OK) return status;
  if (!edgert_in_range((uint64_t)offset, (uint64_t)length, (*out)->size))
    return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "%lld bytes at %lld are not inside a file",
                       (long long)length, (long long)offset);
  *out_data = (*out)->bytes->data + (*out)->offset + offset;
  return EDGERT_OK;
}

static edgert_status hal_queue_read(edgert_session *session, const edgert_cell *in,
                                    edgert_cell *out, edgert_error *error) {
  (void)out;
  edgert_fence *signal;
  edgert_file *file;
  edgert_buffer *target;
  uint8_t *data = NULL;
  edgert_status status = hal_queue_begin(session, in, &signal, error);
  if (status == EDGERT_OK)
    status = hal_queue_file(in[4].ref, in[5].wide, in[8].wide, &file, &data, error);
  if (status == EDGERT_OK)
    status = edgert_argument_object(in[6].ref, &edgert_buffer_kind, &target, error);
  if (status == EDGERT_OK)
    status =
        edgert_buffer_write(target, (uint64_t)in[7].wide, data, (uint64_t)in[8].wide, error);
  return hal_queue_end(status, signal);
}

static edgert_status hal_queue_write(edgert_session *session, const edgert_cell *in,
                                     edgert_cell *out, edgert_error *error) {
  (void)out;
  edgert_fence *signal;
  edgert_file *file;
  edgert_buffer *source;
  uint8_t *data = NULL;
  edgert_status status = hal_queue_begin(session, in, &signal, error);
  if (status == EDGERT_OK)
    status = edgert_argument_object(in[4].ref, &edgert_buffer_kind, &source, error);
  if (status == EDGERT_OK)
    status = hal_queue_file(in[6].ref, in[7].wide, in[8].wide, &file, &data, error);
  if (status == EDGERT_OK && !file->bytes->writable)
    status = EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program writes to constant bytes");
  if (status == EDGERT_OK)
    status = edgert_buffer_read(source, (uint64_t)in[5].wide, data, (uint64_t)in[8].wide, error);
  return hal_queue_end(status, signal);
}

/* --- fences ----------------------------------------------------------------------------------- */

static edgert_status hal_queue_fence_create(edgert_session *session, const edgert_cell *in,
                                            edgert_cell *out, edgert_error *error) {
  (void)in;
  edgert_fence *fence;
  edgert_status status = edgert_fence_create(&session->object.allocator, &fence, error);
  if (status == EDGERT_OK) out[0].ref = &fence->object;
  return status;
}

/* Fences are reached in order, so a join is what its parts are by now. */
static edgert_status hal_queue_fence_join(edgert_session *session, const edgert_cell *in,
                                          edgert_cell *out, edgert_error *error) {
  edgert_fence *joined;
  edgert_status status = edgert_fence_create(&session->object.allocator, &joined, error);
  if (status != EDGERT_OK) return status;
  joined->reached = 1;
  for (int64_t i = 0; i < in[1].wide && status == EDGERT_OK; ++i) {
    edgert_fence *fence;
    status = hal_queue_fence(in[2 + i].ref, &fence, error);
    if (status != EDGERT_OK || !fence) continue;
    joined->reached &= fence->reached;
    if (fence->code) joined->code = fence->code;
  }
  if (status == EDGERT_OK)
    out[0].ref = &joined->object;
  else
    edgert_release(joined);
  return status;
}

static edgert_status hal_queue_fence_query(edgert_session *session, const edgert_cell *in,
                                           edgert_cell *out, edgert_error *error) {
  (void)session;
  edgert_fence *fence;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_fence_kind, &fence, error);
  if (status == EDGERT_OK)
    out[0].word = fence->code ? fence->code : fence->reached ? EDGERT_CODE_OK : EDGERT_CODE_DEFERRED;
  return status;
}

static edgert_status hal_queue_fence_signal(edgert_session *session, const edgert_cell *in,
                                            edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  edgert_fence *fence;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_fence_kind, &fence, error);
  if (status == EDGERT_OK) edgert_fence_signal(fence);
  return status;
}

static edgert_status hal_queue_fence_fail(edgert_session *session, const edgert_cell *in,
                                          edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  edgert_fence *fence;
  edgert_status status = edgert_argument_object(in[0].ref, &edgert_fence_kind, &fence, error);
  if (status == EDGERT_OK && !fence->reached) fence->code = in[1].word;
  return status;
}

static edgert_status hal_queue_fence_await(edgert_session *session, const edgert_cell *in,
                                           edgert_cell *out, edgert_error *error) {
  (void)session;
  int is_infinite = in[0].word == -1;
  for (int64_t i = 0; i < in[2].wide; ++i) {
    edgert_fence *fence;
    edgert_status status = hal_queue_fence(in[3 + i].ref, &fence, error);
    if (status != EDGERT_OK) return status;
    if (fence && !fence->reached && !fence->code && !is_infinite) {
      out[0].word = EDGERT_CODE_DEADLINE;
      return EDGERT_OK;
    }
    status = edgert_fence_wait(fence, error);
    if (status != EDGERT_OK) return status;
  }
  return EDGERT_OK;
}

#define HAL_QUEUE_IMPORTS(X) \
  X("device.allocator", "r_r", hal_queue_allocator)                               \
  X("device.query.i64", "rrr_iI", hal_queue_query)                                \
  X("device.queue.alloca", "rIrrIiiII_r", hal_queue_alloca)                       \
  X("device.queue.barrier", "rIrrI_v", hal_queue_nothing)                         \
  X("device.queue.copy", "rIrrrIrIII_v", hal_queue_copy)                          \
  X("device.queue.dealloca", "rIrrrI_v", hal_queue_nothing)                       \
  X("device.queue.execute", "rIrrrI_v", hal_queue_execute)                        \
  X("device.queue.execute.indirect", "rIrrrICrIID_v", hal_queue_execute_indirect) \
  X("device.queue.fill", "rIrrrIIIiI_v", hal_queue_fill)                          \
  X("device.queue.flush", "rI_v", hal_queue_flush)                                \
  X("device.queue.read", "rIrrrIrIII_v", hal_queue_read)                          \
  X("device.queue.update", "rIrrrIrIII_v", hal_queue_update)                      \
  X("device.queue.write", "rIrrrIrIII_v", hal_queue_write)                        \
  X("devices.count", "v_i", hal_queue_count)                                      \
  X("devices.get", "i_r", hal_queue_get)                                          \
  X("executable.create", "rIrrr_r", hal_queue_load)                               \
  X("executable.lookup.function", "rr_I", hal_queue_lookup)                       \
  X("fence.await", "iICrD_i", hal_queue_fence_await)                              \
  X("fence.create", "rI_r", hal_queue_fence_create)                               \
  X("fence.fail", "ri_v", hal_queue_fence_fail)                                   \
  X("fence.join", "ICrD_r", hal_queue_fence_join)                                 \
  X("fence.query", "r_i", hal_queue_fence_query)                                  \
  X("fence.signal", "r_v", hal_queue_fence_signal)

static const edgert_import_call hal_queue_calls[] = {HAL_QUEUE_IMPORTS(EDGERT_IMPORT_CALL)};
const edgert_import_table edgert_hal_queue_imports = {HAL_QUEUE_IMPORTS(EDGERT_IMPORT_NAME),
    hal_queue_calls};
