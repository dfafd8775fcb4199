/* Unicode's normal forms, by the tables of the form: decompose, order what is put on a letter, and
 * compose again. */
#include "text.h"

enum { HANGUL = 0xAC00, LEADS = 0x1100, VOWELS = 0x1161, TAILS = 0x11A7 };
enum { LEAD_COUNT = 19, VOWEL_COUNT = 21, TAIL_COUNT = 28 };
enum { HANGUL_COUNT = LEAD_COUNT * VOWEL_COUNT * TAIL_COUNT };

typedef struct letter {
  uint32_t code;
  uint32_t order; /* 0: a letter of its own, else where it goes among what is put on one */
} letter;

static uint32_t order_of(const edgert_tokenizer *self, uint32_t code) {
  uint32_t low = 0, high = self->order_count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const text_order *it = &self->orders[middle];
    if (code < it->first)
      high = middle;
    else if (code > it->last)
      low = middle + 1;
    else
      return it->order;
  }
  return 0;
}

static const text_decomposition *decomposition_of(const edgert_tokenizer *self, uint32_t code) {
  uint32_t low = 0, high = self->decomposition_count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const text_decomposition *it = &self->decompositions[middle];
    if (code == it->code) return it;
    if (code < it->code)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

static edgert_status letters_add(const edgert_tokenizer *self, text_array *letters, uint32_t code,
                         edgert_error *error) {
  edgert_status status = text_array_reserve(&self->allocator, letters, 1, sizeof(letter), error);
  if (status == EDGERT_OK)
    ((letter *)letters->data)[letters->count++] = (letter){code, order_of(self, code)};
  return status;
}

static edgert_status decompose(const edgert_tokenizer *self, text_array *letters, uint32_t code,
                               edgert_error *error) {
  const text_decomposition *found = decomposition_of(self, code);
  edgert_status status = EDGERT_OK;
  if (found) {
    for (uint32_t i = 0; i < found->count && status == EDGERT_OK; ++i)
      status = letters_add(self, letters, self->decomposed[found->begin + i], error);
    return status;
  }
  if (code - HANGUL >= HANGUL_COUNT) return letters_add(self, letters, code, error);
  uint32_t index = code - HANGUL;
  status = letters_add(self, letters, LEADS + index / (VOWEL_COUNT * TAIL_COUNT), error);
  if (status == EDGERT_OK)
    status = letters_add(self, letters, VOWELS + index / TAIL_COUNT % VOWEL_COUNT, error);
  if (status == EDGERT_OK && index % TAIL_COUNT)
    status = letters_add(self, letters, TAILS + index % TAIL_COUNT, error);
  return status;
}

/* Order a run without a letter of its own by counting: equal ones stay as they were. */
static void order_run(letter *run, size_t count, letter *spare) {
  size_t places[257] = {0};
  for (size_t i = 0; i < count; ++i) ++places[(run[i].order & 255) + 1];
  for (size_t i = 1; i < 257; ++i) places[i] += places[i - 1];
  for (size_t i = 0; i < count; ++i) spare[places[run[i].order & 255]++] = run[i];
  memcpy(run, spare, count * sizeof *run);
}

static uint32_t composed(const edgert_tokenizer *self, uint32_t first, uint32_t second) {
  if (first - LEADS < LEAD_COUNT && second - VOWELS < VOWEL_COUNT)
    return HANGUL + ((first - LEADS) * VOWEL_COUNT + second - VOWELS) * TAIL_COUNT;
  if (first - HANGUL < HANGUL_COUNT && (first - HANGUL) % TAIL_COUNT == 0 &&
      second - TAILS - 1 < TAIL_COUNT - 1)
    return first + second - TAILS;
  uint32_t low = 0, high = self->composition_count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const text_composition *it = &self->compositions[middle];
    if (it->first == first && it->second == second) return it->made;
    if (it->first > first || (it->first == first && it->second > second))
      high = middle;
    else
      low = middle + 1;
  }
  return TEXT_NONE;
}

/* Compose in place; how many are left. */
static size_t compose(const edgert_tokenizer *self, letter *letters, size_t count) {
  size_t kept = 0, starter = SIZE_MAX;
  for (size_t i = 0; i < count; ++i) {
    /* What stands between a letter and this, and comes no sooner, is in the way. */
    int is_near = starter != SIZE_MAX && kept == starter + 1;
    int is_open = starter != SIZE_MAX && (is_near || letters[kept - 1].order < letters[i].order);
    uint32_t made = TEXT_NONE;
    if (is_open && (is_near || letters[kept - 1].order != 0))
      made = composed(self, letters[starter].code, letters[i].code);
    if (made != TEXT_NONE) {
      letters[starter].code = made;
      continue;
    }
    if (letters[i].order == 0) starter = kept;
    letters[kept++] = letters[i];
  }
  return kept;
}

edgert_status text_normalise(const edgert_tokenizer *self, const uint8_t *data, size_t size,
                             int is_composed, text_array *out, edgert_error *error) {
  size_t plain = 0;
  while (plain < size && data[plain] < 0x80) ++plain;
  if (plain == size) return text_bytes_add(&self->allocator, out, data, size, error);
  text_array letters = {0};
  letter *spare = NULL;
  edgert_status status = EDGERT_OK;
  for (size_t at = 0; at < size && status == EDGERT_OK; at += text_width(data[at]))
    status = decompose(self, &letters, text_code(data + at), error);
  if (status == EDGERT_OK)
    status = text_allocate(&self->allocator, letters.count, sizeof *spare, (void **)&spare, error);
  letter *all = letters.data;
  size_t count = letters.count;
  for (size_t i = 0; i < count && status == EDGERT_OK;) {
    size_t end = i + 1;
    while (all[i].order && end < count && all[end].order) ++end;
    if (end - i > 1) order_run(all + i, end - i, spare);
    i = end;
  }
  if (status == EDGERT_OK && is_composed) count = compose(self, all, count);
  for (size_t i = 0; i < count && status == EDGERT_OK; ++i) {
    uint8_t bytes[4];
    status = text_bytes_add(&self->allocator, out, bytes, text_put(all[i].code, bytes), error);
  }
  text_deallocate(&self->allocator, spare);
  text_deallocate(&self->allocator, letters.data);
  return status;
}
