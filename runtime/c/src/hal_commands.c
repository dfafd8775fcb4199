/* The `hal` module's functions that record commands. */
#include "hal.h"
#include "session.h"

/* A range of a buffer, or of a slot where the buffer is null. */
static edgert_range hal_commands_range(edgert_buffer *buffer, int32_t slot, int64_t offset,
                                       int64_t length) {
  return (edgert_range){buffer, (uint32_t)slot, (uint64_t)offset,
                        length == -1 ? EDGERT_WHOLE : (uint64_t)length};
}

#define HAL_RECORD(X) X(d, device) X(i, modes) X(i, categories) X(I, affinity) X(i, slots)

static edgert_status hal_commands_create(edgert_session *session, const edgert_cell *in,
                                         edgert_cell *out, edgert_error *error) {
  (void)in;
  edgert_commands *commands;
  edgert_status status =
      edgert_commands_create(session->device, &session->object.allocator, &commands, error);
  out[0].ref = (edgert_object *)commands;
  return status;
}

#define HAL_COMMANDS(X) X(k, commands)

static edgert_status hal_commands_finalize(edgert_session *session, const edgert_cell *in,
                                           edgert_cell *out, edgert_error *error) {
  (void)session, (void)out, (void)error;
  EDGERT_TAKE(HAL_COMMANDS, given, in);
  given.commands->finished = 1;
  return EDGERT_OK;
}

/* Debugging marks, hints and cache control, which mean nothing here. */
static edgert_status hal_commands_hint(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)session, (void)in, (void)out, (void)error;
  return EDGERT_OK;
}

static edgert_status hal_commands_barrier(edgert_session *session, const edgert_cell *in,
                                          edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  EDGERT_TAKE(HAL_COMMANDS, given, in);
  return edgert_commands_barrier(given.commands, error);
}

#define HAL_FILL_BUFFER(X)                                                                       \
  X(k, commands) X(B, target) X(I, offset) X(I, length) X(i, slot) X(I, pattern) X(i, width) \
  X(I, flags)

static edgert_status hal_commands_fill(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  EDGERT_TAKE(HAL_FILL_BUFFER, given, in);
  const edgert_range target =
      hal_commands_range(given.target, given.slot, given.offset, given.length);
  return edgert_commands_fill(given.commands, target, (uint64_t)given.pattern,
                              (uint32_t)given.width, error);
}

#define HAL_UPDATE_BUFFER(X)                                                                   \
  X(k, commands) X(y, bytes) X(I, from) X(B, target) X(I, offset) X(I, length) X(i, slot) \
  X(I, flags)

static edgert_status hal_commands_update(edgert_session *session, const edgert_cell *in,
                                         edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  EDGERT_TAKE(HAL_UPDATE_BUFFER, given, in);
  const edgert_range target =
      hal_commands_range(given.target, given.slot, given.offset, given.length);
  const uint8_t *data;
  edgert_status status =
      edgert_bytes_read(&given.bytes->object, given.from, given.length, 1, &data, error);
  return status == EDGERT_OK ? edgert_commands_update(given.commands, data, target, error) : status;
}

#define HAL_COPY_BUFFER(X)                                                               \
  X(k, commands) X(i, source_slot) X(i, slot) X(B, source) X(I, source_offset) X(B, target) \
  X(I, offset) X(I, length) X(I, flags)

static edgert_status hal_commands_copy(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  EDGERT_TAKE(HAL_COPY_BUFFER, given, in);
  const edgert_range source = hal_commands_range(given.source, given.source_slot,
                                                 given.source_offset, given.length);
  const edgert_range target =
      hal_commands_range(given.target, given.slot, given.offset, given.length);
  return edgert_commands_copy(given.commands, source, target, error);
}

/* The constants and bindings at the end of both forms of dispatch, in spans. */
#define HAL_OPERANDS "CiDCiiBIID"
enum { HAL_RESERVED, HAL_SLOT, HAL_BUFFER_CELL, HAL_OFFSET, HAL_LENGTH, HAL_BINDING_CELLS };

static edgert_status hal_commands_operands(edgert_commands *commands, const edgert_cell *in,
                                           edgert_error *error) {
  edgert_status status = EDGERT_OK;
  int64_t constants = (in++)->wide;
  for (int64_t i = 0; i < constants && status == EDGERT_OK; ++i)
    status = edgert_commands_add_constant(commands, (uint32_t)in[i].word, error);
  in += constants;
  int64_t bindings = (in++)->wide;
  for (int64_t i = 0; i < bindings && status == EDGERT_OK; ++i, in += HAL_BINDING_CELLS) {
    const edgert_range range =
        hal_commands_range((edgert_buffer *)in[HAL_BUFFER_CELL].ref, in[HAL_SLOT].word,
                           in[HAL_OFFSET].wide, in[HAL_LENGTH].wide);
    status = edgert_commands_add_binding(commands, range, error);
  }
  if (status == EDGERT_OK) status = edgert_commands_end_dispatch(commands, error);
  if (status != EDGERT_OK) edgert_commands_undo_dispatch(commands);
  return status;
}

