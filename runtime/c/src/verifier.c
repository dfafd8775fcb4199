/* Byte code that nobody vouches for: after this the interpreter may follow it blindly.
 *
 * Each function is read twice: first every instruction is checked and the places of block markers
 * are noted, then every jump must go to one of them. SPEC.md numbers the invariants (V1...). */
#include "module.h"
#include "opcodes.h"

#define VERIFIER_MOVE 0x4000u
#define VERIFIER_REF 0x8000u
#define VERIFIER_REF_INDEX 0x3FFFu
#define VERIFIER_IMPORT 0x80000000u
#define VERIFIER_NO_SPAN 0xFFFFu

/* A list of 16-bit entries in the code. */
typedef struct verifier_list {
  const uint8_t *at;
  uint32_t count;
} verifier_list;

typedef struct verifier {
  const edgert_module *module;
  const edgert_function *function;
  uint32_t function_index;
  uint32_t pc;
  uint8_t *markers; /* a bit for each byte of the code */
  uint32_t marker_count;
  int in_block;
  int checks_jumps;
  const char *problem; /* NULL: none so far */
  /* Of the call that is being read. */
  const edgert_convention *callee;
  int callee_has_spans;
  verifier_list spans;
} verifier;

static void verifier_refuse(verifier *self, const char *problem) {
  if (!self->problem) self->problem = problem;
}

/* `size` bytes of the code, or NULL behind its end. */
static const uint8_t *verifier_take(verifier *self, uint32_t size) {
  if (!edgert_in_range(self->pc, size, self->function->size)) {
    verifier_refuse(self, "an instruction is cut short");
    return NULL;
  }
  const uint8_t *at = self->function->code + self->pc;
  self->pc += size;
  return at;
}

static uint32_t verifier_u16(verifier *self) {
  const uint8_t *at = verifier_take(self, 2);
  return at ? edgert_load_u16(at) : 0;
}

static uint32_t verifier_u32(verifier *self) {
  const uint8_t *at = verifier_take(self, 4);
  return at ? edgert_load_u32(at) : 0;
}

/* V5: a register of the right bank and inside it, pairs at even places. */
static void verifier_register(verifier *self, uint32_t name, char code) {
  const edgert_function *function = self->function;
  if (code == 'r') {
    if (!(name & VERIFIER_REF) || (name & VERIFIER_REF_INDEX) >= function->ref_count)
      verifier_refuse(self, "a reference register does not exist");
    return;
  }
  uint32_t width = code == 'I' || code == 'F' ? 2 : 1;
  if ((name & VERIFIER_REF) || name + width > function->word_count)
    verifier_refuse(self, "a register does not exist");
  else if (width == 2 && (name & 1))
    verifier_refuse(self, "a register pair is odd");
}

static verifier_list verifier_take_list(verifier *self, uint32_t width) {
  self->pc = (self->pc + 1) & ~1u;
  uint32_t count = verifier_u16(self);
  const uint8_t *at = verifier_take(self, count * width);
  return (verifier_list){at, at ? count : 0};
}

static uint32_t verifier_entry(verifier_list list, uint32_t index) {
  return edgert_load_u16(list.at + 2 * (size_t)index);
}

static void verifier_take_registers(verifier *self, char code) {
  verifier_list list = verifier_take_list(self, 2);
  for (uint32_t i = 0; i < list.count; ++i) {
    uint32_t name = verifier_entry(list, i);
    verifier_register(self, name, code != '*' ? code : name & VERIFIER_REF ? 'r' : 'i');
  }
}

/* V6: pairs of source and target, word by word or reference by reference. */
static void verifier_take_pairs(verifier *self) {
  verifier_list list = verifier_take_list(self, 4);
  for (uint32_t i = 0; i < list.count; ++i) {
    uint32_t source = verifier_entry(list, 2 * i), target = verifier_entry(list, 2 * i + 1);
    if (source & VERIFIER_REF) {
      verifier_register(self, source, 'r');
      verifier_register(self, target | VERIFIER_REF, 'r');
    } else {
      verifier_register(self, source, 'i');
      verifier_register(self, target, 'i');
    }
  }
}

