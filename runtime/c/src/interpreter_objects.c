/* Instructions on references: globals, constants, choices, lists, bytes. */
#include "frame.h"

static edgert_status object_check_type(const edgert_frame *frame, uint32_t type,
                                            edgert_object *object, edgert_error *error) {
  if (edgert_type_accepts(&frame->session->module->types[type], object)) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program takes a %s for something else",
                     edgert_kind_name(object->kind));
}

static edgert_status object_load_ref(edgert_frame *frame, uint32_t global,
                                          edgert_error *error) {
  uint32_t type = edgert_next_u32(frame);
  uint32_t name = edgert_next_u16(frame);
  if (global >= frame->session->module->global_refs)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "there is no global reference %u",
                       (unsigned)global);
  edgert_object **place = &frame->session->global_refs[global];
  edgert_status status = object_check_type(frame, type, *place, error);
  if (status != EDGERT_OK) return status;
  edgert_object *object = *place;
  if (name & EDGERT_REGISTER_MOVE)
    *place = NULL;
  else
    edgert_retain(object);
  edgert_frame_put(frame, name, object);
  return EDGERT_OK;
}

static edgert_status object_store_ref(edgert_frame *frame, uint32_t global,
                                           edgert_error *error) {
  uint32_t type = edgert_next_u32(frame);
  uint32_t name = edgert_next_u16(frame);
  if (global >= frame->session->module->global_refs)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "there is no global reference %u",
                       (unsigned)global);
  edgert_object *object = frame->refs[name & EDGERT_REGISTER_INDEX];
  edgert_status status = object_check_type(frame, type, object, error);
  if (status != EDGERT_OK) return status;
  object = edgert_frame_take(frame, name);
  edgert_object *old = frame->session->global_refs[global];
  frame->session->global_refs[global] = object;
  edgert_release(old);
  return EDGERT_OK;
}

