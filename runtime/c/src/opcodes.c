#include "opcodes.h"

#include <stddef.h>

#define OPCODES_COUNT 256

#define OPCODES_ENTRY(code, name, spelling, operands) [code] = {(spelling), (operands)},
static const edgert_opcode opcodes_core[OPCODES_COUNT] = {EDGERT_CORE_OPCODES(OPCODES_ENTRY)};
static const edgert_opcode opcodes_f32[OPCODES_COUNT] = {EDGERT_F32_OPCODES(OPCODES_ENTRY)};
static const edgert_opcode opcodes_f64[OPCODES_COUNT] = {EDGERT_F64_OPCODES(OPCODES_ENTRY)};

edgert_opcode edgert_opcode_of(unsigned prefix, unsigned code) {
  if (code >= OPCODES_COUNT) return (edgert_opcode){NULL, NULL};
  if (prefix == EDGERT_PREFIX_F32) return opcodes_f32[code];
  if (prefix == EDGERT_PREFIX_F64) return opcodes_f64[code];
  return opcodes_core[code];
}