/* V7: jumps go to block markers. */
static void verifier_take_target(verifier *self) {
  uint32_t target = verifier_u32(self);
  if (!self->checks_jumps || self->problem) return;
  if (target >= self->function->size || !(self->markers[target / 8] >> target % 8 & 1))
    verifier_refuse(self, "a jump goes to no block");
}

static void verifier_take_global(verifier *self, char code) {
  uint32_t place = verifier_u32(self);
  const edgert_module *module = self->module;
  if (code == 'r') {
    if (place >= module->global_refs) verifier_refuse(self, "a global reference does not exist");
  } else if (!edgert_in_range(place, code == '8' ? 8 : 4, module->global_bytes)) {
    verifier_refuse(self, "a global lies outside");
  }
}

static void verifier_take_callee(verifier *self) {
  uint32_t callee = verifier_u32(self);
  uint32_t index = callee & ~VERIFIER_IMPORT;
  self->callee = NULL;
  self->callee_has_spans = 0;
  self->spans = (verifier_list){NULL, 0};
  if (callee & VERIFIER_IMPORT) {
    if (index < self->module->import_count) self->callee = &self->module->imports[index].convention;
  } else if (index < self->module->function_count) {
    self->callee = &self->module->functions[index].convention;
  }
  if (!self->callee) verifier_refuse(self, "a function that is called does not exist");
}

/* V8: registers in a list stand for exactly the values of a convention. */
static void verifier_match(verifier *self, verifier_list list, edgert_codes codes,
                           verifier_list spans) {
  uint32_t used = 0, top = 0;
  for (uint32_t i = 0; i < codes.count && !self->problem; ++top) {
    uint32_t first = i, group = 1, repeat = 1;
    int is_span = codes.data[i] == 'C';
    if (is_span) {
      const char *end = memchr(codes.data + i, 'D', codes.count - i);
      first = i + 1;
      group = (uint32_t)(end - codes.data) - first;
      i += group + 1;
    }
    i += 1;
    if (spans.at) {
      repeat = top < spans.count ? verifier_entry(spans, top) : VERIFIER_NO_SPAN;
      if (is_span != (repeat != VERIFIER_NO_SPAN) || top >= spans.count) {
        verifier_refuse(self, "a call repeats what it must not");
        return;
      }
      if (!is_span) repeat = 1;
    }
    if ((uint64_t)repeat * group > list.count - used) {
      verifier_refuse(self, "a call has too few arguments");
      return;
    }
    for (uint32_t r = 0; r < repeat; ++r)
      for (uint32_t g = 0; g < group; ++g)
        verifier_register(self, verifier_entry(list, used++), codes.data[first + g]);
  }
  if (used != list.count || (spans.at && top != spans.count))
    verifier_refuse(self, "a call does not fit what it calls");
}

static void verifier_take_operand(verifier *self, const char *operand) {
  const verifier_list none = {NULL, 0};
  switch (operand[0]) {
    case '>':
      verifier_register(self, verifier_u16(self), operand[1]);
      break;
    case 'i':
    case 'I':
    case 'f':
    case 'F':
    case 'r':
      verifier_register(self, verifier_u16(self), operand[0]);
      break;
    case '=':
      verifier_take(self, operand[1] == '8' ? 8 : 4);
      break;
    case 'g':
      verifier_take_global(self, operand[1]);
      break;
    case 't':
      if (verifier_u32(self) >= self->module->type_count)
        verifier_refuse(self, "a type does not exist");
      break;
    case 'd':
      if (verifier_u32(self) >= self->module->rodata_count)
        verifier_refuse(self, "a constant does not exist");
      break;
    case 'b':
      verifier_take_target(self);
      break;
    case 'p':
      verifier_take_pairs(self);
      break;
    case 'h': { /* T follows and is read here */
      uint32_t count = verifier_u16(self);
      for (uint32_t i = 0; i < count && !self->problem; ++i) {
        verifier_take_target(self);
        verifier_take_pairs(self);
      }
      break;
    }
    case 's':
      verifier_take(self, verifier_u16(self));
      break;
    case 'L':
      verifier_take_registers(self, operand[1]);
      break;
    case 'c':
      verifier_take_callee(self);
      break;
    case 'S':
      self->spans = verifier_take_list(self, 2);
      self->callee_has_spans = 1;
      break;
    case 'A': {
      verifier_list list = verifier_take_list(self, 2);
      if (!self->callee || self->problem) break;
      if (self->callee->has_spans != self->callee_has_spans)
        verifier_refuse(self, "a call does not fit what it calls");
      else
        verifier_match(self, list, self->callee->arguments, self->spans);
      break;
    }
    case 'R': {
      verifier_list list = verifier_take_list(self, 2);
      if (self->callee && !self->problem)
        verifier_match(self, list, self->callee->results, none);
      break;
    }
    case 'Z': {
      verifier_list list = verifier_take_list(self, 2);
      if (!self->problem)
        verifier_match(self, list, self->function->convention.results, none);
      break;
    }
    default:
      break;
  }
}

