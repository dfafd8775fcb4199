/* The sets for f32 and f64: the same instructions in two widths, under different codes.
 *
 * Values of 32 bits are computed on in 64 and rounded to 32 again. For sums, products, quotients
 * and square roots that is what computing in 32 bits gives, since 53 bits are more than 2 * 24 + 2.
 * What the C library approximates is nearer to the truth so than its own functions of 32 bits are,
 * by a unit in the last place at most; each of those would take 80 bytes of a shared library. */
#include <math.h>

#include "frame.h"

#if defined(FP_CONTRACT)
#pragma STDC FP_CONTRACT OFF
#endif

/* Codes of the f64 set go behind those of the f32 set. */
#define FLOAT_WIDE 0x40
#define BOTH(name) \
  case EDGERT_OP_##name##_F32: \
  case FLOAT_WIDE | EDGERT_OP_##name##_F64
#define BOTH_KINDS(name, kind) \
  case EDGERT_OP_##name##_F32_##kind: \
  case FLOAT_WIDE | EDGERT_OP_##name##_F64_##kind

static double float_take(edgert_frame *frame, int wide) {
  uint64_t bits = edgert_next_value(frame, wide);
  float narrow;
  double value;
  memcpy(&narrow, &bits, sizeof narrow);
  memcpy(&value, &bits, sizeof value);
  return wide ? value : (double)narrow;
}

static void float_give(edgert_frame *frame, int wide, double value) {
  float narrow = (float)value;
  uint64_t bits = 0;
  memcpy(&bits, wide ? (const void *)&value : (const void *)&narrow, wide ? 8 : 4);
  edgert_next_set(frame, wide, bits);
}

/* a * b + c, rounded once where the processor does that, as the reference runtime has it. */
static double float_fma(int wide, double a, double b, double c) {
  if (wide) {
#if defined(FP_FAST_FMA)
    return fma(a, b, c);
#else
    volatile double product = a * b;
    return product + c;
#endif
  }
#if defined(FP_FAST_FMAF)
  return (double)fmaf((float)a, (float)b, (float)c);
#else
  volatile float product = (float)(a * b);
  return (double)(product + (float)c);
#endif
}

static edgert_status float_holds(edgert_frame *frame, int holds) {
  edgert_next_set_u32(frame, holds ? 1 : 0);
  return EDGERT_OK;
}

static edgert_status float_gives_integer(edgert_frame *frame, int wide, uint64_t value) {
  edgert_next_set(frame, wide, value);
  return EDGERT_OK;
}

/* The nearest integer, halves away from zero; the least integer where that does not fit. The
 * reference runtime rounds to 32 bits on the way to 32-bit integers; so does this. */
static edgert_status float_gives_nearest(edgert_frame *frame, int wide, double value) {
  double nearest = round(wide ? value : (double)(float)value);
  int fits = nearest >= -0x1p63 && nearest < 0x1p63;
  return float_gives_integer(frame, wide, (uint64_t)(fits ? (int64_t)nearest : INT64_MIN));
}

static edgert_status float_copy(edgert_frame *frame, int wide) {
  uint64_t bits = edgert_next_value(frame, wide);
  return float_gives_integer(frame, wide, bits);
}

#define MOVE(name) return edgert_frame_run_move(frame, EDGERT_MOVE_##name, wide ? 8 : 4, error)

