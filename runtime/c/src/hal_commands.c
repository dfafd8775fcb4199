/* The `hal` module's functions that record commands. */
#include "hal.h"
#include "session.h"

static edgert_status hal_commands_of(const edgert_cell *in, edgert_commands **out,
                                     edgert_error *error) {
  return edgert_argument_object(in[0].ref, &edgert_commands_kind, out, error);
}

/* A range of a buffer, or of a slot where the buffer is null. */
static edgert_status hal_commands_range(edgert_object *object, int32_t slot, int64_t offset,
                                        int64_t length, edgert_range *out, edgert_error *error) {
  edgert_buffer *buffer = NULL;
  if (object) {
    edgert_status status = edgert_argument_object(object, &edgert_buffer_kind, &buffer, error);
    if (status != EDGERT_OK) return status;
  }
  *out = (edgert_range){buffer, (uint32_t)slot, (uint64_t)offset,
                        length == -1 ? EDGERT_WHOLE : (uint64_t)length};
  return EDGERT_OK;
}

static edgert_status hal_commands_create(edgert_session *session, const edgert_cell *in,
                                         edgert_cell *out, edgert_error *error) {
  (void)in;
  edgert_commands *commands;
  edgert_status status = edgert_commands_create(session->device, &session->object.allocator, &commands,
                                                error);
  if (status == EDGERT_OK) out[0].ref = &commands->object;
  return status;
}

static edgert_status hal_commands_finalize(edgert_session *session, const edgert_cell *in,
                                           edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  edgert_commands *commands;
  edgert_status status = hal_commands_of(in, &commands, error);
  if (status == EDGERT_OK) commands->finished = 1;
  return status;
}

/* Debugging marks, hints and cache control, which mean nothing here. */
static edgert_status hal_commands_hint(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  edgert_commands *commands;
  return hal_commands_of(in, &commands, error);
}

static edgert_status hal_commands_barrier(edgert_session *session, const edgert_cell *in,
                                          edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  edgert_commands *commands;
  edgert_status status = hal_commands_of(in, &commands, error);
  return status == EDGERT_OK ? edgert_commands_barrier(commands, error) : status;
}

static edgert_status hal_commands_fill(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  edgert_commands *commands;
  edgert_range target;
  edgert_status status = hal_commands_of(in, &commands, error);
  if (status == EDGERT_OK)
    status = hal_commands_range(in[1].ref, in[4].word, in[2].wide, in[3].wide, &target, error);
  if (status != EDGERT_OK) return status;
  return edgert_commands_fill(commands, target, (uint64_t)in[5].wide, (uint32_t)in[6].word, error);
}

static edgert_status hal_commands_update(edgert_session *session, const edgert_cell *in,
                                         edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  edgert_commands *commands;
  edgert_range target;
  const uint8_t *data;
  edgert_status status = hal_commands_of(in, &commands, error);
  if (status == EDGERT_OK)
    status = edgert_bytes_read(in[1].ref, in[2].wide, in[5].wide, 1, &data, error);
  if (status == EDGERT_OK)
    status = hal_commands_range(in[3].ref, in[6].word, in[4].wide, in[5].wide, &target, error);
  return status == EDGERT_OK ? edgert_commands_update(commands, data, target, error) : status;
}

static edgert_status hal_commands_copy(edgert_session *session, const edgert_cell *in,
                                       edgert_cell *out, edgert_error *error) {
  (void)session, (void)out;
  edgert_commands *commands;
  edgert_range source, target;
  edgert_status status = hal_commands_of(in, &commands, error);
  if (status == EDGERT_OK)
    status = hal_commands_range(in[3].ref, in[1].word, in[4].wide, in[7].wide, &source, error);
  if (status == EDGERT_OK)
    status = hal_commands_range(in[5].ref, in[2].word, in[6].wide, in[7].wide, &target, error);
  return status == EDGERT_OK ? edgert_commands_copy(commands, source, target, error) : status;
}

/* The constants and bindings at the end of both forms of dispatch. */
static edgert_status hal_commands_operands(edgert_commands *commands, const edgert_cell *in,
                                           edgert_error *error) {
  edgert_status status = EDGERT_OK;
  int64_t constants = (in++)->wide;
  for (int64_t i = 0; i < constants && status == EDGERT_OK; ++i)
    status = edgert_commands_add_constant(commands, (uint32_t)in[i].word, error);
  in += constants;
  int64_t bindings = (in++)->wide;
  for (int64_t i = 0; i < bindings && status == EDGERT_OK; ++i, in += 5) {
    edgert_range range;
    status = hal_commands_range(in[2].ref, in[1].word, in[3].wide, in[4].wide, &range, error);
    if (status == EDGERT_OK) status = edgert_commands_add_binding(commands, range, error);
  }
  if (status == EDGERT_OK) status = edgert_commands_end_dispatch(commands, error);
  if (status != EDGERT_OK) edgert_commands_undo_dispatch(commands);
  return status;
}

