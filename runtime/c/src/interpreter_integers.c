/* Arithmetic on integers: a table says what each instruction computes and how wide it is.
 *
 * Operands of 32 bits are computed on with their sign in 64; results are cut to their width. That
 * gives the right bits wherever only lower bits count, and keeps the order of unsigned numbers.
 * The instructions that loops are made of are in interpreter.c. */
#include "frame.h"

/* What is computed of a, b and c; of one operand first, then of two, of three, shifts last. */
typedef enum integer_operation {
  INTEGER_UNSIGNED,
  INTEGER_LOW_8,
  INTEGER_LOW_16,
  INTEGER_EXTEND_8,
  INTEGER_EXTEND_16,
  INTEGER_NOT,
  INTEGER_ABS,
  INTEGER_CTLZ,
  INTEGER_NZ,
  INTEGER_AND, /* the first of two operands */
  INTEGER_OR,
  INTEGER_XOR,
  INTEGER_MIN_S,
  INTEGER_MIN_U,
  INTEGER_MAX_S,
  INTEGER_MAX_U,
  INTEGER_NE,
  INTEGER_LT_U,
  INTEGER_DIV_S, /* the first that divides */
  INTEGER_DIV_U,
  INTEGER_REM_S,
  INTEGER_REM_U,
  INTEGER_FMA,
  INTEGER_SHL, /* the first whose second operand has 32 bits */
  INTEGER_SHR_S,
  INTEGER_SHR_U
} integer_operation;

#define TAKES_WIDE 0x40
#define GIVES_WIDE 0x80
#define BOTH(name, operation)                                      \
  [EDGERT_OP_##name##_I32##operation] = INTEGER_##name##operation, \
  [EDGERT_OP_##name##_I64##operation] = INTEGER_##name##operation | TAKES_WIDE | GIVES_WIDE
#define COMPARE(name, operation)                                       \
  [EDGERT_OP_CMP_##name##_I32##operation] = INTEGER_##name##operation, \
  [EDGERT_OP_CMP_##name##_I64##operation] = INTEGER_##name##operation | TAKES_WIDE

static const uint8_t integer_table[] = {
    BOTH(FMA, ), BOTH(NOT, ), BOTH(AND, ), BOTH(OR, ),
    BOTH(XOR, ), BOTH(SHL, ), BOTH(CTLZ, ), BOTH(ABS, ),
    BOTH(DIV, _S), BOTH(DIV, _U), BOTH(REM, _S), BOTH(REM, _U), BOTH(SHR, _S), BOTH(SHR, _U),
    BOTH(MIN, _S), BOTH(MIN, _U), BOTH(MAX, _S), BOTH(MAX, _U),
    COMPARE(NE, ), COMPARE(NZ, ), COMPARE(LT, _U),
    [EDGERT_OP_TRUNC_I32_I8] = INTEGER_LOW_8,
    [EDGERT_OP_TRUNC_I32_I16] = INTEGER_LOW_16,
    [EDGERT_OP_EXT_I8_I32_S] = INTEGER_EXTEND_8,
    [EDGERT_OP_EXT_I8_I32_U] = INTEGER_LOW_8,
    [EDGERT_OP_EXT_I16_I32_S] = INTEGER_EXTEND_16,
    [EDGERT_OP_EXT_I16_I32_U] = INTEGER_LOW_16,
    [EDGERT_OP_EXT_I32_I64_U] = INTEGER_UNSIGNED | GIVES_WIDE,
};

static uint32_t integer_leading_zeros(uint64_t value, uint32_t bits) {
  uint32_t count = 0;
  while (count < bits && !(value >> (bits - 1 - count) & 1)) ++count;
  return count;
}

edgert_status edgert_frame_run_integer(edgert_frame *frame, edgert_core_opcode code,
                                       edgert_error *error) {
  const unsigned entry = integer_table[code];
  const integer_operation operation = (integer_operation)(entry & (TAKES_WIDE - 1));
  const int wide = (entry & TAKES_WIDE) != 0;
  const uint32_t bits = wide ? 64 : 32;
  const uint64_t all = UINT64_MAX >> (64 - bits);
  uint64_t a = edgert_next_value(frame, wide), b = 0, result = 0;
  if (operation >= INTEGER_AND) b = edgert_next_value(frame, wide && operation < INTEGER_SHL);
  if (operation >= INTEGER_DIV_S && operation <= INTEGER_REM_U && b == 0)
    return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program divides by zero");
  const int64_t x = (int64_t)a, y = (int64_t)b;
  const uint32_t by = (uint32_t)b & (bits - 1);
  switch (operation) {
    case INTEGER_UNSIGNED: result = a & all; break;
    case INTEGER_LOW_8: result = a & 0xFF; break;
    case INTEGER_LOW_16: result = a & 0xFFFF; break;
    case INTEGER_EXTEND_8: result = (uint64_t)(int8_t)a; break;
    case INTEGER_EXTEND_16: result = (uint64_t)(int16_t)a; break;
    case INTEGER_NOT: result = ~a; break;
    case INTEGER_ABS: result = x < 0 ? 0 - a : a; break;
    case INTEGER_CTLZ: result = integer_leading_zeros(a, bits); break;
    case INTEGER_NZ: result = a != 0; break;
    case INTEGER_AND: result = a & b; break;
    case INTEGER_OR: result = a | b; break;
    case INTEGER_XOR: result = a ^ b; break;
    case INTEGER_MIN_S: result = y < x ? b : a; break;
    case INTEGER_MIN_U: result = b < a ? b : a; break;
    case INTEGER_MAX_S: result = x < y ? b : a; break;
    case INTEGER_MAX_U: result = a < b ? b : a; break;
    case INTEGER_NE: result = a != b; break;
    case INTEGER_LT_U: result = a < b; break;
    /* The least number by -1, which C leaves undefined, stays as it is. */
    case INTEGER_DIV_S: result = y == -1 ? 0 - a : (uint64_t)(x / y); break;
    case INTEGER_DIV_U: result = (a & all) / (b & all); break;
    case INTEGER_REM_S: result = y == -1 ? 0 : (uint64_t)(x % y); break;
    case INTEGER_REM_U: result = (a & all) % (b & all); break;
    case INTEGER_FMA: result = a * b + edgert_next_value(frame, wide); break;
    case INTEGER_SHL: result = a << by; break;
    /* The signed shift, which C leaves to the compiler, of what is not negative. */
    case INTEGER_SHR_S: result = x < 0 ? ~(~a >> by) : a >> by; break;
    case INTEGER_SHR_U: result = (a & all) >> by; break;
  }
  edgert_next_set(frame, (entry & GIVES_WIDE) != 0, result);
  return EDGERT_OK;
}

#undef BOTH
#undef COMPARE
