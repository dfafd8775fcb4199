/* Runs verified byte code. What the verifier has checked is not looked at again here. */
#include "frame.h"

#define INTERPRETER_IMPORT 0x80000000u
#define INTERPRETER_MAX_DEPTH 100 /* calls within calls */

/* --- frames ----------------------------------------------------------------------------------- */

/* A frame for a function on top of those that there are, with its registers at zero. */
static edgert_status interpreter_enter(edgert_session *session, const edgert_function *function,
                                       edgert_error *error) {
  size_t refs_size = (size_t)function->ref_count * sizeof(edgert_object *);
  size_t words_size = (size_t)function->word_count * sizeof(uint32_t);
  if (session->depth >= INTERPRETER_MAX_DEPTH)
    return EDGERT_FAIL(error, EDGERT_LIMIT, "calls are nested more than %d deep",
                       INTERPRETER_MAX_DEPTH);
  edgert_stack_mark mark = edgert_stack_save(&session->stack);
  void *memory;
  edgert_status status =
      edgert_stack_take(&session->stack, &session->object.allocator,
                        sizeof(edgert_frame) + refs_size + words_size, &memory, error);
  if (status != EDGERT_OK) return status;
  edgert_frame *frame = memory;
  memset(frame + 1, 0, refs_size + words_size);
  *frame = (edgert_frame){.session = session,
                          .function = function,
                          .pc = function->code,
                          .refs = (edgert_object **)(void *)(frame + 1),
                          .words = (uint32_t *)(void *)((uint8_t *)(frame + 1) + refs_size),
                          .caller = session->frame,
                          .mark = mark};
  session->frame = frame;
  session->depth += 1;
  return EDGERT_OK;
}

/* Take the uppermost frame away. */
static void interpreter_leave(edgert_session *session) {
  edgert_frame *frame = session->frame;
  for (uint32_t i = 0; i < frame->function->ref_count; ++i) edgert_release(frame->refs[i]);
  session->frame = frame->caller;
  session->depth -= 1;
  edgert_stack_restore(&session->stack, &session->object.allocator, frame->mark);
}

static edgert_status interpreter_step(edgert_session *session, edgert_error *error) {
  const edgert_watch *watch = &session->watch;
  session->steps += 1;
  if (atomic_load_explicit(&watch->is_interrupted, memory_order_relaxed) ||
      (watch->deadline && session->steps % 256 == 0 && edgert_watch_is_over(watch)))
    return edgert_watch_fail(watch, error);
  if (session->max_steps == 0 || session->steps <= session->max_steps) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_LIMIT, "the program took more than %llu steps",
                     (unsigned long long)session->max_steps);
}

/* --- values between registers and cells ------------------------------------------------------- */

/* A register's value; references are borrowed. */
static edgert_cell interpreter_read(const edgert_frame *frame, char code, uint32_t name) {
  edgert_cell cell;
  memset(&cell, 0, sizeof cell);
  if (code == 'r')
    cell.ref = frame->refs[name & EDGERT_REGISTER_INDEX];
  else
    memcpy(&cell, frame->words + name, code == 'I' || code == 'F' ? 8 : 4);
  return cell;
}

/* A value into a register; a reference's ownership goes with it. */
static void interpreter_write(edgert_frame *frame, char code, uint32_t name, edgert_cell cell) {
  if (code == 'r')
    edgert_frame_put(frame, name, cell.ref);
  else
    memcpy(frame->words + name, &cell, code == 'I' || code == 'F' ? 8 : 4);
}

/* Drop the references that a call was given for good. */
void edgert_frame_drop_moved(edgert_frame *frame, edgert_entries list) {
  for (uint32_t i = 0; i < list.count; ++i) {
    uint32_t name = edgert_entry(list, i);
    if ((name & EDGERT_REGISTER_REF) && (name & EDGERT_REGISTER_MOVE))
      edgert_release_at(&frame->refs[name & EDGERT_REGISTER_INDEX]);
  }
}

