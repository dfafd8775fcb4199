/* Tokens to text, one by one: bytes wait until they are a character, or cannot become one. */
#include "text.h"

static const uint8_t unreadable[3] = {0xEF, 0xBF, 0xBD}; /* U+FFFD */

struct edgert_text_stream {
  const edgert_tokenizer *tokenizer;
  text_array out;
  text_array held;    /* tokens of bytes that came one after the other and are not written yet */
  uint8_t pending[4]; /* the begin of a character */
  size_t pending_size;
  uint32_t stripped;
  int is_whole; /* all tokens are known: bytes of tokens are text together, or not at all */
};

static edgert_status stream_write(edgert_text_stream *self, const uint8_t *data, size_t size,
                           edgert_error *error) {
  while (size && self->stripped && *data == ' ') --self->stripped, ++data, --size;
  if (size) self->stripped = 0;
  return text_bytes_add(&self->tokenizer->allocator, &self->out, data, size, error);
}

/* Whether the bytes may be the begin of a character. */
static int may_go_on(const uint8_t *data, size_t size) {
  uint8_t whole[4] = {data[0], 0, 0, 0};
  if (data[0] < 0xC2 || data[0] > 0xF4) return 0;
  size_t width = text_width(data[0]);
  if (size >= width) return 0;
  /* Any end will do: the one that all second bytes allow, if the second is not there yet. */
  whole[1] = data[0] == 0xE0 ? 0xA0 : data[0] == 0xF0 ? 0x90 : 0x80;
  whole[2] = whole[3] = 0x80;
  memcpy(whole, data, size);
  return text_valid(whole, width) == width;
}

/* A byte of text, whose characters may be cut by tokens. */
static edgert_status stream_take(edgert_text_stream *self, uint8_t byte, edgert_error *error) {
  edgert_status status = EDGERT_OK;
  for (int again = 1; again && status == EDGERT_OK;) {
    again = 0;
    self->pending[self->pending_size++] = byte;
    if (text_valid(self->pending, self->pending_size) == self->pending_size) {
      status = stream_write(self, self->pending, self->pending_size, error);
      self->pending_size = 0;
    } else if (!may_go_on(self->pending, self->pending_size)) {
      again = self->pending_size > 1; /* the byte that does not fit begins anew */
      self->pending_size = 0;
      status = stream_write(self, unreadable, sizeof unreadable, error);
    }
  }
  return status;
}

/* Write what waits, as what cannot be read: one sign for all of it, or for each byte. */
static edgert_status give_up(edgert_text_stream *self, int each, edgert_error *error) {
  edgert_status status = EDGERT_OK;
  size_t signs = each ? self->pending_size : self->pending_size > 0;
  for (size_t i = 0; i < signs && status == EDGERT_OK; ++i)
    status = stream_write(self, unreadable, sizeof unreadable, error);
  self->pending_size = 0;
  return status;
}

/* The tokens of bytes came to an end: together they are text, or each of them is none. */
static edgert_status end_bytes(edgert_text_stream *self, edgert_error *error) {
  if (!self->is_whole) return give_up(self, 1, error);
  const uint8_t *data = self->held.data;
  size_t size = self->held.count;
  edgert_status status = EDGERT_OK;
  if (text_valid(data, size) == size) {
    status = stream_write(self, data, size, error);
  } else {
    for (size_t i = 0; i < size && status == EDGERT_OK; ++i)
      status = stream_write(self, unreadable, sizeof unreadable, error);
  }
  self->held.count = 0;
  return status;
}