static edgert_status hal_commands_check_kernel(int64_t kernel, edgert_error *error) {
  if (kernel >= 0 && kernel <= INT32_MAX) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "there is no kernel %lld", (long long)kernel);
}

#define HAL_DISPATCH(X) \
  X(k, commands) X(x, executable) X(I, kernel) X(i, x) X(i, y) X(i, z) X(I, flags)

static edgert_status hal_commands_dispatch(edgert_session *session, const edgert_cell *in,
                                           edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  EDGERT_TAKE(HAL_DISPATCH, given, in);
  const uint32_t workgroups[3] = {(uint32_t)given.x, (uint32_t)given.y, (uint32_t)given.z};
  edgert_status status = hal_commands_check_kernel(given.kernel, error);
  if (status == EDGERT_OK)
    status = edgert_commands_dispatch(given.commands, given.executable, (uint32_t)given.kernel,
                                      workgroups, NULL, error);
  if (status != EDGERT_OK) return status;
  return hal_commands_operands(given.commands, in + EDGERT_CELLS(given), error);
}

#define HAL_DISPATCH_INDIRECT(X) \
  X(k, commands) X(x, executable) X(I, kernel) X(i, slot) X(B, counts) X(I, offset) X(I, flags)

static edgert_status hal_commands_dispatch_indirect(edgert_session *session, const edgert_cell *in,
                                                    edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  EDGERT_TAKE(HAL_DISPATCH_INDIRECT, given, in);
  const edgert_range size =
      hal_commands_range(given.counts, given.slot, given.offset, 3 * sizeof(uint32_t));
  edgert_status status = hal_commands_check_kernel(given.kernel, error);
  if (status == EDGERT_OK)
    status = edgert_commands_dispatch(given.commands, given.executable, (uint32_t)given.kernel,
                                      NULL, &size, error);
  if (status != EDGERT_OK) return status;
  return hal_commands_operands(given.commands, in + EDGERT_CELLS(given), error);
}

static edgert_status hal_commands_collective(edgert_session *session, const edgert_cell *in,
                                             edgert_cell *out, edgert_error *error) {
  (void)session, (void)in, (void)out;
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                     "the program is for several devices that work together");
}

#define HAL_COMMAND_IMPORTS(X)                                                               \
  X("channel.create", "rIIrrii", "r", hal_commands_collective)                               \
  X(".rank_and_count", "r", "ii", hal_commands_collective)                                   \
  X(".split", "riiI", "r", hal_commands_collective)                                          \
  X("command_buffer.advise_buffer", "krIIIi", "v", hal_commands_hint)                        \
  X(".begin_debug_group", "kr", "v", hal_commands_hint)                                      \
  X(".collective", "rriiiirrIIIII", "v", hal_commands_collective)                            \
  X(".copy_buffer", EDGERT_ARGUMENTS(HAL_COPY_BUFFER), "v", hal_commands_copy)               \
  X(".create", EDGERT_ARGUMENTS(HAL_RECORD), "r", hal_commands_create)                       \
  X(".dispatch", EDGERT_ARGUMENTS(HAL_DISPATCH) HAL_OPERANDS, "v",                           \
    hal_commands_dispatch)                                                                   \
  X(".dispatch.indirect", EDGERT_ARGUMENTS(HAL_DISPATCH_INDIRECT) HAL_OPERANDS,               \
    "v", hal_commands_dispatch_indirect)                                                     \
  X(".end_debug_group", "k", "v", hal_commands_hint)                                         \
  X(".execution_barrier", "kiiI", "v", hal_commands_barrier)                                 \
  X(".fill_buffer", EDGERT_ARGUMENTS(HAL_FILL_BUFFER), "v", hal_commands_fill)               \
  X(".finalize", EDGERT_ARGUMENTS(HAL_COMMANDS), "v", hal_commands_finalize)                 \
  X(".flush_buffer", "kirII", "v", hal_commands_hint)                                        \
  X(".invalidate_buffer", "kirII", "v", hal_commands_hint)                                   \
  X(".update_buffer", EDGERT_ARGUMENTS(HAL_UPDATE_BUFFER), "v", hal_commands_update)

EDGERT_IMPORT_TABLE(hal_command, HAL_COMMAND_IMPORTS)
