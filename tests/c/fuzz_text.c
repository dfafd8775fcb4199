/* Any bytes as the form of a language model's text: texts that are hard on tokenizers are read with it,
 * tokens from the bytes written, a conversation is made a prompt. And any bytes as what a language model
 * has read, for a module by hand (`saved_text.py`): what is taken is saved and taken again, and the model
 * goes on from there. Now and then memory runs out. At the end nothing may be held. */
#include <stdlib.h>
#include <string.h>

#include "edgert/edgert_text.h"
#include "fuzz.h"
#include "fuzz_saved_model.h" /* `fuzzing.py` writes it: the module, as `saved_model` */

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

/* --- what a language model has read --------------------------------------------------------------- */

enum { SUM_AT = 8, SUMMED = 12 };

/* Write the checksum of all behind it, in little endian. */
static void make_sum_right(uint8_t *data, size_t size) {
  uint32_t sum = ~0u;
  for (size_t i = SUMMED; i < size; ++i) {
    sum ^= data[i];
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
  }
  for (int i = 0; i < 4; ++i) data[SUM_AT + i] = (uint8_t)(~sum >> 8 * i);
}

/* What was taken is saved, taken again and saved as the same bytes. */
static void save_again(edgert_text_model *model) {
  void *first, *second;
  size_t first_size, second_size;
  if (edgert_text_save(model, &first, &first_size, NULL) == EDGERT_OK &&
      edgert_text_restore(model, first, first_size, NULL) == EDGERT_OK &&
      edgert_text_save(model, &second, &second_size, NULL) == EDGERT_OK) {
    if (first_size != second_size || memcmp(first, second, first_size) != 0) abort();
    edgert_text_free(model, second);
  }
  edgert_text_free(model, first);
}

void fuzz_saved(const uint8_t *data, size_t size) {
  static edgert_device *device;
  static edgert_module *module;
  static edgert_session *session;
  const edgert_device_options options = {
      .size = sizeof options, .threads = 1, .allocator = fuzz_allocator};
  const edgert_text_options asked = {.size = sizeof asked, .limit = 3};
  counter count = {0, 0, -1};
  const edgert_allocator allocator = {&count, counted_allocate, counted_release};
  edgert_text_model *model;
  if (session == NULL && (edgert_device_create("cpu", &options, &device, NULL) != EDGERT_OK ||
                          edgert_module_wrap(saved_model, sizeof saved_model, NULL, NULL, NULL,
                                             &module, NULL) != EDGERT_OK ||
                          edgert_session_create(module, device, NULL, &session, NULL) != EDGERT_OK))
    abort();
  if (edgert_text_model_create(module, session, device, &allocator, &model, NULL) != EDGERT_OK)
    abort();
  uint8_t *copy = malloc(size);
  if (copy == NULL) abort();
  memcpy(copy, data, size);
  (void)!edgert_text_restore(model, copy, size, NULL);
  make_sum_right(copy, size);
  if (data[size - 1] % 4 == 0) count.fail_at = count.made + data[size - 2] % 32;
  if (edgert_text_restore(model, copy, size, NULL) == EDGERT_OK) save_again(model);
  (void)!edgert_text_generate(model, "abc", 3, &asked, NULL, NULL, NULL, NULL);
  free(copy);
  edgert_text_model_release(model);
  if (count.held != 0) abort();
}
