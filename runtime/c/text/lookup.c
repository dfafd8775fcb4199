/* Tables by content: places by a hash, and what collides goes to the next place. A form that makes
 * very many collide is refused. */
#include "text.h"

enum { MOST_TRIES = 1024 };

static uint32_t mixed(uint32_t hash) {
  hash = (hash ^ hash >> 16) * 0x7FEB352Du;
  hash = (hash ^ hash >> 15) * 0x846CA68Bu;
  return hash ^ hash >> 16;
}

static uint32_t hash_of(const uint8_t *data, size_t size) {
  uint32_t hash = 0x811C9DC5u;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ data[i]) * 0x01000193u;
  return mixed(hash);
}

static edgert_status table_for(const edgert_tokenizer *self, uint32_t count, uint32_t **out_table,
                               uint32_t *out_mask, edgert_error *error) {
  uint32_t size = 16;
  while (size < UINT32_MAX / 4 && size < 2 * count) size *= 2;
  *out_mask = size - 1;
  return text_allocate(&self->allocator, size, sizeof **out_table, (void **)out_table, error);
}

static int is_token(const edgert_tokenizer *self, uint32_t id, const uint8_t *data, size_t size) {
  const text_token *token = &self->tokens[id];
  return token->size == size && memcmp(self->form + token->begin, data, size) == 0;
}

edgert_status text_build_tokens(edgert_tokenizer *self, edgert_error *error) {
  edgert_status status =
      table_for(self, self->token_count, &self->token_table, &self->token_mask, error);
  for (uint32_t id = 0; id < self->token_count && status == EDGERT_OK; ++id) {
    const text_token *token = &self->tokens[id];
    if (!token->size || token->only) continue;
    uint32_t at = hash_of(self->form + token->begin, token->size) & self->token_mask, tries = 0;
    for (; self->token_table[at]; at = (at + 1) & self->token_mask)
      if (++tries > MOST_TRIES ||
          is_token(self, self->token_table[at] - 1, self->form + token->begin, token->size))
        return text_fail_at(error, EDGERT_DAMAGED, "token ", id, " is there twice");
    self->token_table[at] = id + 1;
  }
  return status;
}

uint32_t text_token_of(const edgert_tokenizer *self, const uint8_t *data, size_t size) {
  uint32_t at = hash_of(data, size) & self->token_mask;
  for (; self->token_table[at]; at = (at + 1) & self->token_mask)
    if (is_token(self, self->token_table[at] - 1, data, size)) return self->token_table[at] - 1;
  return TEXT_NONE;
}

edgert_status text_reserve_merges(edgert_tokenizer *self, edgert_error *error) {
  return table_for(self, self->merge_count, &self->merge_table, &self->merge_mask, error);
}

static uint32_t merge_place(const edgert_tokenizer *self, uint32_t left, uint32_t right) {
  return mixed(left * 0x9E3779B1u ^ mixed(right)) & self->merge_mask;
}

int text_add_merge(edgert_tokenizer *self, uint32_t rank) {
  const text_merge *merge = &self->merges[rank];
  uint32_t at = merge_place(self, merge->left, merge->right), tries = 0;
  for (; self->merge_table[at]; at = (at + 1) & self->merge_mask) {
    const text_merge *other = &self->merges[self->merge_table[at] - 1];
    if (++tries > MOST_TRIES || (other->left == merge->left && other->right == merge->right))
      return 0;
  }
  self->merge_table[at] = rank + 1;
  return 1;
}

uint32_t text_rank_of(const edgert_tokenizer *self, uint32_t left, uint32_t right) {
  uint32_t at = merge_place(self, left, right);
  for (; self->merge_table[at]; at = (at + 1) & self->merge_mask) {
    const text_merge *merge = &self->merges[self->merge_table[at] - 1];
    if (merge->left == left && merge->right == right) return self->merge_table[at] - 1;
  }
  return TEXT_NONE;
}

/* --- added tokens: by each size that one of them has, the largest first --------------------------- */

static uint32_t find_added(const edgert_tokenizer *self, const uint8_t *data, size_t size,
                           int normalized) {
  uint32_t at = hash_of(data, size) & self->added_mask;
  for (; self->added_table[at]; at = (at + 1) & self->added_mask) {
    const text_added *added = &self->added[self->added_table[at] - 1];
    if (added->normalized == normalized && added->content.size == size &&
        memcmp(added->content.data, data, size) == 0)
      return self->added_table[at] - 1;
  }
  return TEXT_NONE;
}

static edgert_status note_size(edgert_tokenizer *self, uint32_t size, edgert_error *error) {
  uint32_t at = 0;
  while (at < self->added_size_count && self->added_sizes[at] > size) ++at;
  if (at < self->added_size_count && self->added_sizes[at] == size) return EDGERT_OK;
  if (self->added_size_count == 256)
    return text_fail(error, EDGERT_DAMAGED, "added tokens have too many sizes");
  memmove(self->added_sizes + at + 1, self->added_sizes + at,
          (self->added_size_count++ - at) * sizeof *self->added_sizes);
  self->added_sizes[at] = size;
  return EDGERT_OK;
}

edgert_status text_build_added(edgert_tokenizer *self, edgert_error *error) {
  edgert_status status =
      table_for(self, self->added_count, &self->added_table, &self->added_mask, error);
  if (status == EDGERT_OK)
    status = text_allocate(&self->allocator, 257, sizeof *self->added_sizes,
                           (void **)&self->added_sizes, error);
  for (uint32_t i = 0; i < self->added_count && status == EDGERT_OK; ++i) {
    const text_string *content = &self->added[i].content;
    uint32_t at = hash_of(content->data, content->size) & self->added_mask, tries = 0;
    for (; self->added_table[at] && tries <= MOST_TRIES; at = (at + 1) & self->added_mask) ++tries;
    if (tries > MOST_TRIES ||
        find_added(self, content->data, content->size, self->added[i].normalized) != TEXT_NONE)
      return text_fail_at(error, EDGERT_DAMAGED, "added token ", i, " is there twice");
    self->added_table[at] = i + 1;
    self->added_first[content->data[0] / 32] |= 1u << content->data[0] % 32;
    status = note_size(self, (uint32_t)content->size, error);
  }
  return status;
}

uint32_t text_added_at(const edgert_tokenizer *self, const uint8_t *data, size_t size,
                       int normalized) {
  if (!(self->added_first[data[0] / 32] >> data[0] % 32 & 1)) return TEXT_NONE;
  for (uint32_t i = 0; i < self->added_size_count; ++i) {
    if (self->added_sizes[i] > size) continue;
    uint32_t found = find_added(self, data, self->added_sizes[i], normalized);
    if (found != TEXT_NONE) return found;
  }
  return TEXT_NONE;
}