static int verifier_ends_block(unsigned prefix, unsigned code) {
  if (prefix) return 0;
  switch (code) {
    case EDGERT_OP_BR:
    case EDGERT_OP_COND_BR:
    case EDGERT_OP_BR_TABLE:
    case EDGERT_OP_RETURN:
    case EDGERT_OP_FAIL:
    case EDGERT_OP_YIELD:
    case EDGERT_OP_BREAK:
    case EDGERT_OP_COND_BREAK:
    case EDGERT_OP_CALL_YIELDABLE:
    case EDGERT_OP_CALL_VARIADIC_YIELDABLE:
      return 1;
    default:
      return 0;
  }
}

/* One instruction. */
static void verifier_take_instruction(verifier *self) {
  uint32_t start = self->pc;
  const uint8_t *byte = verifier_take(self, 1);
  unsigned prefix = 0, code = byte ? *byte : 0;
  if (code == EDGERT_PREFIX_F32 || code == EDGERT_PREFIX_F64) {
    prefix = code;
    byte = verifier_take(self, 1);
    code = byte ? *byte : 0;
  }
  const char *operand = edgert_opcode_operands(prefix, code);
  if (!operand) {
    verifier_refuse(self, "there is no such instruction"); /* V4 */
    return;
  }
  int is_marker = !prefix && code == EDGERT_OP_BLOCK;
  if (is_marker == self->in_block) /* V9 */
    verifier_refuse(self, is_marker ? "a block does not end" : "an instruction is in no block");
  if (is_marker && !self->checks_jumps) {
    self->markers[start / 8] |= (uint8_t)(1u << start % 8);
    self->marker_count += 1;
  }
  while (*operand && !self->problem) {
    verifier_take_operand(self, operand);
    operand += strchr(">=gL", *operand) ? 2 : 1;
  }
  self->in_block = !verifier_ends_block(prefix, code);
}

static void verifier_read(verifier *self) {
  self->pc = 0;
  self->in_block = 0;
  while (self->pc < self->function->size && !self->problem) verifier_take_instruction(self);
  if (self->in_block) verifier_refuse(self, "a function does not end"); /* V9 */
}

static edgert_status verifier_check(verifier *self, edgert_error *error) {
  const edgert_allocator *allocator = &self->module->object.allocator;
  void *markers;
  edgert_status status =
      edgert_allocate_array(allocator, self->function->size / 8 + 1, 1, &markers, error);
  if (status != EDGERT_OK) return status;
  self->markers = markers;
  verifier_read(self);
  if (!self->problem && self->marker_count != self->function->block_count)
    verifier_refuse(self, "a function has other blocks than it says");
  self->checks_jumps = 1;
  if (!self->problem) verifier_read(self);
  edgert_deallocate(allocator, markers);
  if (!self->problem) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_DAMAGED, "the module is damaged: %s (function %u, byte %u)",
                     self->problem, (unsigned)self->function_index, (unsigned)self->pc);
}

edgert_status edgert_module_verify(const edgert_module *self, edgert_error *error) {
  edgert_status status = EDGERT_OK;
  for (uint32_t i = 0; i < self->function_count && status == EDGERT_OK; ++i) {
    verifier check = {.module = self, .function = &self->functions[i], .function_index = i};
    status = verifier_check(&check, error);
  }
  return status;
}
