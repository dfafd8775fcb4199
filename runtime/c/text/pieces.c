/* A text to pieces: tokens that are written out in it, and between them words, each step by itself. */
#include "text.h"

static edgert_status keep(text_pieces *self, size_t begin, size_t size, uint32_t token, int is_first,
                          edgert_error *error) {
  if (size == 0 && token == TEXT_NONE) return EDGERT_OK;
  edgert_status status = text_array_reserve(&self->tokenizer->allocator, &self->next_pieces, 1,
                                            sizeof(text_piece), error);
  if (status == EDGERT_OK)
    ((text_piece *)self->next_pieces.data)[self->next_pieces.count++] =
        (text_piece){begin, size, token, (uint8_t)is_first};
  return status;
}

static edgert_status copy(text_pieces *self, const uint8_t *data, size_t size, edgert_error *error) {
  return text_bytes_add(&self->tokenizer->allocator, &self->next_bytes, data, size, error);
}

static edgert_status replace(text_pieces *self, const text_step *step, const uint8_t *data,
                             size_t size, edgert_error *error) {
  edgert_status status = EDGERT_OK;
  for (size_t at = 0; at < size && status == EDGERT_OK;) {
    if (step->from.size <= size - at && memcmp(data + at, step->from.data, step->from.size) == 0) {
      status = copy(self, step->to.data, step->to.size, error);
      at += step->from.size;
    } else {
      status = copy(self, data + at++, 1, error);
    }
  }
  return status;
}

static edgert_status prepend(text_pieces *self, const text_step *step, const uint8_t *data,
                             size_t size, int is_first, edgert_error *error) {
  int has_it =
      step->to.size <= size && memcmp(data, step->to.data, step->to.size) == 0 && step->mode != 0;
  edgert_status status = EDGERT_OK;
  if (!has_it && (step->mode != 2 || is_first))
    status = copy(self, step->to.data, step->to.size, error);
  return status == EDGERT_OK ? copy(self, data, size, error) : status;
}

/* Part of a text between two places, and whether the pattern was found there. */
typedef struct part {
  size_t begin, end;
  int is_match;
} part;

/* Keep what the parts become; `parts` are all of the text, in order. */
static edgert_status keep_parts(text_pieces *self, const text_step *step, part *parts, size_t count,
                                size_t offset, int is_first, edgert_error *error) {
  size_t kept = 0;
  for (size_t i = 0, before = 0; i < count; ++i) {
    size_t is_match = (size_t)parts[i].is_match;
    int joins = i > 0 && (step->mode == TEXT_CONTIGUOUS      ? is_match == before
                          : step->mode == TEXT_WITH_PREVIOUS ? is_match && !before
                          : step->mode == TEXT_WITH_NEXT     ? !is_match && before
                                                             : 0);
    if (joins)
      parts[kept - 1].end = parts[i].end;
    else
      parts[kept++] = parts[i];
    before = is_match;
  }
  edgert_status status = EDGERT_OK;
  for (size_t i = 0; i < kept && status == EDGERT_OK; ++i)
    if (step->mode != TEXT_REMOVED || !parts[i].is_match)
      status = keep(self, offset + parts[i].begin, parts[i].end - parts[i].begin, TEXT_NONE,
                    is_first && parts[i].begin == 0, error);
  return status;
}

static edgert_status add_part(text_pieces *self, text_array *parts, size_t begin, size_t end,
                              int is_match, edgert_error *error) {
  if (begin == end) return EDGERT_OK;
  edgert_status status =
      text_array_reserve(&self->tokenizer->allocator, parts, 1, sizeof(part), error);
  if (status == EDGERT_OK) ((part *)parts->data)[parts->count++] = (part){begin, end, is_match};
  return status;
}

static edgert_status cut(text_pieces *self, const text_step *step, const uint8_t *data, size_t size,
                         int is_first, edgert_error *error) {
  const text_pattern *pattern = &self->tokenizer->patterns[step->pattern];
  size_t offset = self->next_bytes.count, last = 0;
  text_array parts = {0};
  edgert_status status = copy(self, data, size, error);
  while (last < size && status == EDGERT_OK) {
    size_t begin, end;
    status = text_find(&self->matcher, pattern, data, size, last, &begin, &end, error);
    if (status == EDGERT_OK) status = add_part(self, &parts, last, begin, step->inverted, error);
    if (status == EDGERT_OK) status = add_part(self, &parts, begin, end, !step->inverted, error);
    last = end;
  }
  if (status == EDGERT_OK)
    status = keep_parts(self, step, parts.data, parts.count, offset, is_first, error);
  text_deallocate(&self->tokenizer->allocator, parts.data);
  return status;
}

static size_t space_before(const edgert_tokenizer *self, const uint8_t *data, size_t at) {
  for (size_t begin = at; begin > 0;) {
    do --begin;
    while (begin > 0 && (data[begin] & 0xC0) == 0x80);
    if (!text_class_has(&self->classes[self->space], text_code(data + begin))) break;
    at = begin;
  }
  return at;
}

