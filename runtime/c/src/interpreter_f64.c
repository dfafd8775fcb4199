/* The f64 set: arithmetic on registers in 64 bits, by the C library's functions. */
#include <math.h>

#include "frame.h"
#include "opcodes.h"

#if defined(FP_CONTRACT)
#pragma STDC FP_CONTRACT OFF
#endif

/* a * b + c, rounded once where the processor does that, as the reference runtime has it. */
static double f64_fma(double a, double b, double c) {
#if defined(FP_FAST_FMA)
  return fma(a, b, c);
#else
  volatile double product = a * b;
  return product + c;
#endif
}

/* To the nearest integer, halves away from zero; the least integer where that does not fit. */
static int64_t f64_to_i64(double value) {
  double rounded = round(value);
  if (!(rounded >= -0x1p63 && rounded < 0x1p63)) return INT64_MIN;
  return (int64_t)rounded;
}

/* The reference runtime rounds to 32 bits on the way to 32-bit integers; so does this. */
static uint32_t f64_to_i32(double value) { return (uint32_t)f64_to_i64((double)(float)value); }

#define UNARY(op, expression)                         \
  case op: {                                          \
    double a = edgert_next_f64_value(frame);              \
    edgert_next_set_f64(frame, (expression));          \
    break;                                            \
  }
#define BINARY(op, expression)                        \
  case op: {                                          \
    double a = edgert_next_f64_value(frame);              \
    double b = edgert_next_f64_value(frame);              \
    edgert_next_set_f64(frame, (expression));          \
    break;                                            \
  }
#define COMPARE(op, expression)                       \
  case op: {                                          \
    double a = edgert_next_f64_value(frame);              \
    double b = edgert_next_f64_value(frame);              \
    edgert_next_set_u32(frame, (expression) ? 1 : 0); \
    break;                                            \
  }
#define CONVERT(op, from, to, type, expression)       \
  case op: {                                          \
    type a = edgert_next_##from##_value(frame);       \
    edgert_next_set_##to(frame, (expression));        \
    break;                                            \
  }

