/* Opening a tokenizer, and text to its tokens. */
#include "text.h"

#define REFUSED '!' /* the attribute's first letter where a sentence says why there is no form */

static int letter_value(char letter) {
  if (letter >= 'A' && letter <= 'Z') return letter - 'A';
  if (letter >= 'a' && letter <= 'z') return letter - 'a' + 26;
  if (letter >= '0' && letter <= '9') return letter - '0' + 52;
  return letter == '+' ? 62 : letter == '/' ? 63 : -1;
}

/* Base64 to bytes; SIZE_MAX where it is none. */
static size_t decode_letters(const char *letters, size_t size, uint8_t *out) {
  size_t count = 0;
  uint32_t bits = 0, held = 0;
  while (size && letters[size - 1] == '=') --size;
  for (size_t i = 0; i < size; ++i) {
    int value = letter_value(letters[i]);
    if (value < 0) return SIZE_MAX;
    held = held << 6 | (uint32_t)value;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out[count++] = (uint8_t)(held >> bits);
    }
  }
  return count;
}

edgert_status edgert_tokenizer_parse(const char *attribute, size_t size,
                                     const edgert_allocator *allocator,
                                     edgert_tokenizer **out_tokenizer, edgert_error *error) {
  edgert_allocator memory = text_allocator_or_default(allocator);
  edgert_tokenizer *self;
  *out_tokenizer = NULL;
  if (size && attribute[0] == REFUSED) {
    char said[sizeof error->message];
    size_t length = size - 1 < sizeof said - 1 ? size - 1 : sizeof said - 1;
    memcpy(said, attribute + 1, length);
    said[length] = 0;
    return text_fail(error, EDGERT_UNSUPPORTED, said);
  }
  edgert_status status = text_allocate(&memory, 1, sizeof *self, (void **)&self, error);
  if (status != EDGERT_OK) return status;
  self->allocator = memory;
  status = text_allocate(&memory, size / 4 * 3 + 3, 1, (void **)&self->form, error);
  if (status == EDGERT_OK) {
    self->form_size = decode_letters(attribute, size, self->form);
    status = self->form_size == SIZE_MAX
                 ? text_fail(error, EDGERT_DAMAGED, "the form of the text is damaged")
                 : text_read(self, error);
  }
  if (status == EDGERT_OK)
    *out_tokenizer = self;
  else
    edgert_tokenizer_release(self);
  return status;
}

void edgert_tokenizer_release(edgert_tokenizer *self) {
  if (!self) return;
  const edgert_allocator memory = self->allocator;
  for (uint32_t i = 0; i < self->pattern_count && self->patterns; ++i)
    text_deallocate(&memory, self->patterns[i].code);
  void *const all[] = {self->form,        self->prefill,        self->stops,
                       self->classes,     self->ranges,         self->patterns,
                       self->decomposed,  self->decompositions, self->orders,
                       self->steps,       self->compositions,   self->tokens,
                       self->token_table, self->merges,         self->merge_table,
                       self->added,       self->added_table,    self->added_sizes,
                       self->before,      self->after,          self->roles,
                       self->glue};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) text_deallocate(&memory, all[i]);
  text_deallocate(&memory, self);
}

uint32_t edgert_tokenizer_context(const edgert_tokenizer *self) { return self->context; }

uint32_t edgert_tokenizer_vocabulary(const edgert_tokenizer *self) { return self->vocabulary; }

uint32_t edgert_tokenizer_prefill(const edgert_tokenizer *self, size_t index) {
  return index < self->prefill_count ? self->prefill[index] : 0;
}

uint32_t edgert_tokenizer_chunk(const edgert_tokenizer *self, size_t left) {
  const size_t most = self->recurrent ? left : 2 * left - 1;
  uint32_t size = self->recurrent || left < 2 || !self->prefill_count ? 1 : self->prefill[0];
  for (uint32_t i = 0; i < self->prefill_count && left > 1; ++i)
    if (self->prefill[i] <= most) size = self->prefill[i];
  return size;
}

int edgert_tokenizer_recurrent(const edgert_tokenizer *self) { return self->recurrent; }

int edgert_tokenizer_stops(const edgert_tokenizer *self, int32_t token) {
  for (uint32_t i = 0; i < self->stop_count; ++i)
    if (self->stops[i] == (uint32_t)token) return 1;
  return 0;
}

void edgert_tokenizer_free(const edgert_tokenizer *self, void *memory) {
  text_deallocate(&self->allocator, memory);
}

static edgert_status add_tokens(const edgert_tokenizer *self, text_array *tokens,
                                const uint32_t *more, uint32_t count, edgert_error *error) {
  edgert_status status =
      text_array_reserve(&self->allocator, tokens, count + 1, sizeof(int32_t), error);
  for (uint32_t i = 0; i < count && status == EDGERT_OK; ++i)
    ((int32_t *)tokens->data)[tokens->count++] = (int32_t)more[i];
  return status;
}

edgert_status edgert_tokenizer_encode(const edgert_tokenizer *self, const char *text, size_t size,
                                      int special, int32_t **out_tokens, size_t *out_count,
                                      edgert_error *error) {
  const uint8_t *data = (const uint8_t *)text;
  text_pieces pieces = {0};
  text_word word = {0};
  text_array tokens = {0};
  *out_tokens = NULL;
  *out_count = 0;
  size_t valid = text_valid(data, size);
  if (valid < size)
    return text_fail_at(error, EDGERT_INVALID_ARGUMENT, "the text is no UTF-8 at byte ", valid, "");
  edgert_status status = text_cut_up(&pieces, self, data, size, error);
  if (status == EDGERT_OK)
    status = add_tokens(self, &tokens, self->before, special ? self->before_count : 0, error);
  for (size_t i = 0; i < pieces.pieces.count && status == EDGERT_OK; ++i) {
    const text_piece *piece = (const text_piece *)pieces.pieces.data + i;
    if (piece->token != TEXT_NONE)
      status = add_tokens(self, &tokens, &piece->token, 1, error);
    else
      status = text_merge_word(self, &word, (const uint8_t *)pieces.bytes.data + piece->begin,
                               piece->size, &tokens, error);
  }
  if (status == EDGERT_OK)
    status = add_tokens(self, &tokens, self->after, special ? self->after_count : 0, error);
  text_pieces_release(&pieces);
  text_deallocate(&self->allocator, word.symbols.data);
  text_deallocate(&self->allocator, word.heap.data);
  if (status != EDGERT_OK) {
    text_deallocate(&self->allocator, tokens.data);
    return status;
  }
  *out_tokens = tokens.data;
  *out_count = tokens.count;
  return EDGERT_OK;
}
