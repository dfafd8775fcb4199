/* The f32 set: arithmetic on registers in 32 bits, by the C library's functions. */
#include <math.h>

#include "frame.h"
#include "opcodes.h"

#if defined(FP_CONTRACT)
#pragma STDC FP_CONTRACT OFF
#endif

/* a * b + c, rounded once where the processor does that, as the reference runtime has it. */
static float f32_fma(float a, float b, float c) {
#if defined(FP_FAST_FMAF)
  return fmaf(a, b, c);
#else
  volatile float product = a * b;
  return product + c;
#endif
}

/* To the nearest integer, halves away from zero; the least integer where that does not fit. */
static int64_t f32_to_i64(float value) {
  float rounded = roundf(value);
  if (!(rounded >= -0x1p63f && rounded < 0x1p63f)) return INT64_MIN;
  return (int64_t)rounded;
}

static uint64_t f32_to_u64(float value) {
  float rounded = roundf(value);
  if (rounded >= 0x1p63f && rounded < 0x1p64f) return (uint64_t)rounded;
  return (uint64_t)f32_to_i64(rounded);
}

#define UNARY(op, expression)                         \
  case op: {                                          \
    float a = edgert_next_f32_value(frame);              \
    edgert_next_set_f32(frame, (expression));          \
    break;                                            \
  }
#define BINARY(op, expression)                        \
  case op: {                                          \
    float a = edgert_next_f32_value(frame);              \
    float b = edgert_next_f32_value(frame);              \
    edgert_next_set_f32(frame, (expression));          \
    break;                                            \
  }
#define COMPARE(op, expression)                       \
  case op: {                                          \
    float a = edgert_next_f32_value(frame);              \
    float b = edgert_next_f32_value(frame);              \
    edgert_next_set_u32(frame, (expression) ? 1 : 0); \
    break;                                            \
  }
#define CONVERT(op, from, to, type, expression)       \
  case op: {                                          \
    type a = edgert_next_##from##_value(frame);       \
    edgert_next_set_##to(frame, (expression));        \
    break;                                            \
  }