edgert_status edgert_frame_run_float(edgert_frame *frame, unsigned prefix, edgert_error *error) {
  const int wide = prefix == EDGERT_PREFIX_F64;
  const unsigned of_set = edgert_next_u8(frame);
  const edgert_slot_type slot = wide ? EDGERT_SLOT_F64 : EDGERT_SLOT_F32;
  /* The list of opcodes says whether floats are read first, one or two, and how wide they are. */
  const char *operands = edgert_opcode_operands(prefix, of_set);
  double a = 0, b = 0;
  uint64_t bits;
  if (operands[0] == 'f' || operands[0] == 'F') {
    a = float_take(frame, operands[0] == 'F');
    if (operands[1] == operands[0]) b = float_take(frame, wide);
  }
  switch (wide ? FLOAT_WIDE | of_set : of_set) {
    BOTH(GLOBAL_LOAD): MOVE(GLOBAL_LOAD);
    BOTH(GLOBAL_STORE): MOVE(GLOBAL_STORE);
    BOTH(GLOBAL_LOAD_INDIRECT): MOVE(GLOBAL_LOAD_INDIRECT);
    BOTH(GLOBAL_STORE_INDIRECT): MOVE(GLOBAL_STORE_INDIRECT);
    BOTH_KINDS(CONST, ZERO): MOVE(ZERO);
    BOTH(CONST): MOVE(CONST);
    BOTH(SELECT): MOVE(SELECT);
    BOTH(SWITCH): MOVE(SWITCH);
    BOTH(BUFFER_LOAD): MOVE(BUFFER_LOAD);
    BOTH(BUFFER_STORE): MOVE(BUFFER_STORE);
    BOTH(BUFFER_FILL): MOVE(BUFFER_FILL);
    BOTH(LIST_GET): return edgert_frame_list_get(frame, slot, error);
    BOTH(LIST_SET): return edgert_frame_list_set(frame, slot, error);

    BOTH(ADD): a += b; break;
    BOTH(SUB): a -= b; break;
    BOTH(MUL): a *= b; break;
    BOTH(DIV): a /= b; break;
    BOTH(REM): a = remainder(a, b); break;
    BOTH(FMA): a = float_fma(wide, a, b, float_take(frame, wide)); break;
    BOTH(ABS): a = fabs(a); break;
    BOTH(NEG): a = -a; break;
    BOTH(CEIL): a = ceil(a); break;
    BOTH(FLOOR): a = floor(a); break;
    BOTH(ROUND): a = round(a); break;
    BOTH_KINDS(ROUND, EVEN): a = nearbyint(a); break;
    BOTH(MIN): a = b < a ? b : a; break;
    BOTH(MAX): a = a < b ? b : a; break;
    BOTH(SQRT): a = sqrt(a); break;
    BOTH(RSQRT): a = 1 / (wide ? sqrt(a) : (double)(float)sqrt(a)); break;
    BOTH(ATAN): a = atan(a); break;
    BOTH(ATAN2): a = atan2(a, b); break;
    BOTH(COS): a = cos(a); break;
    BOTH(SIN): a = sin(a); break;
    BOTH(EXP): a = exp(a); break;
    BOTH(EXP2): a = exp2(a); break;
    BOTH(EXPM1): a = expm1(a); break;
    BOTH(LOG): a = log(a); break;
    BOTH(LOG10): a = log10(a); break;
    BOTH(LOG1P): a = log1p(a); break;
    BOTH(LOG2): a = log2(a); break;
    BOTH(POW): a = pow(a, b); break;
    BOTH(TANH): a = tanh(a); break;
    BOTH(ERF): a = erf(a); break;

    /* Comparisons: _U is true where either is no number. */
    BOTH_KINDS(CMP_EQ, O): return float_holds(frame, a == b);
    BOTH_KINDS(CMP_EQ, U): return float_holds(frame, isunordered(a, b) || a == b);
    BOTH_KINDS(CMP_NE, O):
    BOTH_KINDS(CMP_NE, U): return float_holds(frame, a != b);
    BOTH_KINDS(CMP_LT, O): return float_holds(frame, isless(a, b));
    BOTH_KINDS(CMP_LT, U): return float_holds(frame, !isgreaterequal(a, b));
    BOTH_KINDS(CMP_LTE, O): return float_holds(frame, islessequal(a, b));
    BOTH_KINDS(CMP_LTE, U): return float_holds(frame, !isgreater(a, b));
    BOTH(CMP_NAN): return float_holds(frame, isnan(a));

    /* Conversions. From 64 bits at once, since rounding twice is not rounding once. */
    case FLOAT_WIDE | EDGERT_OP_TRUNC_F64_F32: float_give(frame, 0, a); return EDGERT_OK;
    case FLOAT_WIDE | EDGERT_OP_EXT_F32_F64: break;
    BOTH(CAST_SI32): a = (double)edgert_next_i32_value(frame); break;
    BOTH(CAST_UI32): a = (double)edgert_next_u32_value(frame); break;
    BOTH(CAST_SI64):
      bits = edgert_next_u64_value(frame);
      a = wide ? (double)(int64_t)bits : (double)(float)(int64_t)bits;
      break;
    BOTH(CAST_UI64):
      bits = edgert_next_u64_value(frame);
      a = wide ? (double)bits : (double)(float)bits;
      break;
    case EDGERT_OP_CAST_F32_SI32:
    case EDGERT_OP_CAST_F32_UI32:
    case FLOAT_WIDE | EDGERT_OP_CAST_F64_SI32:
    case FLOAT_WIDE | EDGERT_OP_CAST_F64_UI32:
      return float_gives_nearest(frame, 0, a);
    case EDGERT_OP_CAST_F32_UI64:
      a = round(a);
      if (a >= 0x1p63 && a < 0x1p64) return float_gives_integer(frame, 1, (uint64_t)a);
      return float_gives_nearest(frame, 1, a);
    case EDGERT_OP_CAST_F32_SI64:
    case FLOAT_WIDE | EDGERT_OP_CAST_F64_SI64:
    case FLOAT_WIDE | EDGERT_OP_CAST_F64_UI64:
      return float_gives_nearest(frame, 1, a);
    case EDGERT_OP_BITCAST_F32_I32:
    case FLOAT_WIDE | EDGERT_OP_BITCAST_F64_I64:
      frame->pc -= 2; /* read again, as bits */
      return float_copy(frame, wide);
    case EDGERT_OP_BITCAST_I32_F32:
    case FLOAT_WIDE | EDGERT_OP_BITCAST_I64_F64:
      return float_copy(frame, wide);
  }
  float_give(frame, wide, a);
  return EDGERT_OK;
}

#undef BOTH
#undef BOTH_KINDS
#undef MOVE