edgert_status edgert_frame_run_f64(edgert_frame *frame, edgert_error *error) {
  edgert_session *session = frame->session;
  edgert_status status = EDGERT_OK;
  edgert_f64_opcode code = (edgert_f64_opcode)edgert_next_u8(frame);
  switch (code) {
    /* Globals and constants. */
    case EDGERT_OP_GLOBAL_LOAD_F64: {
      double value;
      memcpy(&value, session->globals + edgert_next_u32(frame), sizeof value);
      edgert_next_set_f64(frame, value);
      break;
    }
    case EDGERT_OP_GLOBAL_STORE_F64: {
      uint8_t *at = session->globals + edgert_next_u32(frame);
      double value = edgert_next_f64_value(frame);
      memcpy(at, &value, sizeof value);
      break;
    }
    case EDGERT_OP_GLOBAL_LOAD_INDIRECT_F64:
    case EDGERT_OP_GLOBAL_STORE_INDIRECT_F64: {
      uint32_t offset = edgert_next_u32_value(frame);
      double value;
      if (!edgert_in_range(offset, sizeof value, session->module->global_bytes))
        return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "there is no global at byte %u",
                           (unsigned)offset);
      if (code == EDGERT_OP_GLOBAL_LOAD_INDIRECT_F64) {
        memcpy(&value, session->globals + offset, sizeof value);
        edgert_next_set_f64(frame, value);
      } else {
        value = edgert_next_f64_value(frame);
        memcpy(session->globals + offset, &value, sizeof value);
      }
      break;
    }
    case EDGERT_OP_CONST_F64_ZERO:
      edgert_next_set_f64(frame, 0);
      break;
    case EDGERT_OP_CONST_F64: {
      double value;
      memcpy(&value, frame->pc, sizeof value);
      frame->pc += sizeof value;
      edgert_next_set_f64(frame, value);
      break;
    }

    /* Lists and choices. */
    case EDGERT_OP_LIST_GET_F64: {
      edgert_slot slot = {.type = EDGERT_SLOT_F64};
      status = edgert_frame_list_get(frame, &slot, error);
      if (status == EDGERT_OK) edgert_next_set_f64(frame, slot.as.f64);
      break;
    }
    case EDGERT_OP_LIST_SET_F64: {
      edgert_object *object = edgert_next_ref_value(frame);
      uint32_t index = edgert_next_u32_value(frame);
      edgert_slot slot = {.type = EDGERT_SLOT_F64, .as.f64 = edgert_next_f64_value(frame)};
      return edgert_frame_list_set(object, index, slot, error);
    }
    case EDGERT_OP_SELECT_F64: {
      uint32_t condition = edgert_next_u32_value(frame);
      double a = edgert_next_f64_value(frame);
      double b = edgert_next_f64_value(frame);
      edgert_next_set_f64(frame, condition ? a : b);
      break;
    }
    case EDGERT_OP_SWITCH_F64: {
      uint32_t index = edgert_next_u32_value(frame);
      double value = edgert_next_f64_value(frame);
      edgert_entries list = edgert_next_entries(frame, 2);
      if (index < list.count)
        memcpy(&value, frame->words + edgert_entry(list, index), sizeof value);
      edgert_next_set_f64(frame, value);
      break;
    }

    /* Arithmetic. */
    BINARY(EDGERT_OP_ADD_F64, a + b)
    BINARY(EDGERT_OP_SUB_F64, a - b)
    BINARY(EDGERT_OP_MUL_F64, a *b)
    BINARY(EDGERT_OP_DIV_F64, a / b)
    BINARY(EDGERT_OP_REM_F64, remainder(a, b))
    case EDGERT_OP_FMA_F64: {
      double a = edgert_next_f64_value(frame);
      double b = edgert_next_f64_value(frame);
      double c = edgert_next_f64_value(frame);
      edgert_next_set_f64(frame, f64_fma(a, b, c));
      break;
    }
    UNARY(EDGERT_OP_ABS_F64, fabs(a))
    UNARY(EDGERT_OP_NEG_F64, -a)
    UNARY(EDGERT_OP_CEIL_F64, ceil(a))
    UNARY(EDGERT_OP_FLOOR_F64, floor(a))
    UNARY(EDGERT_OP_ROUND_F64, round(a))
    UNARY(EDGERT_OP_ROUND_F64_EVEN, nearbyint(a))
    BINARY(EDGERT_OP_MIN_F64, b < a ? b : a)
    BINARY(EDGERT_OP_MAX_F64, a < b ? b : a)
    UNARY(EDGERT_OP_ATAN_F64, atan(a))
    BINARY(EDGERT_OP_ATAN2_F64, atan2(a, b))
    UNARY(EDGERT_OP_COS_F64, cos(a))
    UNARY(EDGERT_OP_SIN_F64, sin(a))
    UNARY(EDGERT_OP_EXP_F64, exp(a))
    UNARY(EDGERT_OP_EXP2_F64, exp2(a))
    UNARY(EDGERT_OP_EXPM1_F64, expm1(a))
    UNARY(EDGERT_OP_LOG_F64, log(a))
    UNARY(EDGERT_OP_LOG10_F64, log10(a))
    UNARY(EDGERT_OP_LOG1P_F64, log1p(a))
    UNARY(EDGERT_OP_LOG2_F64, log2(a))
    BINARY(EDGERT_OP_POW_F64, pow(a, b))
    UNARY(EDGERT_OP_RSQRT_F64, 1 / sqrt(a))
    UNARY(EDGERT_OP_SQRT_F64, sqrt(a))
    UNARY(EDGERT_OP_TANH_F64, tanh(a))
    UNARY(EDGERT_OP_ERF_F64, erf(a))

    /* Conversions. */
    CONVERT(EDGERT_OP_TRUNC_F64_F32, f64, f32, double, (float)a)
    CONVERT(EDGERT_OP_EXT_F32_F64, f32, f64, float, (double)a)
    CONVERT(EDGERT_OP_CAST_SI32_F64, i32, f64, int32_t, (double)a)
    CONVERT(EDGERT_OP_CAST_UI32_F64, u32, f64, uint32_t, (double)a)
    CONVERT(EDGERT_OP_CAST_SI64_F64, i64, f64, int64_t, (double)a)
    CONVERT(EDGERT_OP_CAST_UI64_F64, u64, f64, uint64_t, (double)a)
    CONVERT(EDGERT_OP_CAST_F64_SI32, f64, u32, double, f64_to_i32(a))
    CONVERT(EDGERT_OP_CAST_F64_UI32, f64, u32, double, f64_to_i32(a))
    CONVERT(EDGERT_OP_CAST_F64_SI64, f64, u64, double, (uint64_t)f64_to_i64(a))
    CONVERT(EDGERT_OP_CAST_F64_UI64, f64, u64, double, (uint64_t)f64_to_i64(a))
    case EDGERT_OP_BITCAST_I64_F64:
    case EDGERT_OP_BITCAST_F64_I64: {
      uint64_t bits = edgert_next_u64_value(frame);
      edgert_next_set_u64(frame, bits);
      break;
    }

    /* Comparisons: _U is true where either is no number. */
    COMPARE(EDGERT_OP_CMP_EQ_F64_O, a == b)
    COMPARE(EDGERT_OP_CMP_EQ_F64_U, isunordered(a, b) || a == b)
    COMPARE(EDGERT_OP_CMP_NE_F64_O, a != b)
    COMPARE(EDGERT_OP_CMP_NE_F64_U, a != b)
    COMPARE(EDGERT_OP_CMP_LT_F64_O, isless(a, b))
    COMPARE(EDGERT_OP_CMP_LT_F64_U, !isgreaterequal(a, b))
    COMPARE(EDGERT_OP_CMP_LTE_F64_O, islessequal(a, b))
    COMPARE(EDGERT_OP_CMP_LTE_F64_U, !isgreater(a, b))
    CONVERT(EDGERT_OP_CMP_NAN_F64, f64, u32, double, isnan(a) ? 1 : 0)

    /* Bytes. */
    case EDGERT_OP_BUFFER_LOAD_F64: {
      edgert_object *source = edgert_next_ref_value(frame);
      int64_t index = edgert_next_i64_value(frame);
      const uint8_t *at;
      double value;
      status = edgert_bytes_read(source, index, 1, sizeof value, &at, error);
      if (status != EDGERT_OK) break;
      memcpy(&value, at, sizeof value);
      edgert_next_set_f64(frame, value);
      break;
    }
    case EDGERT_OP_BUFFER_STORE_F64: {
      edgert_object *target = edgert_next_ref_value(frame);
      int64_t index = edgert_next_i64_value(frame);
      double value = edgert_next_f64_value(frame);
      uint8_t *at;
      status = edgert_bytes_write(target, index, 1, sizeof value, &at, error);
      if (status == EDGERT_OK) memcpy(at, &value, sizeof value);
      break;
    }
    case EDGERT_OP_BUFFER_FILL_F64: {
      edgert_object *target = edgert_next_ref_value(frame);
      int64_t index = edgert_next_i64_value(frame);
      int64_t count = edgert_next_i64_value(frame);
      double value = edgert_next_f64_value(frame);
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
