/* Runs verified byte code. What the verifier has checked is not looked at again here. */
#include "frame.h"
#include "opcodes.h"

#define INTERPRETER_IMPORT 0x80000000u
/* Calls within calls. A level takes some 200 bytes of the C stack; small systems give 64 KiB. */
#define INTERPRETER_MAX_DEPTH 100

static edgert_status interpreter_run(edgert_frame *frame, edgert_cell *results,
                                     edgert_error *error);

/* --- frames ----------------------------------------------------------------------------------- */

static edgert_status interpreter_enter(edgert_session *session, const edgert_function *function,
                                       edgert_frame *out, edgert_error *error) {
  size_t refs_size = (size_t)function->ref_count * sizeof *out->refs;
  size_t words_size = (size_t)function->word_count * sizeof *out->words;
  if (session->depth >= INTERPRETER_MAX_DEPTH)
    return EDGERT_FAIL(error, EDGERT_LIMIT, "calls are nested more than %d deep",
                       INTERPRETER_MAX_DEPTH);
  void *memory;
  edgert_status status = edgert_stack_take(&session->stack, &session->object.allocator,
                                           refs_size + words_size, &memory, error);
  if (status != EDGERT_OK) return status;
  memset(memory, 0, refs_size + words_size);
  *out = (edgert_frame){.session = session,
                        .function = function,
                        .pc = function->code,
                        .refs = memory,
                        .words = (uint32_t *)(void *)((uint8_t *)memory + refs_size)};
  session->depth += 1;
  return EDGERT_OK;
}

static void interpreter_leave(edgert_frame *frame) {
  for (uint32_t i = 0; i < frame->function->ref_count; ++i) edgert_release(frame->refs[i]);
  frame->session->depth -= 1;
}

