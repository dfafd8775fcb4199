/* What a language model has read, to bytes and back: its tokens, and the used part of each state.
 *
 *     8 bytes "edgesav1"
 *     u32 CRC-32 of all behind it, 32 bytes of which model (the module's `edgec.text.identity`)
 *     u32 tokens, u32 states; i32 each token
 *     for each state: u32 type, u32 rank, u32 cut axis, u32 kept of it, u32 each size; the elements
 *
 * All in little endian, row major. An axis that is as long as the context is cut to the tokens that
 * are there; where none is cut the axis is the rank. Python writes and reads the same
 * (edgec.runtime.text.saved), so that what one has read another knows. */
#include "model.h"

enum { SUMMED = 12, IDENTITY = 32, COUNTS = SUMMED + IDENTITY, BEGIN = COUNTS + 8, STATE = 16 };
enum { MOST_RANK = 8, CACHE_RANK = 4, CACHE_AXIS = 2 };
static const char saved_magic[8] = {'e', 'd', 'g', 'e', 's', 'a', 'v', '1'};

/* A state as the bytes have it: `outer` rows of `kept` of `whole` parts of `part` bytes. */
typedef struct saved_state {
  uint32_t type, rank, axis, kept;
  uint32_t shape[MOST_RANK];
  size_t outer, whole, part;
} saved_state;

static uint32_t saved_sum(const uint8_t *data, size_t size) {
  uint32_t table[256], sum = ~0u;
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t bits = i;
    for (int j = 0; j < 8; ++j) bits = bits >> 1 ^ (bits & 1 ? 0xEDB88320u : 0);
    table[i] = bits;
  }
  for (size_t i = 0; i < size; ++i) sum = sum >> 8 ^ table[(sum ^ data[i]) & 0xFF];
  return ~sum;
}