static size_t space_behind(const edgert_tokenizer *self, const uint8_t *data, size_t size,
                           size_t at) {
  while (at < size && text_class_has(&self->classes[self->space], text_code(data + at)))
    at += text_width(data[at]);
  return at;
}

/* Added tokens in a text, the first and longest ones, and what is between them. */
static edgert_status take_added(text_pieces *self, const uint8_t *data, size_t size, int normalized,
                                int is_first, edgert_error *error) {
  const edgert_tokenizer *tokenizer = self->tokenizer;
  size_t offset = self->next_bytes.count, last = 0;
  edgert_status status = copy(self, data, size, error);
  for (size_t at = 0; at < size && status == EDGERT_OK;) {
    uint32_t found = text_added_at(tokenizer, data + at, size - at, normalized);
    if (found == TEXT_NONE) {
      ++at;
      continue;
    }
    const text_added *added = &tokenizer->added[found];
    size_t begin = at, end = at + added->content.size;
    at = end;
    if (tokenizer->space != TEXT_NONE && added->left) {
      begin = space_before(tokenizer, data, begin);
      if (begin < last) begin = last;
    }
    if (tokenizer->space != TEXT_NONE && added->right) end = space_behind(tokenizer, data, size, end);
    if (last < begin)
      status = keep(self, offset + last, begin - last, TEXT_NONE, is_first && last == 0, error);
    if (status == EDGERT_OK) status = keep(self, 0, 0, added->token, 0, error);
    last = end;
  }
  if (status == EDGERT_OK && last < size)
    status = keep(self, offset + last, size - last, TEXT_NONE, is_first && last == 0, error);
  return status;
}

static edgert_status one_step(text_pieces *self, const text_step *step, const uint8_t *data,
                              size_t size, int is_first, edgert_error *error) {
  size_t offset = self->next_bytes.count;
  edgert_status status;
  if (step->kind == TEXT_PIECES) return cut(self, step, data, size, is_first, error);
  if (step->kind == TEXT_REPLACE)
    status = replace(self, step, data, size, error);
  else if (step->kind == TEXT_PREPEND)
    status = prepend(self, step, data, size, is_first, error);
  else
    status = text_normalise(self->tokenizer, data, size, step->mode, &self->next_bytes, error);
  if (status == EDGERT_OK)
    status = keep(self, offset, self->next_bytes.count - offset, TEXT_NONE, is_first, error);
  return status;
}

/* One step on all pieces of text; without one, added tokens are looked for. */
static edgert_status advance(text_pieces *self, const text_step *step, int normalized,
                             edgert_error *error) {
  edgert_status status = EDGERT_OK;
  const text_piece *pieces = self->pieces.data;
  self->next_bytes.count = self->next_pieces.count = 0;
  for (size_t i = 0; i < self->pieces.count && status == EDGERT_OK; ++i) {
    const text_piece *piece = &pieces[i];
    const uint8_t *data = (const uint8_t *)self->bytes.data + piece->begin;
    if (piece->token != TEXT_NONE)
      status = keep(self, 0, 0, piece->token, 0, error);
    else if (step)
      status = one_step(self, step, data, piece->size, piece->first, error);
    else
      status = take_added(self, data, piece->size, normalized, piece->first, error);
  }
  text_array bytes = self->bytes, cut_pieces = self->pieces;
  self->bytes = self->next_bytes;
  self->pieces = self->next_pieces;
  self->next_bytes = bytes;
  self->next_pieces = cut_pieces;
  return status;
}

edgert_status text_cut_up(text_pieces *self, const edgert_tokenizer *tokenizer, const uint8_t *text,
                          size_t size, edgert_error *error) {
  self->tokenizer = tokenizer;
  self->matcher.allocator = &tokenizer->allocator;
  self->matcher.classes = tokenizer->classes;
  /* Any pattern of use takes some ten steps a character. */
  self->matcher.steps = 100000 + 1000 * (uint64_t)size;
  edgert_status status = copy(self, text, size, error);
  if (status == EDGERT_OK) status = keep(self, 0, size, TEXT_NONE, 1, error);
  text_array bytes = self->bytes, pieces = self->pieces;
  self->bytes = self->next_bytes;
  self->pieces = self->next_pieces;
  self->next_bytes = bytes;
  self->next_pieces = pieces;
  if (status == EDGERT_OK) status = advance(self, NULL, 0, error);
  for (uint32_t i = 0; i <= tokenizer->step_count && status == EDGERT_OK; ++i) {
    if (i == tokenizer->normalizers) status = advance(self, NULL, 1, error);
    if (i < tokenizer->step_count && status == EDGERT_OK)
      status = advance(self, &tokenizer->steps[i], 0, error);
  }
  return status;
}

void text_pieces_release(text_pieces *self) {
  const edgert_allocator *allocator = &self->tokenizer->allocator;
  text_deallocate(allocator, self->bytes.data);
  text_deallocate(allocator, self->pieces.data);
  text_deallocate(allocator, self->next_bytes.data);
  text_deallocate(allocator, self->next_pieces.data);
  text_deallocate(allocator, self->matcher.stack.data);
}
