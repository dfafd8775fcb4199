/* Bytes or characters of a piece to tokens, by merges, the lowest rank first: a heap of what could be
 * merged, in which what others were merged away from is left and passed over. */
#include "text.h"

typedef struct chance {
  uint32_t rank, at, made;
} chance;

static int is_before(const chance *one, const chance *other) {
  return one->rank != other->rank ? one->rank < other->rank : one->at < other->at;
}

static edgert_status heap_push(const edgert_tokenizer *self, text_word *word, uint32_t at,
                          edgert_error *error) {
  const text_symbol *symbols = word->symbols.data;
  if (symbols[at].next == TEXT_NONE) return EDGERT_OK;
  uint32_t rank = text_rank_of(self, symbols[at].token, symbols[symbols[at].next].token);
  if (rank == TEXT_NONE) return EDGERT_OK;
  edgert_status status =
      text_array_reserve(&self->allocator, &word->heap, 1, sizeof(chance), error);
  if (status != EDGERT_OK) return status;
  chance *heap = word->heap.data;
  const chance new_one = {rank, at, self->merges[rank].made};
  size_t place = word->heap.count++;
  for (; place > 0 && is_before(&new_one, &heap[(place - 1) / 2]); place = (place - 1) / 2)
    heap[place] = heap[(place - 1) / 2];
  heap[place] = new_one;
  return EDGERT_OK;
}

static chance heap_pop(text_word *word) {
  chance *heap = word->heap.data;
  const chance top = heap[0], last = heap[--word->heap.count];
  size_t place = 0, count = word->heap.count;
  for (size_t below; (below = 2 * place + 1) < count; place = below) {
    if (below + 1 < count && is_before(&heap[below + 1], &heap[below])) ++below;
    if (!is_before(&heap[below], &last)) break;
    heap[place] = heap[below];
  }
  if (count) heap[place] = last;
  return top;
}

static edgert_status symbol_add(const edgert_tokenizer *self, text_word *word, uint32_t token,
                         edgert_error *error) {
  edgert_status status =
      text_array_reserve(&self->allocator, &word->symbols, 1, sizeof(text_symbol), error);
  if (status == EDGERT_OK && word->symbols.count >= TEXT_NONE)
    status = text_fail(error, EDGERT_LIMIT, "a word is too long");
  if (status == EDGERT_OK)
    ((text_symbol *)word->symbols.data)[word->symbols.count++] =
        (text_symbol){token, TEXT_NONE, TEXT_NONE};
  return status;
}

/* The symbols of a piece. What has no token is written in bytes, unknown, or left out. */
static edgert_status spell(const edgert_tokenizer *self, text_word *word, const uint8_t *data,
                           size_t size, edgert_error *error) {
  edgert_status status = EDGERT_OK;
  int is_waiting = 0; /* an unknown one, for others that it is one with */
  for (size_t at = 0, width; at < size && status == EDGERT_OK; at += width) {
    width = self->by_bytes ? 1 : text_width(data[at]);
    uint32_t token =
        self->by_bytes ? self->bytes[data[at]] : text_token_of(self, data + at, width);
    if (token == TEXT_NONE && self->falls_back) {
      int is_whole = 1;
      for (size_t i = 0; i < width; ++i) is_whole &= self->bytes[data[at + i]] != TEXT_NONE;
      for (size_t i = 0; i < width && is_whole && status == EDGERT_OK; ++i)
        status = symbol_add(self, word, self->bytes[data[at + i]], error);
      if (is_whole) continue;
    }
    if (token == TEXT_NONE) {
      if (self->unknown == TEXT_NONE) continue;
      if (is_waiting && !self->fuses) status = symbol_add(self, word, self->unknown, error);
      is_waiting = 1;
      continue;
    }
    if (is_waiting) status = symbol_add(self, word, self->unknown, error);
    is_waiting = 0;
    if (status == EDGERT_OK) status = symbol_add(self, word, token, error);
  }
  if (status == EDGERT_OK && is_waiting) status = symbol_add(self, word, self->unknown, error);
  return status;
}

edgert_status text_merge_word(const edgert_tokenizer *self, text_word *word, const uint8_t *data,
                              size_t size, text_array *tokens, edgert_error *error) {
  word->symbols.count = word->heap.count = 0;
  uint32_t whole = self->whole_words ? text_token_of(self, data, size) : TEXT_NONE;
  edgert_status status =
      whole == TEXT_NONE ? spell(self, word, data, size, error) : symbol_add(self, word, whole, error);
  text_symbol *symbols = word->symbols.data;
  uint32_t count = (uint32_t)word->symbols.count;
  for (uint32_t i = 0; i + 1 < count; ++i) symbols[i].next = i + 1, symbols[i + 1].previous = i;
  for (uint32_t i = 0; i + 1 < count && status == EDGERT_OK; ++i)
    status = heap_push(self, word, i, error);
  while (word->heap.count && status == EDGERT_OK) {
    chance best = heap_pop(word);
    text_symbol *left = &symbols[best.at];
    if (left->token == TEXT_NONE || left->next == TEXT_NONE) continue;
    text_symbol *right = &symbols[left->next];
    uint32_t rank = text_rank_of(self, left->token, right->token);
    if (rank == TEXT_NONE || self->merges[rank].made != best.made) continue;
    left->token = best.made;
    left->next = right->next;
    right->token = TEXT_NONE;
    if (left->next != TEXT_NONE) symbols[left->next].previous = best.at;
    if (left->previous != TEXT_NONE) status = heap_push(self, word, left->previous, error);
    if (status == EDGERT_OK) status = heap_push(self, word, best.at, error);
  }
  if (status == EDGERT_OK)
    status = text_array_reserve(&self->allocator, tokens, count, sizeof(int32_t), error);
  for (uint32_t i = 0; i < count && status == EDGERT_OK; ++i)
    if (symbols[i].token != TEXT_NONE)
      ((int32_t *)tokens->data)[tokens->count++] = (int32_t)symbols[i].token;
  return status;
}