static edgert_status interpreter_step(edgert_session *session, edgert_error *error) {
  if (session->max_steps == 0 || ++session->steps <= session->max_steps) return EDGERT_OK;
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
static void interpreter_drop_moved(edgert_frame *frame, edgert_entries list) {
  for (uint32_t i = 0; i < list.count; ++i) {
    uint32_t name = edgert_entry(list, i);
    if ((name & EDGERT_REGISTER_REF) && (name & EDGERT_REGISTER_MOVE))
      edgert_release_at(&frame->refs[name & EDGERT_REGISTER_INDEX]);
  }
}

static void interpreter_drop_cells(edgert_codes codes, edgert_cell *cells) {
  for (uint32_t i = 0; i < codes.count; ++i)
    if (codes.data[i] == 'r') edgert_release_at(&cells[i].ref);
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

static edgert_status interpreter_call_function(edgert_frame *frame, uint32_t index,
                                               edgert_entries arguments, edgert_cell *results,
                                               edgert_error *error) {
  edgert_session *session = frame->session;
  const edgert_function *function = &session->module->functions[index];
  edgert_frame callee;
  edgert_status status = interpreter_enter(session, function, &callee, error);
  if (status != EDGERT_OK) return status;
  uint32_t words = 0, refs = 0;
  for (uint32_t i = 0; i < arguments.count; ++i) {
    char code = function->convention.arguments.data[i];
    uint32_t name = edgert_entry(arguments, i);
    edgert_cell cell = interpreter_read(frame, code, name);
    if (code == 'r') cell.ref = edgert_frame_take(frame, name);
    interpreter_fill(&callee, cell, code, &words, &refs);
  }
  status = interpreter_run(&callee, results, error);
  interpreter_leave(&callee);
  return status;
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

static edgert_status interpreter_call_import(edgert_frame *frame, uint32_t index,
                                             edgert_entries spans, edgert_entries arguments,
                                             edgert_cell *results, edgert_error *error) {
  edgert_session *session = frame->session;
  const edgert_import *import = &session->module->imports[index];
  if (!session->imports[index])
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "the program calls %.*s, which is not here",
                       EDGERT_TEXT(import->name));
  void *cells;
  size_t count = (size_t)arguments.count + spans.count;
  edgert_status status = edgert_stack_take(&session->stack, &session->object.allocator,
                                           count * sizeof(edgert_cell), &cells, error);
  if (status != EDGERT_OK) return status;
  interpreter_gather(frame, import->convention.arguments, spans, arguments, cells);
  status = session->imports[index](session, cells, results, error);
  interpreter_drop_moved(frame, arguments);
  return status;
}

/* All four instructions that call. */
static edgert_status interpreter_call(edgert_frame *frame, int is_variadic, int is_yieldable,
                                      edgert_error *error) {
  edgert_session *session = frame->session;
  uint32_t callee = edgert_next_u32(frame);
  uint32_t index = callee & ~INTERPRETER_IMPORT;
  edgert_entries spans = {NULL, 0};
  if (is_variadic) spans = edgert_next_entries(frame, 2);
  edgert_entries arguments = edgert_next_entries(frame, 2);
  uint32_t target = is_yieldable ? edgert_next_u32(frame) : 0;
  edgert_entries targets = edgert_next_entries(frame, 2);
  edgert_status status = interpreter_step(session, error);
  if (status != EDGERT_OK) return status;
  edgert_stack_mark mark = edgert_stack_save(&session->stack);
  edgert_codes codes = callee & INTERPRETER_IMPORT
                           ? session->module->imports[index].convention.results
                           : session->module->functions[index].convention.results;
  void *memory;
  status = edgert_stack_take(&session->stack, &session->object.allocator,
                             codes.count * sizeof(edgert_cell), &memory, error);
  if (status != EDGERT_OK) return status;
  edgert_cell *results = memory;
  memset(results, 0, codes.count * sizeof *results);
  if (callee & INTERPRETER_IMPORT)
    status = interpreter_call_import(frame, index, spans, arguments, results, error);
  else
    status = interpreter_call_function(frame, index, arguments, results, error);
  if (status == EDGERT_OK)
    for (uint32_t i = 0; i < codes.count; ++i)
      interpreter_write(frame, codes.data[i], edgert_entry(targets, i), results[i]);
  else
    interpreter_drop_cells(codes, results);
  edgert_stack_restore(&session->stack, &session->object.allocator, mark);
  if (is_yieldable) frame->pc = frame->function->code + target;
  return status;
}

/* The end of a function: its results, references given away. */
static void interpreter_return(edgert_frame *frame, edgert_cell *results) {
  edgert_codes codes = frame->function->convention.results;
  edgert_entries list = edgert_next_entries(frame, 2);
  for (uint32_t i = 0; i < codes.count; ++i) {
    uint32_t name = edgert_entry(list, i);
    results[i] = interpreter_read(frame, codes.data[i], name);
    if (codes.data[i] == 'r') results[i].ref = edgert_frame_take(frame, name);
  }
}

/* --- jumps ------------------------------------------------------------------------------------ */

static void interpreter_pairs(edgert_frame *frame, edgert_entries pairs) {
  for (uint32_t i = 0; i < pairs.count; ++i) {
    uint32_t source = edgert_entry(pairs, 2 * i), target = edgert_entry(pairs, 2 * i + 1);
    if (source & EDGERT_REGISTER_REF)
      edgert_frame_put(frame, target, edgert_frame_take(frame, source));
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

/* --- references, constants, lists ------------------------------------------------------------- */

static edgert_status interpreter_check_type(const edgert_frame *frame, uint32_t type,
                                            edgert_object *object, edgert_error *error) {
  if (edgert_type_accepts(&frame->session->module->types[type], object)) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program takes a %s for something else",
                     object->kind->name);
}

static edgert_status interpreter_load_ref(edgert_frame *frame, uint32_t global,
                                          edgert_error *error) {
  uint32_t type = edgert_next_u32(frame);
  uint32_t name = edgert_next_u16(frame);
  if (global >= frame->session->module->global_refs)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "there is no global reference %u",
                       (unsigned)global);
  edgert_object **place = &frame->session->global_refs[global];
  edgert_status status = interpreter_check_type(frame, type, *place, error);
  if (status != EDGERT_OK) return status;
  edgert_object *object = *place;
  if (name & EDGERT_REGISTER_MOVE)
    *place = NULL;
  else
    edgert_retain(object);
  edgert_frame_put(frame, name, object);
  return EDGERT_OK;
}

static edgert_status interpreter_store_ref(edgert_frame *frame, uint32_t global,
                                           edgert_error *error) {
  uint32_t type = edgert_next_u32(frame);
  uint32_t name = edgert_next_u16(frame);
  if (global >= frame->session->module->global_refs)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "there is no global reference %u",
                       (unsigned)global);
  edgert_object *object = frame->refs[name & EDGERT_REGISTER_INDEX];
  edgert_status status = interpreter_check_type(frame, type, object, error);
  if (status != EDGERT_OK) return status;
  object = edgert_frame_take(frame, name);
  edgert_object *old = frame->session->global_refs[global];
  frame->session->global_refs[global] = object;
  edgert_release(old);
  return EDGERT_OK;
}

/* Where a number among the globals lies whose offset is in a register. */
static edgert_status interpreter_global(edgert_frame *frame, uint32_t width, uint8_t **out,
                                        edgert_error *error) {
  uint32_t offset = edgert_next_u32_value(frame);
  if (!edgert_in_range(offset, width, frame->session->module->global_bytes))
    return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "there is no global at byte %u",
                       (unsigned)offset);
  *out = frame->session->globals + offset;
  return EDGERT_OK;
}

static edgert_status interpreter_constant(edgert_frame *frame, edgert_error *error) {
  uint32_t index = edgert_next_u32(frame);
  edgert_session *session = frame->session;
  if (!session->rodata[index]) {
    const edgert_rodata *rodata = &session->module->rodata[index];
    edgert_bytes *bytes;
    edgert_status status =
        edgert_bytes_view(&session->object.allocator, rodata->data, rodata->size,
                          &session->module->object, &bytes, error);
    if (status != EDGERT_OK) return status;
    session->rodata[index] = &bytes->object;
  }
  edgert_next_set_ref(frame, edgert_retain(session->rodata[index]));
  return EDGERT_OK;
}

static edgert_status interpreter_list(edgert_object *object, edgert_list **out,
                                      edgert_error *error) {
  *out = edgert_object_as(object, &edgert_list_kind);
  if (*out) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program uses a list that is null");
}

edgert_status edgert_frame_list_get(edgert_frame *frame, edgert_slot *out, edgert_error *error) {
  edgert_list *list;
  edgert_status status = interpreter_list(edgert_next_ref_value(frame), &list, error);
  uint32_t index = edgert_next_u32_value(frame);
  return status == EDGERT_OK ? edgert_list_get(list, index, out, error) : status;
}

edgert_status edgert_frame_list_set(edgert_object *object, uint32_t index, edgert_slot value,
                                    edgert_error *error) {
  edgert_list *list;
  edgert_status status = interpreter_list(object, &list, error);
  return status == EDGERT_OK ? edgert_list_set(list, index, value, error) : status;
}

