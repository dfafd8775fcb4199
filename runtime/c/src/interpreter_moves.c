/* Instructions that move values: globals, constants, choices, elements of bytes. */
#include "frame.h"

/* Where a number among the globals lies whose offset is in a register. */
static edgert_status move_find_global(edgert_frame *frame, uint32_t width, uint8_t **out,
                                      edgert_error *error) {
  uint32_t offset = edgert_next_u32_value(frame);
  *out = NULL;
  if (edgert_in_range(offset, width, frame->session->module->global_bytes)) {
    *out = frame->session->globals + offset;
    return EDGERT_OK;
  }
  return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "there is no global at byte %u",
                     (unsigned)offset);
}

static edgert_status move_find_element(edgert_frame *frame, edgert_move move, uint32_t width,
                                       uint8_t **out, int64_t *out_count, edgert_error *error) {
  edgert_object *bytes = edgert_next_ref_value(frame);
  int64_t index = edgert_next_i64_value(frame);
  *out_count = move == EDGERT_MOVE_BUFFER_FILL ? edgert_next_i64_value(frame) : 1;
  if (move != EDGERT_MOVE_BUFFER_LOAD)
    return edgert_bytes_write(bytes, index, *out_count, width, out, error);
  const uint8_t *from = NULL;
  edgert_status status = edgert_bytes_read(bytes, index, 1, width, &from, error);
  *out = (uint8_t *)(uintptr_t)from;
  return status;
}

edgert_status edgert_frame_run_move(edgert_frame *frame, edgert_move move, uint32_t width,
                                    edgert_error *error) {
  const int wide = width == 8;
  uint8_t *at = NULL;
  int64_t count = 1;
  uint64_t value = 0;
  edgert_status status = EDGERT_OK;
  switch (move) {
    case EDGERT_MOVE_GLOBAL_LOAD:
    case EDGERT_MOVE_GLOBAL_STORE:
      at = frame->session->globals + edgert_next_u32(frame);
      break;
    case EDGERT_MOVE_GLOBAL_LOAD_INDIRECT:
    case EDGERT_MOVE_GLOBAL_STORE_INDIRECT:
      status = move_find_global(frame, width, &at, error);
      break;
    case EDGERT_MOVE_ZERO:
      break;
    case EDGERT_MOVE_CONST:
      at = (uint8_t *)(uintptr_t)frame->pc;
      frame->pc += width;
      break;
    case EDGERT_MOVE_SELECT: {
      int condition = edgert_next_u32_value(frame) != 0;
      uint64_t first = edgert_next_value(frame, wide);
      uint64_t second = edgert_next_value(frame, wide);
      value = condition ? first : second;
      break;
    }
    case EDGERT_MOVE_SWITCH: {
      uint32_t index = edgert_next_u32_value(frame);
      value = edgert_next_value(frame, wide);
      edgert_entries list = edgert_next_entries(frame, 2);
      if (index < list.count)
        memcpy(&value, frame->words + edgert_entry(list, index), width);
      break;
    }
    case EDGERT_MOVE_BUFFER_LOAD:
    case EDGERT_MOVE_BUFFER_STORE:
    case EDGERT_MOVE_BUFFER_FILL:
      status = move_find_element(frame, move, width, &at, &count, error);
      break;
  }
  if (status != EDGERT_OK) return status;
  switch (move) {
    case EDGERT_MOVE_GLOBAL_STORE:
    case EDGERT_MOVE_GLOBAL_STORE_INDIRECT:
    case EDGERT_MOVE_BUFFER_STORE:
    case EDGERT_MOVE_BUFFER_FILL:
      value = edgert_next_value(frame, wide);
      for (; count > 0; --count, at += width) memcpy(at, &value, width);
      break;
    default:
      if (at) memcpy(&value, at, width);
      edgert_next_set(frame, wide, value);
  }
  return EDGERT_OK;
}