static edgert_status hal_commands_executable(edgert_session *session, const edgert_cell *in,
                                             edgert_executable **out, edgert_error *error) {
  edgert_status status = edgert_argument_object(in[1].ref, &edgert_executable_kind, out, error);
  if (status != EDGERT_OK) return status;
  if ((*out)->device == session->device && in[2].wide >= 0 && in[2].wide <= INT32_MAX)
    return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "there is no kernel %lld",
                     (long long)in[2].wide);
}

static edgert_status hal_commands_dispatch(edgert_session *session, const edgert_cell *in,
                                           edgert_cell *out, edgert_error *error) {
  (void)out;
  edgert_commands *commands;
  edgert_executable *executable;
  edgert_status status = hal_commands_of(in, &commands, error);
  if (status == EDGERT_OK) status = hal_commands_executable(session, in, &executable, error);
  if (status != EDGERT_OK) return status;
  const uint32_t workgroups[3] = {(uint32_t)in[3].word, (uint32_t)in[4].word,
                                  (uint32_t)in[5].word};
  status = edgert_commands_dispatch(commands, executable, (uint32_t)in[2].wide, workgroups, NULL,
                                    error);
  return status == EDGERT_OK ? hal_commands_operands(commands, in + 7, error) : status;
}

static edgert_status hal_commands_dispatch_indirect(edgert_session *session, const edgert_cell *in,
                                                    edgert_cell *out, edgert_error *error) {
  (void)out;
  edgert_commands *commands;
  edgert_executable *executable;
  edgert_range size;
  edgert_status status = hal_commands_of(in, &commands, error);
  if (status == EDGERT_OK) status = hal_commands_executable(session, in, &executable, error);
  if (status == EDGERT_OK)
    status = hal_commands_range(in[4].ref, in[3].word, in[5].wide, 12, &size, error);
  if (status == EDGERT_OK)
    status = edgert_commands_dispatch(commands, executable, (uint32_t)in[2].wide, NULL, &size,
                                      error);
  return status == EDGERT_OK ? hal_commands_operands(commands, in + 7, error) : status;
}

static edgert_status hal_commands_collective(edgert_session *session, const edgert_cell *in,
                                             edgert_cell *out, edgert_error *error) {
  (void)session, (void)in, (void)out;
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                     "the program is for several devices that work together");
}

#define HAL_COMMAND_IMPORTS(X) \
  X("channel.create", "rIIrrii_r", hal_commands_collective)                                    \
  X("channel.rank_and_count", "r_ii", hal_commands_collective)                                 \
  X("channel.split", "riiI_r", hal_commands_collective)                                        \
  X("command_buffer.advise_buffer", "rrIIIi_v", hal_commands_hint)                             \
  X("command_buffer.begin_debug_group", "rr_v", hal_commands_hint)                             \
  X("command_buffer.collective", "rriiiirrIIIII_v", hal_commands_collective)                   \
  X("command_buffer.copy_buffer", "riirIrIII_v", hal_commands_copy)                            \
  X("command_buffer.create", "riiIi_r", hal_commands_create)                                   \
  X("command_buffer.dispatch", "rrIiiiICiDCiirIID_v", hal_commands_dispatch)                   \
  X("command_buffer.dispatch.indirect", "rrIirIICiDCiirIID_v", hal_commands_dispatch_indirect) \
  X("command_buffer.end_debug_group", "r_v", hal_commands_hint)                                \
  X("command_buffer.execution_barrier", "riiI_v", hal_commands_barrier)                        \
  X("command_buffer.fill_buffer", "rrIIiIiI_v", hal_commands_fill)                             \
  X("command_buffer.finalize", "r_v", hal_commands_finalize)                                   \
  X("command_buffer.flush_buffer", "rirII_v", hal_commands_hint)                               \
  X("command_buffer.invalidate_buffer", "rirII_v", hal_commands_hint)                          \
  X("command_buffer.update_buffer", "rrIrIIiI_v", hal_commands_update)

static const edgert_import_call hal_command_calls[] = {HAL_COMMAND_IMPORTS(EDGERT_IMPORT_CALL)};
const edgert_import_table edgert_hal_command_imports = {HAL_COMMAND_IMPORTS(EDGERT_IMPORT_NAME),
    hal_command_calls};
