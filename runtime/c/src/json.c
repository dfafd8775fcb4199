#include "json.h"

#include <string.h>

edgert_json edgert_json_begin(const char *data, size_t size) {
  return (edgert_json){data, data + size, 0};
}

char edgert_json_peek(edgert_json *self) {
  while (!self->broken && self->at < self->end && *self->at && strchr(" \t\r\n", *self->at))
    ++self->at;
  return self->broken || self->at >= self->end ? 0 : *self->at;
}

static int json_take(edgert_json *self, char letter) {
  if (edgert_json_peek(self) == letter) {
    ++self->at;
    return 1;
  }
  self->broken = 1;
  return 0;
}

/* Into the next member of something between brackets; 0 behind the last. */
static int json_next(edgert_json *self, edgert_json_scope *scope, char open, char close) {
  if (!scope->entered) {
    scope->entered = 1;
    if (!json_take(self, open)) return 0;
  }
  if (edgert_json_peek(self) == close) {
    ++self->at;
    return 0;
  }
  if (scope->count++ && !json_take(self, ',')) return 0;
  if (edgert_json_peek(self) == 0) self->broken = 1;
  return !self->broken;
}

int edgert_json_member(edgert_json *self, edgert_json_scope *scope, edgert_text *out_key) {
  if (!json_next(self, scope, '{', '}')) return 0;
  *out_key = edgert_json_string(self);
  return json_take(self, ':') && edgert_json_peek(self) != 0;
}

int edgert_json_element(edgert_json *self, edgert_json_scope *scope) {
  return json_next(self, scope, '[', ']');
}

edgert_text edgert_json_string(edgert_json *self) {
  const edgert_text none = {"", 0};
  if (!json_take(self, '"')) return none;
  const char *start = self->at;
  while (self->at < self->end && *self->at != '"')
    self->at += *self->at == '\\' && self->at + 1 < self->end ? 2 : 1;
  if (self->at >= self->end) {
    self->broken = 1;
    return none;
  }
  return (edgert_text){start, (size_t)(self->at++ - start)};
}

int64_t edgert_json_integer(edgert_json *self) {
  int negative = edgert_json_peek(self) == '-';
  if (negative) ++self->at;
  uint64_t value = 0;
  const char *start = self->at;
  for (; self->at < self->end && *self->at >= '0' && *self->at <= '9'; ++self->at) {
    if (value > (uint64_t)INT64_MAX / 10 - 1) self->broken = 1;
    value = value * 10 + (uint64_t)(*self->at - '0');
    if (self->broken) return 0;
  }
  if (self->at == start) self->broken = 1;
  return negative ? -(int64_t)value : (int64_t)value;
}

void edgert_json_skip(edgert_json *self) {
  size_t depth = 0;
  do {
    char letter = edgert_json_peek(self);
    if (letter == 0) {
      self->broken = 1;
    } else if (letter == '"') {
      edgert_json_string(self);
    } else if (letter == '{' || letter == '[') {
      ++depth;
      ++self->at;
    } else if (letter == '}' || letter == ']') {
      if (depth == 0) self->broken = 1;
      --depth;
      ++self->at;
    } else if (letter == ',' || letter == ':') {
      if (depth == 0) self->broken = 1;
      ++self->at;
    } else {
      while (self->at < self->end && *self->at && !strchr(" \t\r\n,:]}[{\"", *self->at)) ++self->at;
      if (self->at < self->end && *self->at == 0) self->broken = 1;
    }
  } while (depth && !self->broken);
}

static uint32_t json_hex(const char *at, const char *end) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    char c = at + i < end ? at[i] : '0';
    uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                     : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                     : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                            : 0;
    value = value << 4 | digit;
  }
  return value;
}

/* A code point as UTF-8, its length. */
static size_t json_encode(uint32_t code, char out[4]) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  size_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
  for (size_t i = more; i > 0; --i, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
  out[0] = (char)(lead[more] | code);
  return more + 1;
}

size_t edgert_json_decode(edgert_text text, char *out, size_t size) {
  size_t length = 0;
  const char *end = text.data + text.size;
  for (const char *at = text.data; at < end;) {
    char piece[4] = {*at++, 0, 0, 0};
    size_t piece_size = 1;
    if (piece[0] == '\\' && at < end) {
      static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
      char escape = *at++;
      const char *found = escape ? strchr(letters, escape) : NULL;
      piece[0] = found ? meanings[found - letters] : escape;
      if (escape == 'u') {
        uint32_t code = json_hex(at, end);
        at = end - at < 4 ? end : at + 4;
        if (code >= 0xD800 && code < 0xDC00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
          code = 0x10000 + ((code - 0xD800) << 10) + ((json_hex(at + 2, end) - 0xDC00) & 0x3FF);
          at += 6;
        }
        piece_size = json_encode(code, piece);
      }
    }
    if (length + piece_size >= size) {
      /* Nothing of a character that does not fit. */
      if ((piece[0] & 0xC0) == 0x80) {
        while (length && (out[length - 1] & 0xC0) == 0x80) --length;
        if (length) --length;
      }
      break;
    }
    memcpy(out + length, piece, piece_size);
    length += piece_size;
  }
  if (size) out[length] = 0;
  return length;
}
