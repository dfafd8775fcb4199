/* Patterns by trying: a small machine with a stack of the ways that were not taken. What a pattern
 * repeats is a set of characters nearly everywhere, so a run of them is one instruction and one entry
 * of the stack, which gives back a character at a time. */
#include "text.h"

enum { MOST_DEPTH = 8, MOST_WAYS = 1 << 20 };

/* Where to go on if what was tried fails: at `at`, and as long as that is above `low` one before it. */
typedef struct way {
  uint32_t pc;
  size_t low, at;
} way;

typedef struct run {
  text_matcher *matcher;
  const text_pattern *pattern;
  const uint8_t *data;
  size_t size;
  edgert_error *error;
} run;

static edgert_status ways_push(run *self, uint32_t pc, size_t low, size_t at) {
  text_matcher *matcher = self->matcher;
  if (matcher->stack.count >= MOST_WAYS)
    return text_fail(self->error, EDGERT_LIMIT, "the tokenizer's pattern tries too many ways");
  edgert_status status =
      text_array_reserve(matcher->allocator, &matcher->stack, 1, sizeof(way), self->error);
  if (status == EDGERT_OK)
    ((way *)matcher->stack.data)[matcher->stack.count++] = (way){pc, low, at};
  return status;
}

/* The next way that was not taken, above `base`; 0: there is none. */
static int ways_pop(run *self, size_t base, uint32_t *pc, size_t *at) {
  text_array *stack = &self->matcher->stack;
  if (stack->count <= base) return 0;
  way *top = (way *)stack->data + stack->count - 1;
  *pc = top->pc;
  *at = top->at;
  if (top->at > top->low) {
    do --top->at;
    while (top->at > top->low && (self->data[top->at] & 0xC0) == 0x80);
  } else {
    --stack->count;
  }
  return 1;
}

/* Match from `pc` on at `at`; `*out_end` is SIZE_MAX where it does not. */
static edgert_status match(run *self, uint32_t pc, size_t at, int depth, size_t *out_end) {
  size_t base = self->matcher->stack.count;
  edgert_status status = EDGERT_OK;
  *out_end = SIZE_MAX;
  if (depth > MOST_DEPTH)
    return text_fail(self->error, EDGERT_LIMIT, "the tokenizer's pattern looks too deep");
  for (int is_lost = 0;;) {
    if (is_lost && !ways_pop(self, base, &pc, &at)) break;
    is_lost = 0;
    if (self->matcher->steps-- == 0) {
      self->matcher->steps = 0;
      return text_fail(self->error, EDGERT_LIMIT, "the tokenizer's pattern takes too long");
    }
    const text_instruction *it = &self->pattern->code[pc];
    if (it->op == TEXT_MATCH) {
      *out_end = at;
      break;
    }
    if (it->op == TEXT_JUMP) {
      pc = it->a;
    } else if (it->op == TEXT_SPLIT) {
      status = ways_push(self, it->b, at, at);
      pc = it->a;
    } else if (it->op == TEXT_LOOK) {
      size_t end;
      size_t held = self->matcher->stack.count;
      status = match(self, pc + 1, at, depth + 1, &end);
      self->matcher->stack.count = held;
      is_lost = (end == SIZE_MAX) != (it->mode == 1);
      if (it->mode == 2 && end != SIZE_MAX) at = end;
      pc = it->a;
    } else {
      const text_class *class = &self->matcher->classes[it->a];
      size_t low = at;
      uint32_t count = 0;
      while (count < it->c && at < self->size && text_class_has(class, text_code(self->data + at))) {
        at += text_width(self->data[at]);
        if (++count == it->b) low = at;
      }
      self->matcher->steps -= count < self->matcher->steps ? count : self->matcher->steps;
      is_lost = count < it->b;
      ++pc;
      if (!is_lost && it->mode == 0 && at > low) {
        size_t before = at;
        do --before;
        while (before > low && (self->data[before] & 0xC0) == 0x80);
        status = ways_push(self, pc, low, before);
      }
    }
    if (status != EDGERT_OK) return status;
  }
  self->matcher->stack.count = base;
  return EDGERT_OK;
}

edgert_status text_find(text_matcher *self, const text_pattern *pattern, const uint8_t *data,
                        size_t size, size_t from, size_t *out_begin, size_t *out_end,
                        edgert_error *error) {
  run it = {self, pattern, data, size, error};
  for (size_t at = from; at < size; at += text_width(data[at])) {
    size_t end;
    edgert_status status = match(&it, 0, at, 0, &end);
    if (status != EDGERT_OK) return status;
    if (end != SIZE_MAX && end > at) {
      *out_begin = at;
      *out_end = end;
      return EDGERT_OK;
    }
  }
  *out_begin = *out_end = size;
  return EDGERT_OK;
}
