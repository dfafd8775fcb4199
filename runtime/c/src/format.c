#include "format.h"

#include <stdint.h>
#include <string.h>

typedef struct format_place {
  char *at;
  char *end; /* where the last 0 may be */
} format_place;

static void format_put(format_place *place, const char *text, size_t size) {
  if (size > (size_t)(place->end - place->at)) {
    /* No part of a letter, and nothing behind it. */
    size = (size_t)(place->end - place->at);
    while (size && (text[size] & 0xC0) == 0x80) --size;
    place->end = place->at + size;
  }
  memcpy(place->at, text, size);
  place->at += size;
}

static void format_number(format_place *place, uint64_t value, unsigned base, unsigned least) {
  char digits[20];
  char *first = digits + sizeof digits;
  for (; value || least || first == digits + sizeof digits; value /= base) {
    *--first = "0123456789abcdef"[value % base];
    least -= least > 0;
  }
  format_put(place, first, (size_t)(digits + sizeof digits - first));
}

size_t edgert_format_list(char *out, size_t size, const char *pattern, va_list values) {
  format_place place = {out, out + size - 1};
  for (; *pattern; ++pattern) {
    if (*pattern != '%') {
      format_put(&place, pattern, 1);
      continue;
    }
    unsigned least = 0;
    int most = -1, is_long = 0;
    if (pattern[1] == '.') most = va_arg(values, int), pattern += 2; /* "%.*" */
    if (pattern[1] == '0') least = (unsigned)(pattern[2] - '0'), pattern += 2;
    if (pattern[1] == 'l') is_long = 1, pattern += 2;
    if (*++pattern == 's') {
      const char *text = va_arg(values, const char *);
      const char *end = most < 0 ? NULL : memchr(text, 0, (size_t)most);
      format_put(&place, text, most >= 0 && !end ? (size_t)most : strlen(text));
      continue;
    }
    uint64_t value = is_long ? va_arg(values, unsigned long long) : va_arg(values, unsigned);
    if (*pattern == 'd') {
      int64_t number = is_long ? (int64_t)value : (int64_t)(int32_t)value;
      if (number < 0) format_put(&place, "-", 1);
      value = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    }
    format_number(&place, value, *pattern == 'x' ? 16 : 10, least);
  }
  *place.at = 0;
  return (size_t)(place.at - out);
}

size_t edgert_format(char *out, size_t size, const char *pattern, ...) {
  va_list values;
  va_start(values, pattern);
  size_t length = edgert_format_list(out, size, pattern, values);
  va_end(values);
  return length;
}