edgert_status edgert_frame_run_f32(edgert_frame *frame, edgert_error *error) {
  edgert_session *session = frame->session;
  edgert_status status = EDGERT_OK;
  edgert_f32_opcode code = (edgert_f32_opcode)edgert_next_u8(frame);
  switch (code) {
    /* Globals and constants. */
    case EDGERT_OP_GLOBAL_LOAD_F32: {
      float value;
      memcpy(&value, session->globals + edgert_next_u32(frame), sizeof value);
      edgert_next_set_f32(frame, value);
      break;
    }
    case EDGERT_OP_GLOBAL_STORE_F32: {
      uint8_t *at = session->globals + edgert_next_u32(frame);
      float value = edgert_next_f32_value(frame);
      memcpy(at, &value, sizeof value);
      break;
    }
    case EDGERT_OP_GLOBAL_LOAD_INDIRECT_F32:
    case EDGERT_OP_GLOBAL_STORE_INDIRECT_F32: {
      uint32_t offset = edgert_next_u32_value(frame);
      float value;
      if (!edgert_in_range(offset, sizeof value, session->module->global_bytes))
        return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "there is no global at byte %u",
                           (unsigned)offset);
      if (code == EDGERT_OP_GLOBAL_LOAD_INDIRECT_F32) {
        memcpy(&value, session->globals + offset, sizeof value);
        edgert_next_set_f32(frame, value);
      } else {
        value = edgert_next_f32_value(frame);
        memcpy(session->globals + offset, &value, sizeof value);
      }
      break;
    }
    case EDGERT_OP_CONST_F32_ZERO:
      edgert_next_set_f32(frame, 0);
      break;
    case EDGERT_OP_CONST_F32: {
      float value;
      memcpy(&value, frame->pc, sizeof value);
      frame->pc += sizeof value;
      edgert_next_set_f32(frame, value);
      break;
    }

    /* Lists and choices. */
    case EDGERT_OP_LIST_GET_F32: {
      edgert_slot slot = {.type = EDGERT_SLOT_F32};
      status = edgert_frame_list_get(frame, &slot, error);
      if (status == EDGERT_OK) edgert_next_set_f32(frame, slot.as.f32);
      break;
    }
    case EDGERT_OP_LIST_SET_F32: {
      edgert_object *object = edgert_next_ref_value(frame);
      uint32_t index = edgert_next_u32_value(frame);
      edgert_slot slot = {.type = EDGERT_SLOT_F32, .as.f32 = edgert_next_f32_value(frame)};
      return edgert_frame_list_set(object, index, slot, error);
    }
    case EDGERT_OP_SELECT_F32: {
      uint32_t condition = edgert_next_u32_value(frame);
      float a = edgert_next_f32_value(frame);
      float b = edgert_next_f32_value(frame);
      edgert_next_set_f32(frame, condition ? a : b);
      break;
    }
    case EDGERT_OP_SWITCH_F32: {
      uint32_t index = edgert_next_u32_value(frame);
      float value = edgert_next_f32_value(frame);
      edgert_entries list = edgert_next_entries(frame, 2);
      if (index < list.count)
        memcpy(&value, frame->words + edgert_entry(list, index), sizeof value);
      edgert_next_set_f32(frame, value);
      break;
    }

    /* Arithmetic. */
    BINARY(EDGERT_OP_ADD_F32, a + b)
    BINARY(EDGERT_OP_SUB_F32, a - b)
    BINARY(EDGERT_OP_MUL_F32, a *b)
    BINARY(EDGERT_OP_DIV_F32, a / b)
    BINARY(EDGERT_OP_REM_F32, remainderf(a, b))
    case EDGERT_OP_FMA_F32: {
      float a = edgert_next_f32_value(frame);
      float b = edgert_next_f32_value(frame);
      float c = edgert_next_f32_value(frame);
      edgert_next_set_f32(frame, f32_fma(a, b, c));
      break;
    }
    UNARY(EDGERT_OP_ABS_F32, fabsf(a))
    UNARY(EDGERT_OP_NEG_F32, -a)
    UNARY(EDGERT_OP_CEIL_F32, ceilf(a))
    UNARY(EDGERT_OP_FLOOR_F32, floorf(a))
    UNARY(EDGERT_OP_ROUND_F32, roundf(a))
    UNARY(EDGERT_OP_ROUND_F32_EVEN, nearbyintf(a))
    BINARY(EDGERT_OP_MIN_F32, b < a ? b : a)
    BINARY(EDGERT_OP_MAX_F32, a < b ? b : a)
    UNARY(EDGERT_OP_ATAN_F32, atanf(a))
    BINARY(EDGERT_OP_ATAN2_F32, atan2f(a, b))
    UNARY(EDGERT_OP_COS_F32, cosf(a))
    UNARY(EDGERT_OP_SIN_F32, sinf(a))
    UNARY(EDGERT_OP_EXP_F32, expf(a))
    UNARY(EDGERT_OP_EXP2_F32, exp2f(a))
    UNARY(EDGERT_OP_EXPM1_F32, expm1f(a))
    UNARY(EDGERT_OP_LOG_F32, logf(a))
    UNARY(EDGERT_OP_LOG10_F32, log10f(a))
    UNARY(EDGERT_OP_LOG1P_F32, log1pf(a))
    UNARY(EDGERT_OP_LOG2_F32, log2f(a))
    BINARY(EDGERT_OP_POW_F32, powf(a, b))
    UNARY(EDGERT_OP_RSQRT_F32, 1 / sqrtf(a))
    UNARY(EDGERT_OP_SQRT_F32, sqrtf(a))
    UNARY(EDGERT_OP_TANH_F32, tanhf(a))
    UNARY(EDGERT_OP_ERF_F32, erff(a))

    /* Conversions. */
    CONVERT(EDGERT_OP_CAST_SI32_F32, i32, f32, int32_t, (float)a)
    CONVERT(EDGERT_OP_CAST_UI32_F32, u32, f32, uint32_t, (float)a)
    CONVERT(EDGERT_OP_CAST_SI64_F32, i64, f32, int64_t, (float)a)
    CONVERT(EDGERT_OP_CAST_UI64_F32, u64, f32, uint64_t, (float)a)
    CONVERT(EDGERT_OP_CAST_F32_SI32, f32, u32, float, (uint32_t)f32_to_i64(a))
    CONVERT(EDGERT_OP_CAST_F32_UI32, f32, u32, float, (uint32_t)f32_to_i64(a))
    CONVERT(EDGERT_OP_CAST_F32_SI64, f32, u64, float, (uint64_t)f32_to_i64(a))
    CONVERT(EDGERT_OP_CAST_F32_UI64, f32, u64, float, f32_to_u64(a))
    case EDGERT_OP_BITCAST_I32_F32:
    case EDGERT_OP_BITCAST_F32_I32: {
      uint32_t bits = edgert_next_u32_value(frame);
      edgert_next_set_u32(frame, bits);
      break;
    }

    /* Comparisons: _U is true where either is no number. */
    COMPARE(EDGERT_OP_CMP_EQ_F32_O, a == b)
    COMPARE(EDGERT_OP_CMP_EQ_F32_U, isunordered(a, b) || a == b)
    COMPARE(EDGERT_OP_CMP_NE_F32_O, a != b)
    COMPARE(EDGERT_OP_CMP_NE_F32_U, a != b)
    COMPARE(EDGERT_OP_CMP_LT_F32_O, isless(a, b))
    COMPARE(EDGERT_OP_CMP_LT_F32_U, !isgreaterequal(a, b))
    COMPARE(EDGERT_OP_CMP_LTE_F32_O, islessequal(a, b))
    COMPARE(EDGERT_OP_CMP_LTE_F32_U, !isgreater(a, b))
    CONVERT(EDGERT_OP_CMP_NAN_F32, f32, u32, float, isnan(a) ? 1 : 0)

    /* Bytes. */
    case EDGERT_OP_BUFFER_LOAD_F32: {
      edgert_object *source = edgert_next_ref_value(frame);
      int64_t index = edgert_next_i64_value(frame);
      const uint8_t *at;
      float value;
      status = edgert_bytes_read(source, index, 1, sizeof value, &at, error);
      if (status != EDGERT_OK) break;
      memcpy(&value, at, sizeof value);
      edgert_next_set_f32(frame, value);
      break;
    }
    case EDGERT_OP_BUFFER_STORE_F32: {
      edgert_object *target = edgert_next_ref_value(frame);
      int64_t index = edgert_next_i64_value(frame);
      float value = edgert_next_f32_value(frame);
      uint8_t *at;
      status = edgert_bytes_write(target, index, 1, sizeof value, &at, error);
      if (status == EDGERT_OK) memcpy(at, &value, sizeof value);
      break;
    }
    case EDGERT_OP_BUFFER_FILL_F32: {
      edgert_object *target = edgert_next_ref_value(frame);
      int64_t index = edgert_next_i64_value(frame);
      int64_t count = edgert_next_i64_value(frame);
      float value = edgert_next_f32_value(frame);
      uint8_t *at;
      status = edgert_bytes_write(target, index, count, sizeof value, &at, error);
      if (status != EDGERT_OK) break;
      for (int64_t i = 0; i < count; ++i)
        memcpy(at + (size_t)i * sizeof value, &value, sizeof value);
      break;
    }
  }
  return status;
}

#undef UNARY
#undef BINARY
#undef COMPARE
#undef CONVERT