/* Fill a callee's first registers by its convention. */
static void interpreter_fill(edgert_frame *callee, edgert_cell cell, char code, uint32_t *words,
                             uint32_t *refs) {
  if (code == 'r') {
    callee->refs[(*refs)++] = cell.ref;
    return;
  }
  uint32_t width = code == 'I' || code == 'F' ? 2 : 1;
  if (width == 2) *words = (*words + 1) & ~1u;
  memcpy(callee->words + *words, &cell, 4 * width);
  *words += width;
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Enter a function of the module, which goes on in the caller when it returns. */
static edgert_status interpreter_call_function(edgert_frame *frame, uint32_t index,
                                               edgert_entries arguments, edgert_entries targets,
                                               edgert_error *error) {
  edgert_session *session = frame->session;
  const edgert_function *function = &session->module->functions[index];
  edgert_status status = interpreter_enter(session, function, error);
  if (status != EDGERT_OK) return status;
  uint32_t words = 0, refs = 0;
  session->frame->targets = targets;
  for (uint32_t i = 0; i < arguments.count; ++i) {
    char code = function->convention.arguments.data[i];
    uint32_t name = edgert_entry(arguments, i);
    edgert_cell cell = interpreter_read(frame, code, name);
    if (code == 'r') cell.ref = edgert_frame_take(frame, name);
    interpreter_fill(session->frame, cell, code, &words, &refs);
  }
  return EDGERT_OK;
}

/* Arguments as cells, each span behind its count. */
static void interpreter_gather(const edgert_frame *frame, edgert_codes codes, edgert_entries spans,
                               edgert_entries arguments, edgert_cell *out) {
  uint32_t used = 0, top = 0;
  for (uint32_t i = 0; i < codes.count; ++i, ++top) {
    if (codes.data[i] != 'C') {
      *out++ = interpreter_read(frame, codes.data[i], edgert_entry(arguments, used++));
      continue;
    }
    const char *group = codes.data + i + 1;
    const char *end = memchr(group, 'D', codes.count - i - 1);
    uint32_t repeat = edgert_entry(spans, top);
    (out++)->wide = repeat;
    for (uint32_t r = 0; r < repeat; ++r)
      for (const char *code = group; code < end; ++code)
        *out++ = interpreter_read(frame, *code, edgert_entry(arguments, used++));
    i = (uint32_t)(end - codes.data);
  }
}

static edgert_status interpreter_ask_import(edgert_frame *frame, uint32_t index,
                                            edgert_entries spans, edgert_entries arguments,
                                            edgert_cell *results, edgert_error *error) {
  edgert_session *session = frame->session;
  const edgert_import *import = &session->module->imports[index];
  const edgert_imported *imported = &session->imports[index];
  if (!imported->codes)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "the program calls %.*s, which is not here",
                       EDGERT_TEXT(import->name));
  void *cells;
  size_t count = (size_t)arguments.count + spans.count;
  edgert_status status = edgert_stack_take(&session->stack, &session->object.allocator,
                                           count * sizeof(edgert_cell), &cells, error);
  if (status != EDGERT_OK) return status;
  interpreter_gather(frame, import->convention.arguments, spans, arguments, cells);
  status = edgert_import_run(imported, session, cells, results, error);
  if (status != EDGERT_PENDING) edgert_frame_drop_moved(frame, arguments);
  return status;
}

static edgert_status interpreter_call_import(edgert_frame *frame, uint32_t index,
                                             edgert_entries spans, edgert_entries arguments,
                                             edgert_entries targets, edgert_error *error) {
  edgert_session *session = frame->session;
  edgert_codes codes = session->module->imports[index].convention.results;
  edgert_stack_mark mark = edgert_stack_save(&session->stack);
  void *memory;
  edgert_status status =
      edgert_stack_take(&session->stack, &session->object.allocator,
                        codes.count * sizeof(edgert_cell), &memory, error);
  if (status != EDGERT_OK) return status;
  edgert_cell *results = memory;
  memset(results, 0, codes.count * sizeof *results);
  status = interpreter_ask_import(frame, index, spans, arguments, results, error);
  for (uint32_t i = 0; i < codes.count; ++i)
    if (status == EDGERT_OK)
      interpreter_write(frame, codes.data[i], edgert_entry(targets, i), results[i]);
    else if (codes.data[i] == 'r')
      edgert_release(results[i].ref);
  edgert_stack_restore(&session->stack, &session->object.allocator, mark);
  return status;
}