static edgert_status interpreter_list_alloc(edgert_frame *frame, edgert_error *error) {
  edgert_type type = frame->session->module->types[edgert_next_u32(frame)];
  uint32_t capacity = edgert_next_u32_value(frame);
  edgert_list *list;
  edgert_status status =
      edgert_list_create(&frame->session->object.allocator,
                                            &frame->session->lists, type, capacity, &list, error);
  if (status == EDGERT_OK) edgert_next_set_ref(frame, &list->object);
  return status;
}

static edgert_status interpreter_list_get_ref(edgert_frame *frame, edgert_error *error) {
  edgert_list *list;
  edgert_status status = interpreter_list(edgert_next_ref_value(frame), &list, error);
  if (status != EDGERT_OK) return status;
  uint32_t index = edgert_next_u32_value(frame);
  const edgert_type *type = &frame->session->module->types[edgert_next_u32(frame)];
  uint32_t name = edgert_next_u16(frame);
  edgert_object *object;
  status = edgert_list_get_ref(list, index, &object, error);
  if (status != EDGERT_OK) return status;
  if (!edgert_type_accepts(type, object)) object = NULL;
  edgert_retain(object);
  if (name & EDGERT_REGISTER_MOVE) status = edgert_list_set_ref(list, index, NULL, error);
  edgert_frame_put(frame, name, object);
  return status;
}

static edgert_status interpreter_list_set_ref(edgert_frame *frame, edgert_error *error) {
  edgert_list *list;
  edgert_status status = interpreter_list(edgert_next_ref_value(frame), &list, error);
  if (status != EDGERT_OK) return status;
  uint32_t index = edgert_next_u32_value(frame);
  return edgert_list_set_ref(list, index, edgert_frame_take(frame, edgert_next_u16(frame)), error);
}

static edgert_status interpreter_select_ref(edgert_frame *frame, edgert_error *error) {
  int condition = edgert_next_u32_value(frame) != 0;
  uint32_t type = edgert_next_u32(frame);
  edgert_object *first = edgert_frame_take(frame, edgert_next_u16(frame));
  edgert_object *second = edgert_frame_take(frame, edgert_next_u16(frame));
  edgert_object *chosen = condition ? first : second;
  edgert_release(condition ? second : first);
  edgert_status status = interpreter_check_type(frame, type, chosen, error);
  if (status != EDGERT_OK)
    edgert_release(chosen);
  else
    edgert_next_set_ref(frame, chosen);
  return status;
}

static edgert_status interpreter_switch_ref(edgert_frame *frame, edgert_error *error) {
  uint32_t index = edgert_next_u32_value(frame);
  uint32_t type = edgert_next_u32(frame);
  uint32_t otherwise = edgert_next_u16(frame);
  edgert_entries list = edgert_next_entries(frame, 2);
  uint32_t name = index < list.count ? edgert_entry(list, index) : otherwise;
  edgert_object *chosen = edgert_frame_take(frame, name);
  if (otherwise & EDGERT_REGISTER_MOVE)
    edgert_release_at(&frame->refs[otherwise & EDGERT_REGISTER_INDEX]);
  interpreter_drop_moved(frame, list);
  edgert_status status = interpreter_check_type(frame, type, chosen, error);
  if (status != EDGERT_OK)
    edgert_release(chosen);
  else
    edgert_next_set_ref(frame, chosen);
  return status;
}

static edgert_status interpreter_cast(edgert_frame *frame, edgert_error *error) {
  uint32_t name = edgert_next_u16(frame);
  uint32_t type = edgert_next_u32(frame);
  edgert_status status = interpreter_check_type(
      frame, type, frame->refs[name & EDGERT_REGISTER_INDEX], error);
  if (status == EDGERT_OK) edgert_next_set_ref(frame, edgert_frame_take(frame, name));
  return status;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static edgert_status interpreter_bytes_alloc(edgert_frame *frame, edgert_error *error) {
  int64_t size = edgert_next_i64_value(frame);
  uint32_t alignment = edgert_next_u32_value(frame);
  edgert_bytes *bytes;
  if (size < 0)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program asks for %lld bytes",
                       (long long)size);
  edgert_status status = edgert_bytes_create(&frame->session->object.allocator, (uint64_t)size,
                                             alignment, &bytes, error);
  if (status == EDGERT_OK) edgert_next_set_ref(frame, &bytes->object);
  return status;
}

static edgert_status interpreter_bytes_clone(edgert_frame *frame, edgert_error *error) {
  edgert_object *source = edgert_next_ref_value(frame);
  int64_t offset = edgert_next_i64_value(frame);
  int64_t size = edgert_next_i64_value(frame);
  uint32_t alignment = edgert_next_u32_value(frame);
  const uint8_t *data;
  edgert_bytes *bytes = NULL;
  edgert_status status = edgert_bytes_read(source, offset, size, 1, &data, error);
  if (status == EDGERT_OK)
    status = edgert_bytes_create(&frame->session->object.allocator, (uint64_t)size, alignment,
                                 &bytes, error);
  if (status != EDGERT_OK) return status;
  memcpy(bytes->data, data, (size_t)size);
  edgert_next_set_ref(frame, &bytes->object);
  return EDGERT_OK;
}

static edgert_status interpreter_bytes_copy(edgert_frame *frame, edgert_error *error) {
  edgert_object *source = edgert_next_ref_value(frame);
  int64_t source_offset = edgert_next_i64_value(frame);
  edgert_object *target = edgert_next_ref_value(frame);
  int64_t target_offset = edgert_next_i64_value(frame);
  int64_t size = edgert_next_i64_value(frame);
  const uint8_t *from;
  uint8_t *to;
  edgert_status status = edgert_bytes_read(source, source_offset, size, 1, &from, error);
  if (status == EDGERT_OK) status = edgert_bytes_write(target, target_offset, size, 1, &to, error);
  if (status == EDGERT_OK) memmove(to, from, (size_t)size);
  return status;
}

