#include "convention.h"

#include <string.h>

static int convention_codes(const char *data, size_t size, int spans, edgert_codes *out,
                            int *out_spans) {
  if (size == 1 && data[0] == 'v') size = 0;
  int inside = 0;
  for (size_t i = 0; i < size; ++i) {
    char code = data[i];
    if (code == 'C') {
      if (!spans || inside || i + 1 >= size || data[i + 1] == 'D') return 0;
      inside = 1;
      *out_spans = 1;
    } else if (code == 'D') {
      if (!inside) return 0;
      inside = 0;
    } else if (code == 0 || !strchr("iIfFr", code)) {
      return 0;
    }
  }
  if (inside || size > UINT16_MAX) return 0;
  out->data = data;
  out->count = (uint32_t)size;
  return 1;
}

int edgert_convention_parse(edgert_text text, edgert_convention *out) {
  memset(out, 0, sizeof *out);
  const char *data = text.data;
  size_t size = text.size;
  if (size && data[0] == '0') ++data, --size;
  const char *middle = size ? memchr(data, '_', size) : NULL;
  size_t before = middle ? (size_t)(middle - data) : size;
  if (!convention_codes(data, before, 1, &out->arguments, &out->has_spans)) return 0;
  if (!middle) {
    out->results.data = data + size;
    return 1;
  }
  return convention_codes(middle + 1, size - before - 1, 0, &out->results, &out->has_spans);
}

void edgert_codes_registers(edgert_codes codes, uint32_t *out_words, uint32_t *out_refs) {
  uint32_t words = 0, refs = 0;
  for (uint32_t i = 0; i < codes.count; ++i) switch (codes.data[i]) {
      case 'r':
        refs += 1;
        break;
      case 'I':
      case 'F':
        words = ((words + 1) & ~1u) + 2;
        break;
      default:
        words += 1;
    }
  *out_words = words;
  *out_refs = refs;
}