/* All four instructions that call. One that is pending is there to be run again: what asks a device
 * changes nothing until it is answered. */
static edgert_status interpreter_call(edgert_frame *frame, int is_variadic, int is_yieldable,
                                      edgert_error *error) {
  const uint8_t *begin = frame->pc - 1;
  uint32_t callee = edgert_next_u32(frame);
  uint32_t index = callee & ~INTERPRETER_IMPORT;
  edgert_entries spans = {NULL, 0};
  if (is_variadic) spans = edgert_next_entries(frame, 2);
  edgert_entries arguments = edgert_next_entries(frame, 2);
  uint32_t target = is_yieldable ? edgert_next_u32(frame) : 0;
  edgert_entries targets = edgert_next_entries(frame, 2);
  edgert_status status = interpreter_step(frame->session, error);
  if (status != EDGERT_OK) return status;
  if (is_yieldable) frame->pc = frame->function->code + target;
  if (!(callee & INTERPRETER_IMPORT))
    return interpreter_call_function(frame, index, arguments, targets, error);
  status = interpreter_call_import(frame, index, spans, arguments, targets, error);
  if (status == EDGERT_PENDING) frame->pc = begin;
  return status;
}

/* The end of a function: its results to who called it, references given away, and its frame gone. */
static void interpreter_return(edgert_frame *frame, edgert_cell *results) {
  edgert_codes codes = frame->function->convention.results;
  edgert_entries list = edgert_next_entries(frame, 2);
  for (uint32_t i = 0; i < codes.count; ++i) {
    uint32_t name = edgert_entry(list, i);
    edgert_cell cell = interpreter_read(frame, codes.data[i], name);
    if (codes.data[i] == 'r') cell.ref = edgert_frame_take(frame, name);
    if (frame->caller)
      interpreter_write(frame->caller, codes.data[i], edgert_entry(frame->targets, i), cell);
    else
      results[i] = cell;
  }
  interpreter_leave(frame->session);
}

/* --- jumps ------------------------------------------------------------------------------------ */

/* A jump moves no reference: iree-compile 3.13 marks one as moved, too, that also stays where it is
   (a value that a jump gives three times), and the program would read a null after it. What it
   leaves is held until the register is written again, or the call ends. */
static void interpreter_pairs(edgert_frame *frame, edgert_entries pairs) {
  for (uint32_t i = 0; i < pairs.count; ++i) {
    uint32_t source = edgert_entry(pairs, 2 * i), target = edgert_entry(pairs, 2 * i + 1);
    if (source & EDGERT_REGISTER_REF)
      edgert_frame_put(frame, target, edgert_frame_take(frame, source & ~EDGERT_REGISTER_MOVE));
    else
      frame->words[target] = frame->words[source];
  }
}

/* The next operands are a target and its pairs: go there, or pass them over. */
static edgert_status interpreter_jump(edgert_frame *frame, int goes, edgert_error *error) {
  uint32_t target = edgert_next_u32(frame);
  edgert_entries pairs = edgert_next_entries(frame, 4);
  if (!goes) return EDGERT_OK;
  interpreter_pairs(frame, pairs);
  frame->pc = frame->function->code + target;
  return interpreter_step(frame->session, error);
}

static edgert_status interpreter_conditional(edgert_frame *frame, edgert_error *error) {
  int condition = edgert_next_u32_value(frame) != 0;
  if (condition) return interpreter_jump(frame, 1, error);
  edgert_status status = interpreter_jump(frame, 0, error);
  return status == EDGERT_OK ? interpreter_jump(frame, 1, error) : status;
}