static edgert_status interpreter_bytes_compare(edgert_frame *frame, edgert_error *error) {
  edgert_object *first = edgert_next_ref_value(frame);
  int64_t first_offset = edgert_next_i64_value(frame);
  edgert_object *second = edgert_next_ref_value(frame);
  int64_t second_offset = edgert_next_i64_value(frame);
  int64_t size = edgert_next_i64_value(frame);
  const uint8_t *a, *b;
  edgert_status status = edgert_bytes_read(first, first_offset, size, 1, &a, error);
  if (status == EDGERT_OK) status = edgert_bytes_read(second, second_offset, size, 1, &b, error);
  if (status == EDGERT_OK) edgert_next_set_u32(frame, memcmp(a, b, (size_t)size) == 0);
  return status;
}

static edgert_status interpreter_bytes_hash(edgert_frame *frame, edgert_error *error) {
  edgert_object *source = edgert_next_ref_value(frame);
  int64_t offset = edgert_next_i64_value(frame);
  int64_t size = edgert_next_i64_value(frame);
  const uint8_t *data;
  edgert_status status = edgert_bytes_read(source, offset, size, 1, &data, error);
  if (status == EDGERT_OK) edgert_next_set_u64(frame, edgert_bytes_hash(data, (size_t)size));
  return status;
}

static edgert_status interpreter_bytes_length(edgert_frame *frame, edgert_error *error) {
  edgert_bytes *bytes = edgert_object_as(edgert_next_ref_value(frame), &edgert_bytes_kind);
  if (!bytes)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program uses bytes that are null");
  edgert_next_set_u64(frame, bytes->size);
  return EDGERT_OK;
}

/* A load of an element: where it lies. */
static edgert_status interpreter_element(edgert_frame *frame, uint32_t width, const uint8_t **out,
                                         edgert_error *error) {
  edgert_object *source = edgert_next_ref_value(frame);
  int64_t index = edgert_next_i64_value(frame);
  return edgert_bytes_read(source, index, 1, width, out, error);
}

static edgert_status interpreter_store(edgert_frame *frame, uint32_t width, edgert_error *error) {
  edgert_object *target = edgert_next_ref_value(frame);
  int64_t index = edgert_next_i64_value(frame);
  uint64_t value = width == 8 ? edgert_next_u64_value(frame) : edgert_next_u32_value(frame);
  uint8_t *to;
  edgert_status status = edgert_bytes_write(target, index, 1, width, &to, error);
  if (status == EDGERT_OK) memcpy(to, &value, width);
  return status;
}

static edgert_status interpreter_fill_bytes(edgert_frame *frame, uint32_t width,
                                            edgert_error *error) {
  edgert_object *target = edgert_next_ref_value(frame);
  int64_t index = edgert_next_i64_value(frame);
  int64_t count = edgert_next_i64_value(frame);
  uint64_t value = width == 8 ? edgert_next_u64_value(frame) : edgert_next_u32_value(frame);
  uint8_t *to;
  edgert_status status = edgert_bytes_write(target, index, count, width, &to, error);
  if (status != EDGERT_OK) return status;
  for (int64_t i = 0; i < count; ++i) memcpy(to + (size_t)i * width, &value, width);
  return EDGERT_OK;
}

/* --- arithmetic that C leaves undefined ------------------------------------------------------- */

static edgert_status interpreter_divide_by_zero(edgert_error *error) {
  return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program divides by zero");
}