static edgert_status object_constant(edgert_frame *frame, edgert_error *error) {
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

static edgert_status object_list(edgert_object *object, edgert_list **out,
                                 edgert_error *error) {
  *out = edgert_object_as(object, EDGERT_KIND_LIST);
  if (*out) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program uses a list that is null");
}

edgert_status edgert_frame_list_get(edgert_frame *frame, edgert_slot_type type,
                                    edgert_error *error) {
  edgert_slot slot = {.type = type};
  edgert_list *list;
  edgert_status status = object_list(edgert_next_ref_value(frame), &list, error);
  uint32_t index = edgert_next_u32_value(frame);
  if (status == EDGERT_OK) status = edgert_list_get(list, index, &slot, error);
  if (status == EDGERT_OK)
    edgert_next_set(frame, type == EDGERT_SLOT_I64 || type == EDGERT_SLOT_F64,
                    (uint64_t)slot.as.i);
  return status;
}

edgert_status edgert_frame_list_set(edgert_frame *frame, edgert_slot_type type,
                                    edgert_error *error) {
  edgert_list *list;
  edgert_status status = object_list(edgert_next_ref_value(frame), &list, error);
  uint32_t index = edgert_next_u32_value(frame);
  int wide = type == EDGERT_SLOT_I64 || type == EDGERT_SLOT_F64;
  edgert_slot slot = {.type = type, .as.i = (int64_t)edgert_next_value(frame, wide)};
  return status == EDGERT_OK ? edgert_list_set(list, index, slot, error) : status;
}

static edgert_status object_list_alloc(edgert_frame *frame, edgert_error *error) {
  edgert_type type = frame->session->module->types[edgert_next_u32(frame)];
  uint32_t capacity = edgert_next_u32_value(frame);
  edgert_list *list;
  edgert_status status =
      edgert_list_create(&frame->session->object.allocator,
                                            &frame->session->lists, type, capacity, &list, error);
  if (status == EDGERT_OK) edgert_next_set_ref(frame, &list->object);
  return status;
}

static edgert_status object_list_get_ref(edgert_frame *frame, edgert_error *error) {
  edgert_list *list;
  edgert_status status = object_list(edgert_next_ref_value(frame), &list, error);
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

static edgert_status object_list_set_ref(edgert_frame *frame, edgert_error *error) {
  edgert_list *list;
  edgert_status status = object_list(edgert_next_ref_value(frame), &list, error);
  if (status != EDGERT_OK) return status;
  uint32_t index = edgert_next_u32_value(frame);
  return edgert_list_set_ref(list, index, edgert_frame_take(frame, edgert_next_u16(frame)), error);
}

static edgert_status object_select_ref(edgert_frame *frame, edgert_error *error) {
  int condition = edgert_next_u32_value(frame) != 0;
  uint32_t type = edgert_next_u32(frame);
  edgert_object *first = edgert_frame_take(frame, edgert_next_u16(frame));
  edgert_object *second = edgert_frame_take(frame, edgert_next_u16(frame));
  edgert_object *chosen = condition ? first : second;
  edgert_release(condition ? second : first);
  edgert_status status = object_check_type(frame, type, chosen, error);
  if (status != EDGERT_OK)
    edgert_release(chosen);
  else
    edgert_next_set_ref(frame, chosen);
  return status;
}

static edgert_status object_switch_ref(edgert_frame *frame, edgert_error *error) {
  uint32_t index = edgert_next_u32_value(frame);
  uint32_t type = edgert_next_u32(frame);
  uint32_t otherwise = edgert_next_u16(frame);
  edgert_entries list = edgert_next_entries(frame, 2);
  uint32_t name = index < list.count ? edgert_entry(list, index) : otherwise;
  edgert_object *chosen = edgert_frame_take(frame, name);
  if (otherwise & EDGERT_REGISTER_MOVE)
    edgert_release_at(&frame->refs[otherwise & EDGERT_REGISTER_INDEX]);
  edgert_frame_drop_moved(frame, list);
  edgert_status status = object_check_type(frame, type, chosen, error);
  if (status != EDGERT_OK)
    edgert_release(chosen);
  else
    edgert_next_set_ref(frame, chosen);
  return status;
}

static edgert_status object_cast(edgert_frame *frame, edgert_error *error) {
  uint32_t name = edgert_next_u16(frame);
  uint32_t type = edgert_next_u32(frame);
  edgert_status status = object_check_type(
      frame, type, frame->refs[name & EDGERT_REGISTER_INDEX], error);
  if (status == EDGERT_OK) edgert_next_set_ref(frame, edgert_frame_take(frame, name));
  return status;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static edgert_status object_bytes_alloc(edgert_frame *frame, edgert_error *error) {
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

static edgert_status object_bytes_clone(edgert_frame *frame, edgert_error *error) {
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

static edgert_status object_bytes_copy(edgert_frame *frame, edgert_error *error) {
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

static edgert_status object_bytes_compare(edgert_frame *frame, edgert_error *error) {
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

static edgert_status object_bytes_hash(edgert_frame *frame, edgert_error *error) {
  edgert_object *source = edgert_next_ref_value(frame);
  int64_t offset = edgert_next_i64_value(frame);
  int64_t size = edgert_next_i64_value(frame);
  const uint8_t *data;
  edgert_status status = edgert_bytes_read(source, offset, size, 1, &data, error);
  if (status == EDGERT_OK) edgert_next_set_u64(frame, edgert_bytes_hash(data, (size_t)size));
  return status;
}

static edgert_status object_bytes_length(edgert_frame *frame, edgert_error *error) {
  edgert_bytes *bytes = edgert_object_as(edgert_next_ref_value(frame), EDGERT_KIND_BYTES);
  if (!bytes)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program uses bytes that are null");
  edgert_next_set_u64(frame, bytes->size);
  return EDGERT_OK;
}

edgert_status edgert_frame_run_object(edgert_frame *frame, edgert_core_opcode code,
                                      edgert_error *error) {
  edgert_status status = EDGERT_OK;
  switch (code) {
    case EDGERT_OP_GLOBAL_LOAD_REF: return object_load_ref(frame, edgert_next_u32(frame), error);
    case EDGERT_OP_GLOBAL_STORE_REF: return object_store_ref(frame, edgert_next_u32(frame), error);
    case EDGERT_OP_GLOBAL_LOAD_INDIRECT_REF:
      return object_load_ref(frame, edgert_next_u32_value(frame), error);
    case EDGERT_OP_GLOBAL_STORE_INDIRECT_REF:
      return object_store_ref(frame, edgert_next_u32_value(frame), error);
    case EDGERT_OP_CONST_REF_ZERO: edgert_next_set_ref(frame, NULL); break;
    case EDGERT_OP_CONST_REF_RODATA: return object_constant(frame, error);
    case EDGERT_OP_SELECT_REF: return object_select_ref(frame, error);
    case EDGERT_OP_SWITCH_REF: return object_switch_ref(frame, error);
    case EDGERT_OP_CAST_ANY_REF: return object_cast(frame, error);
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
    case EDGERT_OP_LIST_ALLOC: return object_list_alloc(frame, error);
    case EDGERT_OP_LIST_RESERVE:
    case EDGERT_OP_LIST_RESIZE: {
      edgert_list *list;
      status = object_list(edgert_next_ref_value(frame), &list, error);
      if (status != EDGERT_OK) break;
      uint32_t count = edgert_next_u32_value(frame);
      return code == EDGERT_OP_LIST_RESIZE ? edgert_list_resize(list, count, error)
                                           : edgert_list_reserve(list, count, error);
    }
    case EDGERT_OP_LIST_SIZE: {
      edgert_list *list;
      status = object_list(edgert_next_ref_value(frame), &list, error);
      if (status == EDGERT_OK) edgert_next_set_u32(frame, (uint32_t)list->count);
      break;
    }
    case EDGERT_OP_LIST_GET_I32: return edgert_frame_list_get(frame, EDGERT_SLOT_I32, error);
    case EDGERT_OP_LIST_GET_I64: return edgert_frame_list_get(frame, EDGERT_SLOT_I64, error);
    case EDGERT_OP_LIST_SET_I32: return edgert_frame_list_set(frame, EDGERT_SLOT_I32, error);
    case EDGERT_OP_LIST_SET_I64: return edgert_frame_list_set(frame, EDGERT_SLOT_I64, error);
    case EDGERT_OP_LIST_GET_REF: return object_list_get_ref(frame, error);
    case EDGERT_OP_LIST_SET_REF: return object_list_set_ref(frame, error);
    case EDGERT_OP_BUFFER_ALLOC: return object_bytes_alloc(frame, error);
    case EDGERT_OP_BUFFER_CLONE: return object_bytes_clone(frame, error);
    case EDGERT_OP_BUFFER_LENGTH: return object_bytes_length(frame, error);
    case EDGERT_OP_BUFFER_COPY: return object_bytes_copy(frame, error);
    case EDGERT_OP_BUFFER_COMPARE: return object_bytes_compare(frame, error);
    case EDGERT_OP_BUFFER_HASH: return object_bytes_hash(frame, error);
    default: break; /* the interpreter sends nothing else here */
  }
  return status;
}
