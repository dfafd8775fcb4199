/* A text that grows: which of its tokens are read, and what it may go on with. */
#include "text.h"

size_t text_alike(const int32_t *one, size_t one_count, const int32_t *other, size_t other_count) {
  size_t count = 0;
  while (count < one_count && count < other_count && one[count] == other[count]) ++count;
  return count;
}

size_t text_window(const int32_t *tokens, size_t count, size_t context, size_t keep, int32_t *out) {
  size_t gone = 0;
  if (count > context) {
    if (keep > context / 2) keep = context / 2;
    const size_t half = (context - keep) / 2 ? (context - keep) / 2 : 1;
    gone = (count - context + half - 1) / half * half;
  } else {
    keep = 0;
  }
  if (keep) memcpy(out, tokens, keep * sizeof *out);
  memcpy(out + keep, tokens + keep + gone, (count - keep - gone) * sizeof *out);
  return count - gone;
}

size_t text_guess(const int32_t *tokens, size_t count, size_t most, size_t *out_place) {
  for (size_t size = 3; size >= 2; --size) {
    if (count <= size) continue;
    const int32_t *end = tokens + count - size;
    for (size_t place = count - 1; place >= size; --place) {
      if (memcmp(tokens + place - size, end, size * sizeof *end) != 0) continue;
      *out_place = place;
      return count - place < most ? count - place : most;
    }
  }
  return 0;
}