static uint32_t saved_word(const uint8_t *at) {
  return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void saved_put(uint8_t *at, uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = (uint8_t)(value >> 8 * i);
}

static edgert_status saved_add(const edgert_text_model *self, text_array *out, uint32_t value,
                             edgert_error *error) {
  uint8_t bytes[4];
  saved_put(bytes, value);
  return text_bytes_add(&self->allocator, out, bytes, sizeof bytes, error);
}

/* `outer`, `whole` and `part`; 0: sizes that no memory has, or elements of no whole bytes. */
static int saved_measure(saved_state *it) {
  const size_t bits = it->type & 0xFF;
  if (bits == 0 || bits % 8 != 0 || it->axis > it->rank) return 0;
  it->outer = it->whole = 1;
  it->part = bits / 8;
  for (uint32_t i = 0; i < it->rank; ++i) {
    size_t *into = i < it->axis ? &it->outer : i == it->axis ? &it->whole : &it->part;
    if (it->shape[i] && *into > SIZE_MAX / it->shape[i]) return 0;
    *into *= it->shape[i];
  }
  const size_t row = it->whole && it->part > SIZE_MAX / it->whole ? SIZE_MAX : it->whole * it->part;
  return it->kept <= it->whole && (row == 0 || it->outer <= SIZE_MAX / 2 / row);
}

/* The functions that give and take all states; 0: the module has none, or none of theirs fit. */
static size_t find_states(const edgert_text_model *self, size_t *out_get, size_t *out_set) {
  if (edgert_module_find(self->module, "edgec_get_state", out_get, NULL) != EDGERT_OK ||
      edgert_module_find(self->module, "edgec_set_state", out_set, NULL) != EDGERT_OK)
    return 0;
  const size_t count = edgert_module_output_count(self->module, *out_get);
  return edgert_module_input_count(self->module, *out_set) == count ? count : 0;
}

static edgert_status no_states(edgert_error *error) {
  return text_fail(error, EDGERT_UNSUPPORTED, "the module does not give what it has read");
}

/* Which model it is: keys and values mean nothing to another. NULL: the module does not say. */
static const char *saved_identity(const edgert_text_model *self, edgert_error *error) {
  const char *found = edgert_module_attribute(self->module, SIZE_MAX, "edgec.text.identity");
  if (found && strlen(found) == IDENTITY) return found;
  (void)!text_fail(error, EDGERT_UNSUPPORTED,
                   "the module does not say which model it is: compile it again");
  return NULL;
}

static void release_values(edgert_value *values, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (values[i].kind == EDGERT_TENSOR) edgert_tensor_release(values[i].as.tensor);
}

/* Of a state's axes the one that is cut: a cache's third, and the only one of the text's tokens. */
static edgert_status saved_describe(const edgert_text_model *self, size_t set, size_t index,
                              saved_state *out, edgert_error *error) {
  edgert_argument facts;
  *out = (saved_state){0};
  edgert_status status = edgert_module_input(self->module, set, index, &facts, error);
  if (status != EDGERT_OK) return status;
  if (facts.kind != EDGERT_TENSOR || facts.rank > MOST_RANK) return no_states(error);
  out->type = facts.type, out->rank = out->axis = facts.rank, out->kept = 1;
  for (uint32_t i = 0; i < facts.rank; ++i) {
    if (facts.shape[i] < 0 || facts.shape[i] > UINT32_MAX) return no_states(error);
    out->shape[i] = (uint32_t)facts.shape[i];
  }
  if (facts.rank == CACHE_RANK) out->axis = CACHE_AXIS;
  if (facts.rank == 1 && facts.type == EDGERT_I32 &&
      out->shape[0] >= edgert_tokenizer_context(self->tokenizer))
    out->axis = 0;
  if (out->axis < out->rank) {
    const uint32_t size = out->shape[out->axis];
    out->kept = self->held_count < size ? (uint32_t)self->held_count : size;
  }
  return saved_measure(out) ? EDGERT_OK : no_states(error);
}

static edgert_status save_state(const edgert_text_model *self, size_t set, size_t index,
                                const edgert_value *value, text_array *out, edgert_error *error) {
  saved_state it;
  uint8_t *whole = NULL;
  edgert_status status = saved_describe(self, set, index, &it, error);
  if (status == EDGERT_OK && value->kind != EDGERT_TENSOR) status = no_states(error);
  if (status != EDGERT_OK) return status;
  const size_t row = it.whole * it.part, kept = it.kept * it.part, size = it.outer * row;
  const uint32_t head[4] = {it.type, it.rank, it.axis, it.kept};
  for (size_t i = 0; i < 4 && status == EDGERT_OK; ++i)
    status = saved_add(self, out, head[i], error);
  for (size_t i = 0; i < it.rank && status == EDGERT_OK; ++i)
    status = saved_add(self, out, it.shape[i], error);
  if (status == EDGERT_OK)
    status = text_allocate(&self->allocator, size, 1, (void **)&whole, error);
  if (status == EDGERT_OK && size)
    status = edgert_tensor_read(value->as.tensor, whole, size, error);
  if (status == EDGERT_OK)
    status = text_array_reserve(&self->allocator, out, it.outer * kept, 1, error);
  for (size_t i = 0; i < it.outer && kept && status == EDGERT_OK; ++i)
    status = text_bytes_add(&self->allocator, out, whole + i * row, kept, error);
  text_deallocate(&self->allocator, whole);
  return status;
}

edgert_status edgert_text_save(edgert_text_model *self, void **out_data, size_t *out_size,
                               edgert_error *error) {
  text_array out = {0};
  edgert_value *values = NULL;
  size_t get, set;
  const size_t count = find_states(self, &get, &set);
  const char *identity;
  *out_data = NULL, *out_size = 0;
  if (count == 0) return no_states(error);
  if (!(identity = saved_identity(self, error))) return EDGERT_UNSUPPORTED;
  edgert_status status =
      text_allocate(&self->allocator, count, sizeof *values, (void **)&values, error);
  if (status == EDGERT_OK) status = text_model_forget(self, self->held_count, error);
  if (status == EDGERT_OK)
    status = edgert_session_call(self->session, get, NULL, 0, values, count, error);
  if (status == EDGERT_OK)
    status = text_bytes_add(&self->allocator, &out, saved_magic, sizeof saved_magic, error);
  if (status == EDGERT_OK) status = saved_add(self, &out, 0, error);
  if (status == EDGERT_OK)
    status = text_bytes_add(&self->allocator, &out, identity, IDENTITY, error);
  if (status == EDGERT_OK) status = saved_add(self, &out, (uint32_t)self->held_count, error);
  if (status == EDGERT_OK) status = saved_add(self, &out, (uint32_t)count, error);
  for (size_t i = 0; i < self->held_count && status == EDGERT_OK; ++i)
    status = saved_add(self, &out, (uint32_t)self->held[i], error);
  for (size_t i = 0; i < count && status == EDGERT_OK; ++i)
    status = save_state(self, set, i, &values[i], &out, error);
  if (values) release_values(values, count);
  text_deallocate(&self->allocator, values);
  if (status != EDGERT_OK) {
    text_deallocate(&self->allocator, out.data);
    return status;
  }
  uint8_t *data = out.data;
  saved_put(data + sizeof saved_magic, saved_sum(data + SUMMED, out.count - SUMMED));
  *out_data = data, *out_size = out.count;
  return EDGERT_OK;
}

void edgert_text_free(const edgert_text_model *self, void *data) {
  text_deallocate(&self->allocator, data);
}

static edgert_status saved_damaged(edgert_error *error) {
  return text_fail(error, EDGERT_INVALID_ARGUMENT, "the bytes are no saved text, or damaged");
}

static edgert_status saved_another(edgert_error *error) {
  return text_fail(error, EDGERT_INVALID_ARGUMENT,
                   "the text was saved by another model, or with other weights: read it again");
}

/* The next state of the bytes, as a tensor of the shape that the module has for it. */
static edgert_status restore_state(const edgert_text_model *self, size_t set, size_t index,
                                   const uint8_t **at, const uint8_t *end, edgert_value *out,
                                   edgert_error *error) {
  saved_state it;
  int64_t shape[MOST_RANK];
  uint8_t *whole = NULL;
  edgert_status status = saved_describe(self, set, index, &it, error);
  if (status != EDGERT_OK) return status;
  if (end - *at < STATE) return saved_damaged(error);
  int fits = saved_word(*at) == it.type && saved_word(*at + 4) == it.rank;
  it.axis = saved_word(*at + 8), it.kept = saved_word(*at + 12);
  *at += STATE;
  if (!fits) return saved_another(error);
  if ((size_t)(end - *at) / 4 < it.rank) return saved_damaged(error);
  for (uint32_t i = 0; i < it.rank; ++i, *at += 4) {
    fits = fits && saved_word(*at) == it.shape[i];
    shape[i] = it.shape[i];
  }
  if (!fits) return saved_another(error);
  if (!saved_measure(&it)) return saved_damaged(error);
  const size_t row = it.whole * it.part, kept = it.kept * it.part, size = it.outer * row;
  if ((size_t)(end - *at) < it.outer * kept) return saved_damaged(error);
  status = text_allocate(&self->allocator, size, 1, (void **)&whole, error);
  for (size_t i = 0; i < it.outer && kept && status == EDGERT_OK; ++i, *at += kept)
    memcpy(whole + i * row, *at, kept);
  if (status == EDGERT_OK)
    status = edgert_tensor_create(self->device, it.type, it.rank, shape, &out->as.tensor, error);
  if (status == EDGERT_OK) {
    out->kind = EDGERT_TENSOR;
    if (size) status = edgert_tensor_write(out->as.tensor, whole, size, error);
  }
  text_deallocate(&self->allocator, whole);
  return status;
}

edgert_status edgert_text_restore(edgert_text_model *self, const void *given, size_t size,
                                  edgert_error *error) {
  const uint8_t *data = given, *at = data + BEGIN, *end = data + size;
  edgert_value *values = NULL;
  size_t get, set;
  const size_t count = find_states(self, &get, &set);
  const char *identity;
  if (count == 0) return no_states(error);
  if (!(identity = saved_identity(self, error))) return EDGERT_UNSUPPORTED;
  if (size < BEGIN || memcmp(data, saved_magic, sizeof saved_magic) != 0 ||
      saved_sum(data + SUMMED, size - SUMMED) != saved_word(data + sizeof saved_magic))
    return saved_damaged(error);
  const size_t held = saved_word(data + COUNTS);
  if (memcmp(data + SUMMED, identity, IDENTITY) != 0 || saved_word(data + COUNTS + 4) != count ||
      held > edgert_tokenizer_context(self->tokenizer) ||
      (size_t)(end - at) / 4 < held)
    return saved_another(error);
  at += held * 4;
  edgert_status status =
      text_allocate(&self->allocator, count, sizeof *values, (void **)&values, error);
  for (size_t i = 0; i < count && status == EDGERT_OK; ++i)
    status = restore_state(self, set, i, &at, end, &values[i], error);
  if (status == EDGERT_OK && at != end) status = saved_damaged(error);
  if (status == EDGERT_OK) {
    self->held_count = 0;
    status = edgert_session_call(self->session, set, values, count, NULL, 0, error);
  }
  if (status == EDGERT_OK) {
    for (size_t i = 0; i < held; ++i) self->held[i] = (int32_t)saved_word(data + BEGIN + i * 4);
    self->held_count = held;
  }
  if (values) release_values(values, count);
  text_deallocate(&self->allocator, values);
  return status;
}
