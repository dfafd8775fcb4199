/* Any bytes as the form of a language model's text: texts that are hard on tokenizers are read with it,
 * tokens from the bytes written, a conversation is made a prompt. Now and then memory runs out. At the
 * end nothing may be held. */
#include <stdlib.h>
#include <string.h>

#include "edgert/edgert_text.h"
#include "fuzz.h"

typedef struct counter {
  long made, held, fail_at;
} counter;

static void *counted_allocate(void *user, size_t size, size_t alignment) {
  counter *self = user;
  if (self->made++ == self->fail_at) return NULL;
  void *memory = fuzz_allocator.allocate(NULL, size, alignment);
  self->held += memory != NULL;
  return memory;
}

static void counted_release(void *user, void *memory) {
  counter *self = user;
  --self->held;
  fuzz_allocator.release(NULL, memory);
}

/* As a module's attribute holds it. */
static char *letters_of(const uint8_t *data, size_t size, size_t *out_size) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = malloc(size / 3 * 4 + 8);
  size_t count = 0;
  if (text == NULL) abort();
  for (size_t i = 0; i < size; i += 3) {
    uint32_t three = (uint32_t)data[i] << 16;
    if (i + 1 < size) three |= (uint32_t)data[i + 1] << 8;
    if (i + 2 < size) three |= data[i + 2];
    size_t digits = size - i < 3 ? size - i + 1 : 4;
    for (size_t j = 0; j < digits; ++j) text[count++] = letters[three >> (18 - 6 * j) & 63];
  }
  *out_size = count;
  return text;
}

static void read_and_write(const edgert_tokenizer *tokenizer, const char *text, size_t size) {
  int32_t *tokens;
  size_t count, said_size;
  char *said;
  if (edgert_tokenizer_encode(tokenizer, text, size, 1, &tokens, &count, NULL) == EDGERT_OK &&
      edgert_tokenizer_decode(tokenizer, tokens, count, &said, &said_size, NULL) == EDGERT_OK) {
    if (strlen(said) > said_size) abort();
    edgert_tokenizer_free(tokenizer, said);
  }
  edgert_tokenizer_free(tokenizer, tokens);
}

static void stream(const edgert_tokenizer *tokenizer, const uint8_t *data, size_t size) {
  edgert_text_stream *made;
  const char *piece;
  size_t piece_size;
  if (edgert_text_stream_create(tokenizer, &made, NULL) != EDGERT_OK) return;
  for (size_t i = 0; i + 2 <= size && i < 64; i += 2)
    if (edgert_text_stream_add(made, (int32_t)(data[i] | (data[i + 1] & 7) << 8), &piece,
                               &piece_size, NULL) != EDGERT_OK)
      break;
  (void)!edgert_text_stream_end(made, &piece, &piece_size, NULL);
  edgert_text_stream_release(made);
}

void fuzz_text(const uint8_t *data, size_t size) {
  static const char *const texts[] = {
      "", "a", "Hello world, it's 12345  \n\n x\r\n", "<|im_start|>user\n \xC3\xA9 e\xCC\x81",
      "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8 \xF0\x9F\x99\x82\xE2\x96\x81 <0x41>", "\xFF\xC0 bad"};
  const edgert_text_message messages[] = {
      {"system", " be brief "}, {"user", "hi"}, {"assistant", "\n"}, {"user", "\xE3\x80\x80so"}};
  counter count = {0, 0, data[size - 1] % 2 ? -1 : data[size - 2] % 64};
  const edgert_allocator allocator = {&count, counted_allocate, counted_release};
  edgert_tokenizer *tokenizer;
  edgert_error error;
  size_t letter_count;
  char *letters = letters_of(data, size, &letter_count);
  if (edgert_tokenizer_parse(letters, letter_count, &allocator, &tokenizer, &error) == EDGERT_OK) {
    char *prompt;
    size_t prompt_size;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i)
      read_and_write(tokenizer, texts[i], strlen(texts[i]));
    read_and_write(tokenizer, (const char *)data, size < 48 ? size : 48);
    stream(tokenizer, data, size);
    for (size_t i = 0; i <= 4; ++i)
      if (edgert_tokenizer_prompt(tokenizer, messages + (i == 4), i == 4 ? 3 : i, &prompt,
                                  &prompt_size, &error) == EDGERT_OK)
        edgert_tokenizer_free(tokenizer, prompt);
    (void)edgert_tokenizer_stops(tokenizer, data[0]);
  }
  edgert_tokenizer_release(tokenizer);
  free(letters);
  if (count.held != 0) abort();
}