static int hex_value(uint8_t letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* The byte of a token such as "<0xAB>", or -1. */
static int byte_of(const uint8_t *data, size_t size) {
  if (size != 6 || memcmp(data, "<0x", 3) != 0 || data[5] != '>') return -1;
  int high = hex_value(data[3]), low = hex_value(data[4]);
  return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static edgert_status take_token(edgert_text_stream *self, const uint8_t *data, size_t size,
                                edgert_error *error) {
  const edgert_tokenizer *tokenizer = self->tokenizer;
  int byte = tokenizer->decodes_bytes ? byte_of(data, size) : -1;
  if (byte >= 0 && self->is_whole) {
    uint8_t one = (uint8_t)byte;
    return text_bytes_add(&tokenizer->allocator, &self->held, &one, 1, error);
  }
  if (byte >= 0) return stream_take(self, (uint8_t)byte, error);
  edgert_status status = tokenizer->decodes_bytes ? end_bytes(self, error) : EDGERT_OK;
  const text_string *from = &tokenizer->written_from, *to = &tokenizer->written_to;
  for (size_t at = 0; at < size && status == EDGERT_OK;) {
    if (from->size && from->size <= size - at && memcmp(data + at, from->data, from->size) == 0) {
      for (size_t i = 0; i < to->size && status == EDGERT_OK; ++i)
        status = stream_take(self, to->data[i], error);
      at += from->size;
    } else {
      status = stream_take(self, data[at++], error);
    }
  }
  return status;
}

edgert_status edgert_text_stream_create(const edgert_tokenizer *tokenizer,
                                        edgert_text_stream **out_stream, edgert_error *error) {
  edgert_status status =
      text_allocate(&tokenizer->allocator, 1, sizeof **out_stream, (void **)out_stream, error);
  if (status != EDGERT_OK) return status;
  (*out_stream)->tokenizer = tokenizer;
  (*out_stream)->stripped = tokenizer->stripped;
  return EDGERT_OK;
}

void edgert_text_stream_release(edgert_text_stream *self) {
  if (!self) return;
  const edgert_allocator *allocator = &self->tokenizer->allocator;
  text_deallocate(allocator, self->out.data);
  text_deallocate(allocator, self->held.data);
  text_deallocate(allocator, self);
}

/* A token behind what was written. */
static edgert_status stream_put(edgert_text_stream *self, int32_t token, edgert_error *error) {
  const edgert_tokenizer *tokenizer = self->tokenizer;
  if (token < 0 || (uint32_t)token >= tokenizer->token_count) return EDGERT_OK;
  const text_token *it = &tokenizer->tokens[token];
  if (it->special || it->size == 0) return EDGERT_OK;
  return take_token(self, tokenizer->form + it->begin, it->size, error);
}

static edgert_status stream_finish(edgert_text_stream *self, edgert_error *error) {
  edgert_status status = EDGERT_OK;
  if (self->tokenizer->decodes_bytes) status = end_bytes(self, error);
  if (status == EDGERT_OK) status = give_up(self, 0, error);
  return status;
}

edgert_status edgert_text_stream_add(edgert_text_stream *self, int32_t token,
                                     const char **out_piece, size_t *out_size,
                                     edgert_error *error) {
  self->out.count = 0;
  edgert_status status = stream_put(self, token, error);
  *out_piece = status == EDGERT_OK && self->out.count ? self->out.data : "";
  *out_size = status == EDGERT_OK ? self->out.count : 0;
  return status;
}

edgert_status edgert_text_stream_end(edgert_text_stream *self, const char **out_piece,
                                     size_t *out_size, edgert_error *error) {
  self->out.count = 0;
  edgert_status status = stream_finish(self, error);
  self->stripped = self->tokenizer->stripped;
  *out_piece = status == EDGERT_OK && self->out.count ? self->out.data : "";
  *out_size = status == EDGERT_OK ? self->out.count : 0;
  return status;
}

edgert_status edgert_tokenizer_decode(const edgert_tokenizer *tokenizer, const int32_t *tokens,
                                      size_t count, char **out_text, size_t *out_size,
                                      edgert_error *error) {
  edgert_text_stream *stream;
  *out_text = NULL;
  *out_size = 0;
  edgert_status status = edgert_text_stream_create(tokenizer, &stream, error);
  if (status != EDGERT_OK) return status;
  stream->is_whole = 1;
  for (size_t i = 0; i < count && status == EDGERT_OK; ++i) status = stream_put(stream, tokens[i], error);
  if (status == EDGERT_OK) status = stream_finish(stream, error);
  if (status == EDGERT_OK) status = text_bytes_add(&tokenizer->allocator, &stream->out, "", 1, error);
  if (status == EDGERT_OK) {
    *out_text = stream->out.data;
    *out_size = stream->out.count - 1;
    stream->out.data = NULL;
  }
  edgert_text_stream_release(stream);
  return status;
}