static edgert_status interpreter_table(edgert_frame *frame, edgert_error *error) {
  uint32_t index = edgert_next_u32_value(frame);
  const uint8_t *otherwise = frame->pc;
  (void)interpreter_jump(frame, 0, error);
  uint32_t count = edgert_next_u16(frame);
  if (index >= count)
    frame->pc = otherwise;
  else
    for (uint32_t i = 0; i < index; ++i) (void)interpreter_jump(frame, 0, error);
  return interpreter_jump(frame, 1, error);
}

/* A failure that the program asks for; its code is of the usual kind (3: invalid argument...). */
static edgert_status interpreter_fail(edgert_frame *frame, edgert_error *error) {
  uint32_t code = edgert_next_u32_value(frame);
  uint32_t size = edgert_next_u16(frame);
  const edgert_text message = {(const char *)frame->pc, size};
  (void)message;
  frame->pc += size;
  if (code)
    return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program failed with code %u: %.*s",
                       (unsigned)code, EDGERT_TEXT(message));
  if (frame->pc < frame->function->code + frame->function->size) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program ran past the end of a function");
}

/* --- instructions ----------------------------------------------------------------------------- */

/* An element of 8 or 16 bits, whose register gets 32: read it bare, then give it its sign. */
static edgert_status interpreter_load_signed(edgert_frame *frame, uint32_t width,
                                             edgert_error *error) {
  edgert_status status = edgert_frame_run_move(frame, EDGERT_MOVE_BUFFER_LOAD, width, error);
  if (status != EDGERT_OK) return status;
  uint32_t *word = frame->words + edgert_load_u16(frame->pc - 2);
  *word = width == 1 ? (uint32_t)(int8_t)*word : (uint32_t)(int16_t)*word;
  return EDGERT_OK;
}

#define MOVE(name, width) \
  return edgert_frame_run_move(frame, EDGERT_MOVE_##name, width, error)
#define MOVE_BOTH(name) \
  case EDGERT_OP_##name##_I32: MOVE(name, 4); \
  case EDGERT_OP_##name##_I64: MOVE(name, 8)
#define BOTH(name) case EDGERT_OP_##name##_I32: case EDGERT_OP_##name##_I64
#define BOTH_KINDS(name) \
  case EDGERT_OP_##name##_I32_S: case EDGERT_OP_##name##_I64_S: \
  case EDGERT_OP_##name##_I32_U: case EDGERT_OP_##name##_I64_U

/* The arithmetic of counters and addresses, which loops are made of, is done in place; all that is
 * rarer goes through the table of interpreter_integers.c. */
#define HOT(name, takes, gives, expression)              \
  case EDGERT_OP_##name: {                               \
    uint64_t a = edgert_next_value(frame, (takes) == 8); \
    uint64_t b = edgert_next_value(frame, (takes) == 8); \
    edgert_next_set(frame, (gives) == 8, (expression));  \
    break;                                               \
  }

