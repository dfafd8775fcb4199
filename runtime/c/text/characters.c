#include "text.h"

int text_class_has(const text_class *self, uint32_t code) {
  if (code < 128) return (int)(self->ascii[code / 32] >> code % 32 & 1);
  uint32_t low = 0, high = self->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (code < self->ranges[2 * middle])
      high = middle;
    else if (code > self->ranges[2 * middle + 1])
      low = middle + 1;
    else
      return 1;
  }
  return 0;
}

size_t text_valid(const uint8_t *data, size_t size) {
  size_t at = 0;
  while (at < size) {
    uint8_t lead = data[at];
    if (lead < 0x80) {
      ++at;
      continue;
    }
    if (lead < 0xC2 || lead > 0xF4 || text_width(lead) > size - at) return at;
    /* Nothing longer than it has to be, no halves of pairs, nothing beyond the last character. */
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (data[at + 1] < low || data[at + 1] > high) return at;
    for (size_t i = 2; i < text_width(lead); ++i)
      if ((data[at + i] & 0xC0) != 0x80) return at;
    at += text_width(lead);
  }
  return size;
}

uint32_t text_code(const uint8_t *at) {
  uint32_t lead = at[0];
  if (lead < 0x80) return lead;
  if (lead < 0xE0) return (lead & 0x1F) << 6 | (at[1] & 0x3Fu);
  if (lead < 0xF0) return (lead & 0x0F) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
  return (lead & 0x07) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 | (at[3] & 0x3Fu);
}

size_t text_put(uint32_t code, uint8_t out[4]) {
  if (code < 0x80) {
    out[0] = (uint8_t)code;
    return 1;
  }
  size_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const uint8_t leads[] = {0, 0xC0, 0xE0, 0xF0};
  for (size_t i = more; i > 0; --i, code >>= 6) out[i] = (uint8_t)(0x80 | (code & 0x3F));
  out[0] = (uint8_t)(leads[more] | code);
  return more + 1;
}
