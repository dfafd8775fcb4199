#include "opcodes.h"

#include <stddef.h>

/* Fixed room for each code's operands: small, and nothing for a loader to relocate. */
#define OPCODES_ROOM 8

#define OPCODES_ENTRY(code, name, spelling, operands) [code] = operands,
static const char opcodes_core[][OPCODES_ROOM] = {EDGERT_CORE_OPCODES(OPCODES_ENTRY)};
static const char opcodes_f32[][OPCODES_ROOM] = {EDGERT_F32_OPCODES(OPCODES_ENTRY)};
static const char opcodes_f64[][OPCODES_ROOM] = {EDGERT_F64_OPCODES(OPCODES_ENTRY)};

#define OPCODES_COUNT(table) (sizeof(table) / OPCODES_ROOM)

const char *edgert_opcode_operands(unsigned prefix, unsigned code) {
  const char(*table)[OPCODES_ROOM] = opcodes_core;
  size_t count = OPCODES_COUNT(opcodes_core);
  if (prefix == EDGERT_PREFIX_F32) {
    table = opcodes_f32;
    count = OPCODES_COUNT(opcodes_f32);
  } else if (prefix == EDGERT_PREFIX_F64) {
    table = opcodes_f64;
    count = OPCODES_COUNT(opcodes_f64);
  }
  return code < count ? table[code] : NULL;
}
