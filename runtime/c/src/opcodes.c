#include "opcodes.h"

#include <stddef.h>

/* Fixed room for each code's operands: small, and nothing for a loader to relocate. Those of floats
 * are shorter. */
enum { OPCODES_ROOM = 8, OPCODES_FLOATS_ROOM = 7 };

#define OPCODES_ENTRY(code, name, spelling, operands) [code] = operands,
static const char opcodes_core[][OPCODES_ROOM] = {EDGERT_CORE_OPCODES(OPCODES_ENTRY)};
static const char opcodes_f32[][OPCODES_FLOATS_ROOM] = {EDGERT_F32_OPCODES(OPCODES_ENTRY)};
static const char opcodes_f64[][OPCODES_FLOATS_ROOM] = {EDGERT_F64_OPCODES(OPCODES_ENTRY)};

#define OPCODES_AT(table, code) ((code) < sizeof(table) / sizeof *(table) ? (table)[code] : NULL)

const char *edgert_opcode_operands(unsigned prefix, unsigned code) {
  if (prefix == EDGERT_PREFIX_F32) return OPCODES_AT(opcodes_f32, code);
  if (prefix == EDGERT_PREFIX_F64) return OPCODES_AT(opcodes_f64, code);
  return OPCODES_AT(opcodes_core, code);
}
