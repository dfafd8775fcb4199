/* A form to tables. Everything is read by a cursor that cannot leave the form; every index is compared
 * with what it counts before it is kept, so that nobody has to look again. */
#include "text.h"

static const uint8_t magic[7] = {'e', 'd', 'g', 'e', 'c', 't', 'x'};

enum { MOST_CLASSES = 1024, MOST_ROLES = 16, LAST_CODE = 0x10FFFF };

typedef struct cursor {
  edgert_tokenizer *self;
  const uint8_t *at, *end;
  int is_broken;
  edgert_error *error;
} cursor;

static edgert_status damaged(cursor *c) {
  return text_fail_at(c->error, EDGERT_DAMAGED, "the form of the text is damaged at byte ",
                      (uint64_t)(c->at - c->self->form), "");
}

static uint8_t read_byte(cursor *c) {
  if (c->at < c->end) return *c->at++;
  c->is_broken = 1;
  return 0;
}

static uint32_t read_number(cursor *c) {
  uint32_t value = 0;
  for (uint32_t shift = 0; shift < 35; shift += 7) {
    uint8_t byte = read_byte(c);
    if (shift == 28 && byte > 15) break;
    value |= (uint32_t)(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  c->is_broken = 1;
  return 0;
}

/* A number that is at most `most`. */
static uint32_t read_up_to(cursor *c, uint32_t most) {
  uint32_t value = read_number(c);
  if (value <= most) return value;
  c->is_broken = 1;
  return 0;
}

/* How many things follow, each of which takes at least `bytes`. */
static uint32_t read_count(cursor *c, size_t bytes) {
  size_t left = (size_t)(c->end - c->at) / bytes;
  return read_up_to(c, left < UINT32_MAX / 4 ? (uint32_t)left : UINT32_MAX / 4);
}

static text_string read_string(cursor *c) {
  uint32_t size = read_count(c, 1);
  text_string text = {c->at, size};
  c->at += size;
  return text;
}

static edgert_status make(cursor *c, size_t count, size_t size, void **out) {
  if (c->is_broken) return damaged(c);
  return text_allocate(&c->self->allocator, count, size, out, c->error);
}

/* A list of numbers below `limit`. */
static edgert_status read_list(cursor *c, uint32_t limit, uint32_t **out, uint32_t *out_count) {
  *out_count = read_count(c, 1);
  edgert_status status = make(c, *out_count, sizeof **out, (void **)out);
  for (uint32_t i = 0; i < *out_count && status == EDGERT_OK; ++i) (*out)[i] = read_number(c);
  for (uint32_t i = 0; i < *out_count && status == EDGERT_OK; ++i)
    if ((*out)[i] >= limit) status = damaged(c);
  return status;
}

static edgert_status read_sizes(cursor *c) {
  edgert_tokenizer *self = c->self;
  self->context = read_number(c);
  self->vocabulary = read_up_to(c, INT32_MAX);
  edgert_status status = read_list(c, INT32_MAX, &self->prefill, &self->prefill_count);
  if (status == EDGERT_OK)
    status = read_list(c, self->vocabulary, &self->stops, &self->stop_count);
  for (uint32_t i = 0; i < self->prefill_count && status == EDGERT_OK; ++i)
    if (self->prefill[i] == 0 || (i && self->prefill[i] <= self->prefill[i - 1]))
      status = damaged(c);
  return status;
}

/* Pairs of a first and a last character, in order, with room between them. */
static uint32_t read_range(cursor *c, uint32_t *next, uint32_t *out_last) {
  uint32_t first = *next + read_up_to(c, LAST_CODE);
  *out_last = first + read_up_to(c, LAST_CODE);
  if (*out_last > LAST_CODE) c->is_broken = 1;
  *next = *out_last + 1;
  return first;
}

static edgert_status read_classes(cursor *c) {
  edgert_tokenizer *self = c->self;
  uint32_t total = read_count(c, 2), used = 0;
  edgert_status status = make(c, total, 2 * sizeof *self->ranges, (void **)&self->ranges);
  self->class_count = status == EDGERT_OK ? read_up_to(c, MOST_CLASSES) : 0;
  if (status == EDGERT_OK)
    status = make(c, self->class_count, sizeof *self->classes, (void **)&self->classes);
  for (uint32_t i = 0; i < self->class_count && status == EDGERT_OK; ++i) {
    text_class *class = &self->classes[i];
    uint32_t next = 0;
    class->count = read_up_to(c, total - used);
    class->ranges = self->ranges + 2 * (size_t)used;
    for (uint32_t j = 0; j < class->count && !c->is_broken; ++j, ++used) {
      uint32_t last, first = read_range(c, &next, &last);
      self->ranges[2 * (size_t)used] = first;
      self->ranges[2 * (size_t)used + 1] = last;
      for (uint32_t code = first; code <= last && code < 128; ++code)
        class->ascii[code / 32] |= 1u << code % 32;
    }
    if (c->is_broken) status = damaged(c);
  }
  return status;
}

static void read_instruction(cursor *c, uint32_t count, text_instruction *it) {
  it->op = read_byte(c);
  if (it->op == TEXT_SPAN) {
    it->mode = read_byte(c);
    it->a = read_up_to(c, c->self->class_count - 1);
    it->b = read_number(c);
    it->c = read_number(c);
    if (c->self->class_count == 0 || it->c == 0 || it->b > it->c || it->mode > 1) c->is_broken = 1;
  } else if (it->op == TEXT_SPLIT || it->op == TEXT_JUMP || it->op == TEXT_LOOK) {
    if (it->op == TEXT_LOOK) it->mode = read_byte(c);
    it->a = read_up_to(c, count - 1);
    if (it->op == TEXT_SPLIT) it->b = read_up_to(c, count - 1);
    if (it->mode > 2) c->is_broken = 1;
  } else if (it->op != TEXT_MATCH) {
    c->is_broken = 1;
  }
}

static edgert_status read_patterns(cursor *c) {
  edgert_tokenizer *self = c->self;
  self->pattern_count = read_count(c, 2);
  edgert_status status =
      make(c, self->pattern_count, sizeof *self->patterns, (void **)&self->patterns);
  for (uint32_t i = 0; i < self->pattern_count && status == EDGERT_OK; ++i) {
    text_pattern *pattern = &self->patterns[i];
    pattern->count = read_count(c, 1);
    status = make(c, pattern->count, sizeof *pattern->code, (void **)&pattern->code);
    for (uint32_t j = 0; j < pattern->count && status == EDGERT_OK; ++j)
      read_instruction(c, pattern->count, &pattern->code[j]);
    /* The last one is a match, so that none runs off the end. */
    if (status == EDGERT_OK &&
        (c->is_broken || !pattern->count || pattern->code[pattern->count - 1].op != TEXT_MATCH))
      status = damaged(c);
  }
  return status;
}

static edgert_status read_normal_form(cursor *c) {
  edgert_tokenizer *self = c->self;
  uint32_t total = read_count(c, 1), used = 0, next = 0;
  edgert_status status = make(c, total, sizeof *self->decomposed, (void **)&self->decomposed);
  if (status == EDGERT_OK) self->decomposition_count = read_count(c, 3);
  if (status == EDGERT_OK)
    status = make(c, self->decomposition_count, sizeof *self->decompositions,
                  (void **)&self->decompositions);
  for (uint32_t i = 0; i < self->decomposition_count && status == EDGERT_OK; ++i) {
    text_decomposition *one = &self->decompositions[i];
    one->code = next + read_up_to(c, LAST_CODE);
    next = one->code + 1;
    one->begin = used;
    one->count = read_up_to(c, total - used);
    for (uint32_t j = 0; j < one->count; ++j) self->decomposed[used++] = read_up_to(c, LAST_CODE);
    if (c->is_broken || one->count == 0) status = damaged(c);
  }
  if (status == EDGERT_OK) self->order_count = read_count(c, 3);
  if (status == EDGERT_OK)
    status = make(c, self->order_count, sizeof *self->orders, (void **)&self->orders);
  next = 0;
  for (uint32_t i = 0; i < self->order_count && status == EDGERT_OK; ++i) {
    self->orders[i].first = read_range(c, &next, &self->orders[i].last);
    self->orders[i].order = read_byte(c);
    if (c->is_broken) status = damaged(c);
  }
  if (status == EDGERT_OK) self->composition_count = read_count(c, 3);
  if (status == EDGERT_OK)
    status = make(c, self->composition_count, sizeof *self->compositions,
                  (void **)&self->compositions);
  for (uint32_t i = 0; i < self->composition_count && status == EDGERT_OK; ++i) {
    text_composition *one = &self->compositions[i];
    one->first = read_up_to(c, LAST_CODE);
    one->second = read_up_to(c, LAST_CODE);
    one->made = read_up_to(c, LAST_CODE);
    if (i && (one[-1].first > one->first ||
              (one[-1].first == one->first && one[-1].second >= one->second)))
      status = damaged(c);
  }
  return status;
}

static int is_text(text_string text) { return text_valid(text.data, text.size) == text.size; }

static edgert_status read_steps(cursor *c) {
  edgert_tokenizer *self = c->self;
  self->step_count = read_count(c, 2);
  self->normalizers = read_up_to(c, self->step_count);
  edgert_status status = make(c, self->step_count, sizeof *self->steps, (void **)&self->steps);
  for (uint32_t i = 0; i < self->step_count && status == EDGERT_OK; ++i) {
    text_step *step = &self->steps[i];
    step->kind = read_byte(c);
    step->mode = read_byte(c);
    if (step->kind == TEXT_PIECES) {
      step->inverted = read_byte(c);
      step->pattern = read_number(c);
      if (step->mode > TEXT_CONTIGUOUS || step->pattern >= self->pattern_count ||
          i < self->normalizers)
        c->is_broken = 1;
    } else if (step->kind == TEXT_REPLACE || step->kind == TEXT_PREPEND) {
      if (step->kind == TEXT_REPLACE) step->from = read_string(c);
      step->to = read_string(c);
      if (step->mode > 2 || !is_text(step->from) || !is_text(step->to) ||
          (step->kind == TEXT_REPLACE ? step->from.size : step->to.size) == 0)
        c->is_broken = 1;
    } else if (step->kind != TEXT_FORM) {
      c->is_broken = 1;
    }
    if (c->is_broken) status = damaged(c);
  }
  return status;
}

static edgert_status read_tokens(cursor *c) {
  edgert_tokenizer *self = c->self;
  self->token_count = read_count(c, 1);
  edgert_status status = make(c, self->token_count, sizeof *self->tokens, (void **)&self->tokens);
  for (uint32_t i = 0; i < self->token_count && status == EDGERT_OK; ++i) {
    uint32_t word = read_number(c);
    text_token *token = &self->tokens[i];
    token->only = (uint8_t)(word & 1);
    token->size = word >> 1;
    token->begin = (uint32_t)(c->at - self->form);
    if (c->is_broken || token->size > (size_t)(c->end - c->at)) return damaged(c);
    c->at += token->size;
  }
  return status == EDGERT_OK ? text_build_tokens(self, c->error) : status;
}

static edgert_status read_merges(cursor *c) {
  edgert_tokenizer *self = c->self;
  self->merge_count = read_count(c, 2);
  edgert_status status = make(c, self->merge_count, sizeof *self->merges, (void **)&self->merges);
  if (status == EDGERT_OK) status = text_reserve_merges(self, c->error);
  uint32_t next = 0;
  for (uint32_t i = 0; i < self->merge_count && status == EDGERT_OK; ++i) {
    /* Ranks mostly make one token after the other: how far it is from the next, forth and back. */
    uint32_t step = read_number(c), cut = read_number(c);
    uint32_t made = next + (step & 1 ? ~(step >> 1) : step >> 1);
    next = made + 1;
    if (c->is_broken || made >= self->token_count || cut == 0 || cut >= self->tokens[made].size)
      return damaged(c);
    const uint8_t *data = self->form + self->tokens[made].begin;
    text_merge *merge = &self->merges[i];
    merge->made = made;
    merge->left = text_token_of(self, data, cut);
    merge->right = text_token_of(self, data + cut, self->tokens[made].size - cut);
    if (merge->left == TEXT_NONE || merge->right == TEXT_NONE || !text_add_merge(self, i))
      return damaged(c);
  }
  return status;
}

/* The tokens of bytes: themselves, or as "<0xAB>". */
static void find_bytes(edgert_tokenizer *self) {
  static const char digits[] = "0123456789ABCDEF";
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint8_t one = (uint8_t)byte;
    const uint8_t name[6] = {'<', '0', 'x', (uint8_t)digits[byte >> 4], (uint8_t)digits[byte & 15],
                             '>'};
    self->bytes[byte] = self->by_bytes     ? text_token_of(self, &one, 1)
                        : self->falls_back ? text_token_of(self, name, 6)
                                           : TEXT_NONE;
  }
}

static edgert_status read_model(cursor *c) {
  edgert_tokenizer *self = c->self;
  uint8_t flags = read_byte(c);
  self->by_bytes = flags & 1;
  self->falls_back = flags >> 1 & 1;
  self->fuses = flags >> 2 & 1;
  self->whole_words = flags >> 3 & 1;
  self->unknown = read_up_to(c, self->token_count) - 1; /* 0 is none */
  if (c->is_broken || flags > 15) return damaged(c);
  find_bytes(self);
  return EDGERT_OK;
}

static edgert_status read_added(cursor *c) {
  edgert_tokenizer *self = c->self;
  self->added_count = read_count(c, 4);
  edgert_status status = make(c, self->added_count, sizeof *self->added, (void **)&self->added);
  for (uint32_t i = 0; i < self->added_count && status == EDGERT_OK; ++i) {
    text_added *added = &self->added[i];
    added->token = read_number(c);
    added->content = read_string(c);
    uint8_t flags = read_byte(c);
    added->left = flags >> 1 & 1;
    added->right = flags >> 2 & 1;
    added->normalized = flags >> 3 & 1;
    if (c->is_broken || added->token >= self->token_count || added->content.size == 0 ||
        !is_text(added->content) || flags > 15)
      return damaged(c);
    if (flags & 1) self->tokens[added->token].special = 1;
  }
  self->space = read_up_to(c, self->class_count) - 1;
  if (status == EDGERT_OK) status = text_build_added(self, c->error);
  if (status == EDGERT_OK)
    status = read_list(c, self->token_count, &self->before, &self->before_count);
  if (status == EDGERT_OK)
    status = read_list(c, self->token_count, &self->after, &self->after_count);
  return status;
}

static edgert_status read_template(cursor *c) {
  edgert_tokenizer *self = c->self;
  self->decodes_bytes = read_byte(c);
  self->stripped = read_number(c);
  self->written_from = read_string(c);
  self->written_to = read_string(c);
  self->refusal = read_string(c);
  self->trimmed = read_up_to(c, self->class_count) - 1;
  self->role_count = read_up_to(c, MOST_ROLES);
  edgert_status status = make(c, self->role_count, sizeof *self->roles, (void **)&self->roles);
  for (uint32_t i = 0; i < self->role_count && status == EDGERT_OK; ++i) {
    self->roles[i].name = read_string(c);
    self->roles[i].trimmed = read_byte(c);
  }
  uint32_t sides = self->role_count ? self->role_count + 1 : 0;
  if (status == EDGERT_OK)
    status = make(c, (size_t)sides * sides, sizeof *self->glue, (void **)&self->glue);
  for (uint32_t i = 0; i < sides * sides && status == EDGERT_OK; ++i) {
    self->glue[i].known = read_byte(c);
    if (self->glue[i].known) self->glue[i].text = read_string(c);
    if (!is_text(self->glue[i].text)) c->is_broken = 1;
  }
  return status;
}

edgert_status text_read(edgert_tokenizer *self, edgert_error *error) {
  cursor c = {self, self->form, self->form + self->form_size, 0, error};
  if (self->form_size > UINT32_MAX / 2 || self->form_size <= sizeof magic ||
      memcmp(self->form, magic, sizeof magic) != 0 ||
      (self->form[sizeof magic] != '1' && self->form[sizeof magic] != '2'))
    return text_fail(error, EDGERT_UNSUPPORTED, "the form of the text is of another version");
  self->recurrent = self->form[sizeof magic] == '2';
  c.at += sizeof magic + 1;
  static edgert_status (*const parts[])(cursor *) = {
      read_sizes, read_classes, read_patterns, read_normal_form, read_steps,
      read_tokens, read_merges, read_model, read_added, read_template};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    edgert_status status = parts[i](&c);
    if (status != EDGERT_OK) return status;
    if (c.is_broken) return damaged(&c);
  }
  return c.at == c.end ? EDGERT_OK : damaged(&c);
}