/* Run one instruction of the core set. */
static edgert_status interpreter_core(edgert_frame *frame, edgert_core_opcode code,
                                      edgert_cell *results, edgert_error *error) {
  edgert_session *session = frame->session;
  switch (code) {
    case EDGERT_OP_BLOCK:
      break;

    MOVE_BOTH(GLOBAL_LOAD);
    MOVE_BOTH(GLOBAL_STORE);
    MOVE_BOTH(GLOBAL_LOAD_INDIRECT);
    MOVE_BOTH(GLOBAL_STORE_INDIRECT);
    case EDGERT_OP_CONST_I32: {
      uint32_t value = edgert_next_u32(frame);
      edgert_next_set_u32(frame, value);
      break;
    }
    case EDGERT_OP_CONST_I64: {
      uint64_t value = edgert_next_u64(frame);
      edgert_next_set_u64(frame, value);
      break;
    }
    case EDGERT_OP_CONST_I32_ZERO: MOVE(ZERO, 4);
    case EDGERT_OP_CONST_I64_ZERO: MOVE(ZERO, 8);
    MOVE_BOTH(SELECT);
    MOVE_BOTH(SWITCH);
    MOVE_BOTH(BUFFER_LOAD);
    case EDGERT_OP_BUFFER_LOAD_I8_U: MOVE(BUFFER_LOAD, 1);
    case EDGERT_OP_BUFFER_LOAD_I16_U: MOVE(BUFFER_LOAD, 2);
    case EDGERT_OP_BUFFER_LOAD_I8_S: return interpreter_load_signed(frame, 1, error);
    case EDGERT_OP_BUFFER_LOAD_I16_S: return interpreter_load_signed(frame, 2, error);
    case EDGERT_OP_BUFFER_STORE_I8: MOVE(BUFFER_STORE, 1);
    case EDGERT_OP_BUFFER_STORE_I16: MOVE(BUFFER_STORE, 2);
    MOVE_BOTH(BUFFER_STORE);
    case EDGERT_OP_BUFFER_FILL_I8: MOVE(BUFFER_FILL, 1);
    case EDGERT_OP_BUFFER_FILL_I16: MOVE(BUFFER_FILL, 2);
    MOVE_BOTH(BUFFER_FILL);

    HOT(ADD_I32, 4, 4, a + b)
    HOT(ADD_I64, 8, 8, a + b)
    HOT(SUB_I32, 4, 4, a - b)
    HOT(SUB_I64, 8, 8, a - b)
    HOT(MUL_I32, 4, 4, a * b)
    HOT(MUL_I64, 8, 8, a * b)
    HOT(CMP_EQ_I32, 4, 4, a == b)
    HOT(CMP_LT_I32_S, 4, 4, (int64_t)a < (int64_t)b)
    HOT(CMP_EQ_I64, 8, 4, a == b)
    HOT(CMP_LT_I64_S, 8, 4, (int64_t)a < (int64_t)b)
    case EDGERT_OP_EXT_I32_I64_S: {
      uint64_t value = edgert_next_value(frame, 0);
      edgert_next_set_u64(frame, value);
      break;
    }
    case EDGERT_OP_TRUNC_I64_I32: {
      uint64_t value = edgert_next_u64_value(frame);
      edgert_next_set_u32(frame, (uint32_t)value);
      break;
    }
    BOTH(FMA): BOTH(NOT): BOTH(AND): BOTH(OR): BOTH(XOR): BOTH(SHL): BOTH(CTLZ): BOTH(ABS):
    BOTH_KINDS(DIV): BOTH_KINDS(REM): BOTH_KINDS(SHR): BOTH_KINDS(MIN): BOTH_KINDS(MAX):
    BOTH(CMP_NE): BOTH(CMP_NZ):
    case EDGERT_OP_CMP_LT_I32_U:
    case EDGERT_OP_CMP_LT_I64_U:
    case EDGERT_OP_TRUNC_I32_I8:
    case EDGERT_OP_TRUNC_I32_I16:
    case EDGERT_OP_EXT_I8_I32_S:
    case EDGERT_OP_EXT_I8_I32_U:
    case EDGERT_OP_EXT_I16_I32_S:
    case EDGERT_OP_EXT_I16_I32_U:
    case EDGERT_OP_EXT_I32_I64_U:
      return edgert_frame_run_integer(frame, code, error);

    case EDGERT_OP_GLOBAL_LOAD_REF:
    case EDGERT_OP_GLOBAL_STORE_REF:
    case EDGERT_OP_GLOBAL_LOAD_INDIRECT_REF:
    case EDGERT_OP_GLOBAL_STORE_INDIRECT_REF:
    case EDGERT_OP_CONST_REF_ZERO:
    case EDGERT_OP_CONST_REF_RODATA:
    case EDGERT_OP_SELECT_REF:
    case EDGERT_OP_SWITCH_REF:
    case EDGERT_OP_CAST_ANY_REF:
    case EDGERT_OP_ASSIGN_REF:
    case EDGERT_OP_DISCARD_REFS:
    case EDGERT_OP_CMP_EQ_REF:
    case EDGERT_OP_CMP_NE_REF:
    case EDGERT_OP_CMP_NZ_REF:
    case EDGERT_OP_LIST_ALLOC:
    case EDGERT_OP_LIST_RESERVE:
    case EDGERT_OP_LIST_RESIZE:
    case EDGERT_OP_LIST_SIZE:
    BOTH(LIST_GET): BOTH(LIST_SET):
    case EDGERT_OP_LIST_GET_REF:
    case EDGERT_OP_LIST_SET_REF:
    case EDGERT_OP_BUFFER_ALLOC:
    case EDGERT_OP_BUFFER_CLONE:
    case EDGERT_OP_BUFFER_LENGTH:
    case EDGERT_OP_BUFFER_COPY:
    case EDGERT_OP_BUFFER_COMPARE:
    case EDGERT_OP_BUFFER_HASH:
      return edgert_frame_run_object(frame, code, error);

    /* Jumps and calls. A yield resumes at once, since nothing here waits. */
    case EDGERT_OP_BR:
    case EDGERT_OP_YIELD:
    case EDGERT_OP_BREAK:
      return interpreter_jump(frame, 1, error);
    case EDGERT_OP_COND_BREAK:
      (void)edgert_next_u16(frame);
      return interpreter_jump(frame, 1, error);
    case EDGERT_OP_COND_BR:
      return interpreter_conditional(frame, error);
    case EDGERT_OP_BR_TABLE:
      return interpreter_table(frame, error);
    case EDGERT_OP_CALL:
      return interpreter_call(frame, 0, 0, error);
    case EDGERT_OP_CALL_VARIADIC:
      return interpreter_call(frame, 1, 0, error);
    case EDGERT_OP_CALL_YIELDABLE:
      return interpreter_call(frame, 0, 1, error);
    case EDGERT_OP_CALL_VARIADIC_YIELDABLE:
      return interpreter_call(frame, 1, 1, error);
    case EDGERT_OP_RETURN:
      interpreter_return(frame, results);
      break;
    case EDGERT_OP_FAIL:
      return interpreter_fail(frame, error);
    case EDGERT_OP_IMPORT_RESOLVED: {
      uint32_t callee = edgert_next_u32(frame);
      int found =
          !(callee & INTERPRETER_IMPORT) || session->imports[callee & ~INTERPRETER_IMPORT].codes;
      edgert_next_set_u32(frame, found ? 1 : 0);
      break;
    }
    case EDGERT_OP_TRACE:
    case EDGERT_OP_PRINT: {
      uint32_t size = edgert_next_u16(frame);
      frame->pc += size;
      edgert_frame_drop_moved(frame, edgert_next_entries(frame, 2));
      break;
    }
  }
  return EDGERT_OK;
}