/* Signed division in C's sense, where the least number by -1 stays as it is. */
static int64_t interpreter_divide(int64_t a, int64_t b) {
  return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t interpreter_remainder(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }

/* The signed shift, which C leaves to the compiler. */
static uint32_t interpreter_shift_i32(uint32_t value, uint32_t by) {
  uint32_t sign = value >> 31 ? ~(UINT32_MAX >> by) : 0;
  return value >> by | sign;
}

static uint64_t interpreter_shift_i64(uint64_t value, uint32_t by) {
  uint64_t sign = value >> 63 ? ~(UINT64_MAX >> by) : 0;
  return value >> by | sign;
}

static uint32_t interpreter_leading_zeros(uint64_t value, uint32_t bits) {
  uint32_t count = 0;
  while (count < bits && !(value >> (bits - 1 - count) & 1)) ++count;
  return count;
}

/* --- instructions ----------------------------------------------------------------------------- */

#define BINARY_32(op, expression)                 \
  case op: {                                      \
    uint32_t a = edgert_next_u32_value(frame);    \
    uint32_t b = edgert_next_u32_value(frame);    \
    edgert_next_set_u32(frame, (uint32_t)(expression)); \
    break;                                        \
  }
#define BINARY_64(op, expression)                 \
  case op: {                                      \
    uint64_t a = edgert_next_u64_value(frame);    \
    uint64_t b = edgert_next_u64_value(frame);    \
    edgert_next_set_u64(frame, (uint64_t)(expression)); \
    break;                                        \
  }
#define COMPARE_64(op, expression)                \
  case op: {                                      \
    uint64_t a = edgert_next_u64_value(frame);    \
    uint64_t b = edgert_next_u64_value(frame);    \
    edgert_next_set_u32(frame, (expression));     \
    break;                                        \
  }
#define DIVIDE_32(op, expression)                 \
  case op: {                                      \
    uint32_t a = edgert_next_u32_value(frame);    \
    uint32_t b = edgert_next_u32_value(frame);    \
    if (b == 0) return interpreter_divide_by_zero(error); \
    edgert_next_set_u32(frame, (uint32_t)(expression)); \
    break;                                        \
  }
#define DIVIDE_64(op, expression)                 \
  case op: {                                      \
    uint64_t a = edgert_next_u64_value(frame);    \
    uint64_t b = edgert_next_u64_value(frame);    \
    if (b == 0) return interpreter_divide_by_zero(error); \
    edgert_next_set_u64(frame, (uint64_t)(expression)); \
    break;                                        \
  }
#define UNARY_32(op, expression)                  \
  case op: {                                      \
    uint32_t a = edgert_next_u32_value(frame);    \
    edgert_next_set_u32(frame, (uint32_t)(expression)); \
    break;                                        \
  }
#define UNARY_64(op, expression)                  \
  case op: {                                      \
    uint64_t a = edgert_next_u64_value(frame);    \
    edgert_next_set_u64(frame, (uint64_t)(expression)); \
    break;                                        \
  }
#define SHIFT_64(op, expression)                  \
  case op: {                                      \
    uint64_t a = edgert_next_u64_value(frame);    \
    uint32_t b = edgert_next_u32_value(frame) & 63; \
    edgert_next_set_u64(frame, (uint64_t)(expression)); \
    break;                                        \
  }
#define LOAD(op, type, extended)                  \
  case op: {                                      \
    const uint8_t *at;                            \
    type value;                                   \
    status = interpreter_element(frame, sizeof value, &at, error); \
    if (status != EDGERT_OK) return status;       \
    memcpy(&value, at, sizeof value);             \
    edgert_next_set_u32(frame, (uint32_t)(extended)value); \
    break;                                        \
  }

/* Run one instruction of the core set; `*ended` where it was a return. */
static edgert_status interpreter_core(edgert_frame *frame, edgert_core_opcode code,
                                      edgert_cell *results, int *ended, edgert_error *error) {
  edgert_session *session = frame->session;
  edgert_status status = EDGERT_OK;
  switch (code) {
    case EDGERT_OP_BLOCK:
      break;

    /* Globals. */
    case EDGERT_OP_GLOBAL_LOAD_I32:
      edgert_next_set_u32(frame, edgert_load_u32(session->globals + edgert_next_u32(frame)));
      break;
    case EDGERT_OP_GLOBAL_STORE_I32: {
      uint8_t *at = session->globals + edgert_next_u32(frame);
      uint32_t value = edgert_next_u32_value(frame);
      memcpy(at, &value, sizeof value);
      break;
    }
    case EDGERT_OP_GLOBAL_LOAD_I64:
      edgert_next_set_u64(frame, edgert_load_u64(session->globals + edgert_next_u32(frame)));
      break;
    case EDGERT_OP_GLOBAL_STORE_I64: {
      uint8_t *at = session->globals + edgert_next_u32(frame);
      uint64_t value = edgert_next_u64_value(frame);
      memcpy(at, &value, sizeof value);
      break;
    }
    case EDGERT_OP_GLOBAL_LOAD_INDIRECT_I32: {
      uint8_t *at;
      status = interpreter_global(frame, 4, &at, error);
      if (status == EDGERT_OK) edgert_next_set_u32(frame, edgert_load_u32(at));
      break;
    }
    case EDGERT_OP_GLOBAL_STORE_INDIRECT_I32: {
      uint8_t *at;
      status = interpreter_global(frame, 4, &at, error);
      if (status != EDGERT_OK) break;
      uint32_t value = edgert_next_u32_value(frame);
      memcpy(at, &value, sizeof value);
      break;
    }
    case EDGERT_OP_GLOBAL_LOAD_INDIRECT_I64: {
      uint8_t *at;
      status = interpreter_global(frame, 8, &at, error);
      if (status == EDGERT_OK) edgert_next_set_u64(frame, edgert_load_u64(at));
      break;
    }
    case EDGERT_OP_GLOBAL_STORE_INDIRECT_I64: {
      uint8_t *at;
      status = interpreter_global(frame, 8, &at, error);
      if (status != EDGERT_OK) break;
      uint64_t value = edgert_next_u64_value(frame);
      memcpy(at, &value, sizeof value);
      break;
    }
    case EDGERT_OP_GLOBAL_LOAD_REF:
      return interpreter_load_ref(frame, edgert_next_u32(frame), error);
    case EDGERT_OP_GLOBAL_STORE_REF:
      return interpreter_store_ref(frame, edgert_next_u32(frame), error);
    case EDGERT_OP_GLOBAL_LOAD_INDIRECT_REF:
      return interpreter_load_ref(frame, edgert_next_u32_value(frame), error);
    case EDGERT_OP_GLOBAL_STORE_INDIRECT_REF:
      return interpreter_store_ref(frame, edgert_next_u32_value(frame), error);

    /* Constants. */
    case EDGERT_OP_CONST_I32_ZERO:
      edgert_next_set_u32(frame, 0);
      break;
    case EDGERT_OP_CONST_I32: {
      uint32_t value = edgert_next_u32(frame);
      edgert_next_set_u32(frame, value);
      break;
    }
    case EDGERT_OP_CONST_I64_ZERO:
      edgert_next_set_u64(frame, 0);
      break;
    case EDGERT_OP_CONST_I64: {
      uint64_t value = edgert_next_u64(frame);
      edgert_next_set_u64(frame, value);
      break;
    }
    case EDGERT_OP_CONST_REF_ZERO:
      edgert_next_set_ref(frame, NULL);
      break;
    case EDGERT_OP_CONST_REF_RODATA:
      return interpreter_constant(frame, error);

    /* Lists. */
    case EDGERT_OP_LIST_ALLOC:
      return interpreter_list_alloc(frame, error);
    case EDGERT_OP_LIST_RESERVE:
    case EDGERT_OP_LIST_RESIZE: {
      edgert_list *list;
      status = interpreter_list(edgert_next_ref_value(frame), &list, error);
      if (status != EDGERT_OK) break;
      uint32_t count = edgert_next_u32_value(frame);
      return code == EDGERT_OP_LIST_RESIZE ? edgert_list_resize(list, count, error)
                                           : edgert_list_reserve(list, count, error);
    }
    case EDGERT_OP_LIST_SIZE: {
      edgert_list *list;
      status = interpreter_list(edgert_next_ref_value(frame), &list, error);
      if (status == EDGERT_OK) edgert_next_set_u32(frame, (uint32_t)list->count);
      break;
    }
    case EDGERT_OP_LIST_GET_I32: {
      edgert_slot slot = {.type = EDGERT_SLOT_I32};
      status = edgert_frame_list_get(frame, &slot, error);
      if (status == EDGERT_OK) edgert_next_set_u32(frame, (uint32_t)slot.as.i);
      break;
    }
    case EDGERT_OP_LIST_GET_I64: {
      edgert_slot slot = {.type = EDGERT_SLOT_I64};
      status = edgert_frame_list_get(frame, &slot, error);
      if (status == EDGERT_OK) edgert_next_set_u64(frame, (uint64_t)slot.as.i);
      break;
    }
    case EDGERT_OP_LIST_SET_I32: {
      edgert_object *object = edgert_next_ref_value(frame);
      uint32_t index = edgert_next_u32_value(frame);
      edgert_slot slot = {.type = EDGERT_SLOT_I32, .as.i = edgert_next_i32_value(frame)};
      return edgert_frame_list_set(object, index, slot, error);
    }
    case EDGERT_OP_LIST_SET_I64: {
      edgert_object *object = edgert_next_ref_value(frame);
      uint32_t index = edgert_next_u32_value(frame);
      edgert_slot slot = {.type = EDGERT_SLOT_I64, .as.i = edgert_next_i64_value(frame)};
      return edgert_frame_list_set(object, index, slot, error);
    }
    case EDGERT_OP_LIST_GET_REF:
      return interpreter_list_get_ref(frame, error);
    case EDGERT_OP_LIST_SET_REF:
      return interpreter_list_set_ref(frame, error);

    /* Choices. */
    case EDGERT_OP_SELECT_I32: {
      uint32_t condition = edgert_next_u32_value(frame);
      uint32_t a = edgert_next_u32_value(frame);
      uint32_t b = edgert_next_u32_value(frame);
      edgert_next_set_u32(frame, condition ? a : b);
      break;
    }
    case EDGERT_OP_SELECT_I64: {
      uint32_t condition = edgert_next_u32_value(frame);
      uint64_t a = edgert_next_u64_value(frame);
      uint64_t b = edgert_next_u64_value(frame);
      edgert_next_set_u64(frame, condition ? a : b);
      break;
    }
    case EDGERT_OP_SELECT_REF:
      return interpreter_select_ref(frame, error);
    case EDGERT_OP_SWITCH_I32: {
      uint32_t index = edgert_next_u32_value(frame);
      uint32_t otherwise = edgert_next_u32_value(frame);
      edgert_entries list = edgert_next_entries(frame, 2);
      edgert_next_set_u32(
          frame, index < list.count ? frame->words[edgert_entry(list, index)] : otherwise);
      break;
    }
    case EDGERT_OP_SWITCH_I64: {
      uint32_t index = edgert_next_u32_value(frame);
      uint64_t otherwise = edgert_next_u64_value(frame);
      edgert_entries list = edgert_next_entries(frame, 2);
      edgert_next_set_u64(frame, index < list.count
                                     ? edgert_load_u64(frame->words + edgert_entry(list, index))
                                     : otherwise);
      break;
    }
    case EDGERT_OP_SWITCH_REF:
      return interpreter_switch_ref(frame, error);

    /* Arithmetic. */
    BINARY_32(EDGERT_OP_ADD_I32, a + b)
    BINARY_32(EDGERT_OP_SUB_I32, a - b)
    BINARY_32(EDGERT_OP_MUL_I32, a * b)
    DIVIDE_32(EDGERT_OP_DIV_I32_S, interpreter_divide((int32_t)a, (int32_t)b))
    DIVIDE_32(EDGERT_OP_DIV_I32_U, a / b)
    DIVIDE_32(EDGERT_OP_REM_I32_S, interpreter_remainder((int32_t)a, (int32_t)b))
    DIVIDE_32(EDGERT_OP_REM_I32_U, a % b)
    BINARY_64(EDGERT_OP_ADD_I64, a + b)
    BINARY_64(EDGERT_OP_SUB_I64, a - b)
    BINARY_64(EDGERT_OP_MUL_I64, a * b)
    DIVIDE_64(EDGERT_OP_DIV_I64_S, interpreter_divide((int64_t)a, (int64_t)b))
    DIVIDE_64(EDGERT_OP_DIV_I64_U, a / b)
    DIVIDE_64(EDGERT_OP_REM_I64_S, interpreter_remainder((int64_t)a, (int64_t)b))
    DIVIDE_64(EDGERT_OP_REM_I64_U, a % b)
    case EDGERT_OP_FMA_I32: {
      uint32_t a = edgert_next_u32_value(frame);
      uint32_t b = edgert_next_u32_value(frame);
      uint32_t c = edgert_next_u32_value(frame);
      edgert_next_set_u32(frame, a * b + c);
      break;
    }
    case EDGERT_OP_FMA_I64: {
      uint64_t a = edgert_next_u64_value(frame);
      uint64_t b = edgert_next_u64_value(frame);
      uint64_t c = edgert_next_u64_value(frame);
      edgert_next_set_u64(frame, a * b + c);
      break;
    }
    UNARY_32(EDGERT_OP_NOT_I32, ~a)
    BINARY_32(EDGERT_OP_AND_I32, a &b)
    BINARY_32(EDGERT_OP_OR_I32, a | b)
    BINARY_32(EDGERT_OP_XOR_I32, a ^ b)
    UNARY_64(EDGERT_OP_NOT_I64, ~a)
    BINARY_64(EDGERT_OP_AND_I64, a &b)
    BINARY_64(EDGERT_OP_OR_I64, a | b)
    BINARY_64(EDGERT_OP_XOR_I64, a ^ b)
    BINARY_32(EDGERT_OP_SHL_I32, a << (b & 31))
    BINARY_32(EDGERT_OP_SHR_I32_S, interpreter_shift_i32(a, b & 31))
    BINARY_32(EDGERT_OP_SHR_I32_U, a >> (b & 31))
    SHIFT_64(EDGERT_OP_SHL_I64, a << b)
    SHIFT_64(EDGERT_OP_SHR_I64_S, interpreter_shift_i64(a, b))
    SHIFT_64(EDGERT_OP_SHR_I64_U, a >> b)
    UNARY_32(EDGERT_OP_CTLZ_I32, interpreter_leading_zeros(a, 32))
    UNARY_64(EDGERT_OP_CTLZ_I64, interpreter_leading_zeros(a, 64))
    UNARY_32(EDGERT_OP_ABS_I32, a >> 31 ? 0 - a : a)
    UNARY_64(EDGERT_OP_ABS_I64, a >> 63 ? 0 - a : a)
    BINARY_32(EDGERT_OP_MIN_I32_S, (int32_t)b < (int32_t)a ? b : a)
    BINARY_32(EDGERT_OP_MIN_I32_U, b < a ? b : a)
    BINARY_32(EDGERT_OP_MAX_I32_S, (int32_t)a < (int32_t)b ? b : a)
    BINARY_32(EDGERT_OP_MAX_I32_U, a < b ? b : a)
    BINARY_64(EDGERT_OP_MIN_I64_S, (int64_t)b < (int64_t)a ? b : a)
    BINARY_64(EDGERT_OP_MIN_I64_U, b < a ? b : a)
    BINARY_64(EDGERT_OP_MAX_I64_S, (int64_t)a < (int64_t)b ? b : a)
    BINARY_64(EDGERT_OP_MAX_I64_U, a < b ? b : a)

    /* Conversions. */
    UNARY_32(EDGERT_OP_TRUNC_I32_I8, a & 0xFF)
    UNARY_32(EDGERT_OP_TRUNC_I32_I16, a & 0xFFFF)
    UNARY_32(EDGERT_OP_EXT_I8_I32_S, (int32_t)(int8_t)a)
    UNARY_32(EDGERT_OP_EXT_I8_I32_U, a & 0xFF)
    UNARY_32(EDGERT_OP_EXT_I16_I32_S, (int32_t)(int16_t)a)
    UNARY_32(EDGERT_OP_EXT_I16_I32_U, a & 0xFFFF)
    case EDGERT_OP_TRUNC_I64_I32: {
      uint64_t a = edgert_next_u64_value(frame);
      edgert_next_set_u32(frame, (uint32_t)a);
      break;
    }
    case EDGERT_OP_EXT_I32_I64_S: {
      int64_t a = edgert_next_i32_value(frame);
      edgert_next_set_u64(frame, (uint64_t)a);
      break;
    }
    case EDGERT_OP_EXT_I32_I64_U: {
      uint64_t a = edgert_next_u32_value(frame);
      edgert_next_set_u64(frame, a);
      break;
    }

    /* Comparisons. */
    BINARY_32(EDGERT_OP_CMP_EQ_I32, a == b)
    BINARY_32(EDGERT_OP_CMP_NE_I32, a != b)
    BINARY_32(EDGERT_OP_CMP_LT_I32_S, (int32_t)a < (int32_t)b)
    BINARY_32(EDGERT_OP_CMP_LT_I32_U, a < b)
    UNARY_32(EDGERT_OP_CMP_NZ_I32, a != 0)
    COMPARE_64(EDGERT_OP_CMP_EQ_I64, a == b)
    COMPARE_64(EDGERT_OP_CMP_NE_I64, a != b)
    COMPARE_64(EDGERT_OP_CMP_LT_I64_S, (int64_t)a < (int64_t)b)
    COMPARE_64(EDGERT_OP_CMP_LT_I64_U, a < b)
    case EDGERT_OP_CMP_NZ_I64: {
      uint64_t a = edgert_next_u64_value(frame);
      edgert_next_set_u32(frame, a != 0);
      break;
    }
    case EDGERT_OP_CMP_EQ_REF:
    case EDGERT_OP_CMP_NE_REF: {
      edgert_object *a = edgert_next_ref_value(frame);
      edgert_object *b = edgert_next_ref_value(frame);
      edgert_next_set_u32(frame, (a == b) == (code == EDGERT_OP_CMP_EQ_REF));
      break;
    }
    case EDGERT_OP_CMP_NZ_REF: {
      edgert_object *a = edgert_next_ref_value(frame);
      edgert_next_set_u32(frame, a != NULL);
      break;
    }

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
      *ended = 1;
      break;
    case EDGERT_OP_FAIL:
      return interpreter_fail(frame, error);
    case EDGERT_OP_IMPORT_RESOLVED: {
      uint32_t callee = edgert_next_u32(frame);
      int found = !(callee & INTERPRETER_IMPORT) || session->imports[callee & ~INTERPRETER_IMPORT];
      edgert_next_set_u32(frame, found ? 1 : 0);
      break;
    }
    case EDGERT_OP_TRACE:
    case EDGERT_OP_PRINT: {
      uint32_t size = edgert_next_u16(frame);
      frame->pc += size;
      interpreter_drop_moved(frame, edgert_next_entries(frame, 2));
      break;
    }

    /* Bytes. */
    LOAD(EDGERT_OP_BUFFER_LOAD_I8_U, uint8_t, uint32_t)
    LOAD(EDGERT_OP_BUFFER_LOAD_I8_S, int8_t, int32_t)
    LOAD(EDGERT_OP_BUFFER_LOAD_I16_U, uint16_t, uint32_t)
    LOAD(EDGERT_OP_BUFFER_LOAD_I16_S, int16_t, int32_t)
    LOAD(EDGERT_OP_BUFFER_LOAD_I32, uint32_t, uint32_t)
    case EDGERT_OP_BUFFER_LOAD_I64: {
      const uint8_t *at;
      status = interpreter_element(frame, 8, &at, error);
      if (status == EDGERT_OK) edgert_next_set_u64(frame, edgert_load_u64(at));
      break;
    }
    case EDGERT_OP_BUFFER_STORE_I8:
      return interpreter_store(frame, 1, error);
    case EDGERT_OP_BUFFER_STORE_I16:
      return interpreter_store(frame, 2, error);
    case EDGERT_OP_BUFFER_STORE_I32:
      return interpreter_store(frame, 4, error);
    case EDGERT_OP_BUFFER_STORE_I64:
      return interpreter_store(frame, 8, error);
    case EDGERT_OP_BUFFER_FILL_I8:
      return interpreter_fill_bytes(frame, 1, error);
    case EDGERT_OP_BUFFER_FILL_I16:
      return interpreter_fill_bytes(frame, 2, error);
    case EDGERT_OP_BUFFER_FILL_I32:
      return interpreter_fill_bytes(frame, 4, error);
    case EDGERT_OP_BUFFER_FILL_I64:
      return interpreter_fill_bytes(frame, 8, error);
    case EDGERT_OP_BUFFER_ALLOC:
      return interpreter_bytes_alloc(frame, error);
    case EDGERT_OP_BUFFER_CLONE:
      return interpreter_bytes_clone(frame, error);
    case EDGERT_OP_BUFFER_LENGTH:
      return interpreter_bytes_length(frame, error);
    case EDGERT_OP_BUFFER_COPY:
      return interpreter_bytes_copy(frame, error);
    case EDGERT_OP_BUFFER_COMPARE:
      return interpreter_bytes_compare(frame, error);
    case EDGERT_OP_BUFFER_HASH:
      return interpreter_bytes_hash(frame, error);

    /* References. */
    case EDGERT_OP_CAST_ANY_REF:
      return interpreter_cast(frame, error);
    case EDGERT_OP_ASSIGN_REF: {
      edgert_object *object = edgert_frame_take(frame, edgert_next_u16(frame));
      edgert_next_set_ref(frame, object);
      break;
    }
    case EDGERT_OP_DISCARD_REFS: {
      edgert_entries list = edgert_next_entries(frame, 2);
      for (uint32_t i = 0; i < list.count; ++i)
        edgert_release_at(&frame->refs[edgert_entry(list, i) & EDGERT_REGISTER_INDEX]);
      break;
    }
  }
  return status;
}

static edgert_status interpreter_run(edgert_frame *frame, edgert_cell *results,
                                     edgert_error *error) {
  edgert_status status = EDGERT_OK;
  int ended = 0;
  while (status == EDGERT_OK && !ended) {
    uint32_t code = edgert_next_u8(frame);
    if (code == EDGERT_PREFIX_F32)
      status = edgert_frame_run_f32(frame, error);
    else if (code == EDGERT_PREFIX_F64)
      status = edgert_frame_run_f64(frame, error);
    else
      status = interpreter_core(frame, (edgert_core_opcode)code, results, &ended, error);
  }
  return status;
}

edgert_status edgert_session_run(edgert_session *self, uint32_t function,
                                 const edgert_cell *arguments, edgert_cell *results,
                                 edgert_error *error) {
  const edgert_function *callee = &self->module->functions[function];
  edgert_codes codes = callee->convention.arguments;
  edgert_stack_mark mark = edgert_stack_save(&self->stack);
  self->steps = 0;
  self->depth = 0;
  memset(results, 0, callee->convention.results.count * sizeof *results);
  edgert_frame frame;
  edgert_status status = interpreter_enter(self, callee, &frame, error);
  if (status == EDGERT_OK) {
    uint32_t words = 0, refs = 0;
    for (uint32_t i = 0; i < codes.count; ++i) {
      if (codes.data[i] == 'r') edgert_retain(arguments[i].ref);
      interpreter_fill(&frame, arguments[i], codes.data[i], &words, &refs);
    }
    status = interpreter_run(&frame, results, error);
    interpreter_leave(&frame);
  }
  if (status != EDGERT_OK) interpreter_drop_cells(callee->convention.results, results);
  edgert_stack_restore(&self->stack, &self->object.allocator, mark);
  return status;
}