#undef HOT
#undef MOVE
#undef MOVE_BOTH
#undef BOTH
#undef BOTH_KINDS

edgert_status edgert_session_go_on(edgert_session *self, edgert_cell *results,
                                   edgert_error *error) {
  edgert_status status = EDGERT_OK;
  for (edgert_frame *frame; status == EDGERT_OK && (frame = self->frame) != NULL;) {
    uint32_t code = edgert_next_u8(frame);
    if (code == EDGERT_PREFIX_F32 || code == EDGERT_PREFIX_F64)
      status = edgert_frame_run_float(frame, code, error);
    else
      status = interpreter_core(frame, (edgert_core_opcode)code, results, error);
  }
  if (status != EDGERT_OK && status != EDGERT_PENDING) edgert_session_give_up(self);
  return status;
}

void edgert_session_give_up(edgert_session *self) {
  while (self->frame) interpreter_leave(self);
}

edgert_status edgert_session_run(edgert_session *self, uint32_t function,
                                 const edgert_cell *arguments, edgert_cell *results,
                                 edgert_error *error) {
  const edgert_function *callee = &self->module->functions[function];
  edgert_codes codes = callee->convention.arguments;
  self->steps = 0;
  edgert_status status = interpreter_enter(self, callee, error);
  if (status != EDGERT_OK) return status;
  uint32_t words = 0, refs = 0;
  for (uint32_t i = 0; i < codes.count; ++i) {
    if (codes.data[i] == 'r') edgert_retain(arguments[i].ref);
    interpreter_fill(self->frame, arguments[i], codes.data[i], &words, &refs);
  }
  return edgert_session_go_on(self, results, error);
}
