/* Asks a tiny language model what an app may ask, and looks whether it does as the header says: prints
 * a drawn text, some that slide past the context, with guesses and held to some tokens, a line each,
 * and fails where something else is off.
 *
 *     text_model MODULE SAVED OTHER
 *
 * SAVED is what Python had read of "Once upon a time"; it becomes what C has. OTHER is what another
 * model of the same shapes had read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edgert/edgert_text.h"

static int problems = 0;

static void expect(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  problems += 1;
}

static int print(void *user, const char *piece, size_t size) {
  (void)user;
  return fwrite(piece, 1, size, stdout) == size;
}

static int count_calls(void *user, const char *piece, size_t size) {
  (void)piece, (void)size;
  *(int *)user += 1;
  return 1;
}

static int stop_at_once(void *user, const char *piece, size_t size) {
  (void)user, (void)piece;
  return size == 0;
}

static int interrupt(void *user, const char *piece, size_t size) {
  (void)piece;
  if (size) edgert_text_interrupt(user);
  return 1;
}

static void ask(edgert_text_model *model) {
  const edgert_tokenizer *tokenizer = edgert_text_model_tokenizer(model);
  edgert_text_options options = {.size = sizeof options, .limit = 12};
  edgert_text_stats stats = {.size = sizeof stats};
  edgert_error error;
  int calls = 0;

  options.temperature = 1.5f, options.top_k = 40, options.top_p = 0.9f, options.seed = 3;
  expect(edgert_text_generate(model, "Once", 4, &options, print, NULL, &stats, NULL) == EDGERT_OK,
         "a text is drawn");
  expect(stats.prompt == 4 && stats.reused == 0, "what it took is told");

  options = (edgert_text_options){.size = sizeof options, .limit = 3};
  expect(edgert_text_generate(model, "Once", 4, &options, count_calls, &calls, &stats, NULL) ==
             EDGERT_OK,
         "a short text");
  expect(stats.finish == EDGERT_TEXT_STOP || (stats.finish == EDGERT_TEXT_LIMIT && stats.tokens == 3),
         "a limit is kept");
  expect(stats.reused == 3, "what is known is not read again");
  expect(calls >= 1, "the caller is told that the prompt has been read");

  options.limit = 0;
  expect(edgert_text_generate(model, "Once", 4, &options, stop_at_once, NULL, &stats, NULL) ==
                 EDGERT_OK &&
             stats.finish == EDGERT_TEXT_BROKEN_OFF,
         "a caller breaks an answer off");
  expect(edgert_text_generate(model, "Once", 4, NULL, interrupt, model, &stats, &error) ==
             EDGERT_CANCELLED,
         "an answer is interrupted");
  expect(edgert_text_generate(model, "Once", 4, NULL, NULL, NULL, &stats, NULL) == EDGERT_OK,
         "and the model can be asked again");
  expect(stats.finish == EDGERT_TEXT_CONTEXT || stats.finish == EDGERT_TEXT_STOP,
         "the context ends an answer");

  char many[200];
  memset(many, 'a', sizeof many);
  expect(edgert_text_generate(model, many, sizeof many, NULL, NULL, NULL, NULL, &error) ==
             EDGERT_INVALID_ARGUMENT,
         "a prompt is too long");
  expect(strstr(error.message, "than the context holds, 120") != NULL, "and says so");
  expect(edgert_text_generate(model, "", 0, NULL, NULL, NULL, NULL, NULL) == EDGERT_INVALID_ARGUMENT,
         "a prompt is empty");
  expect(edgert_text_generate(model, "\xFF", 1, NULL, NULL, NULL, NULL, &error) ==
             EDGERT_INVALID_ARGUMENT,
         "a prompt is no UTF-8");
  const int32_t unknown[] = {5, 100000};
  expect(edgert_text_generate_from(model, unknown, 2, NULL, NULL, NULL, NULL, NULL) ==
             EDGERT_INVALID_ARGUMENT,
         "a token is unknown");
  const edgert_text_options without_size = {.limit = 3}, wrong = {.size = sizeof wrong, .top_p = 2};
  expect(edgert_text_generate(model, "a", 1, &without_size, NULL, NULL, NULL, NULL) ==
             EDGERT_INVALID_ARGUMENT,
         "options have no size");
  expect(edgert_text_generate(model, "a", 1, &wrong, NULL, NULL, NULL, NULL) ==
             EDGERT_INVALID_ARGUMENT,
         "an option is out of range");
  expect(edgert_tokenizer_context(tokenizer) == 120 && edgert_tokenizer_prefill(tokenizer, 0) == 8 &&
             edgert_tokenizer_prefill(tokenizer, 1) == 24 &&
             edgert_tokenizer_prefill(tokenizer, 2) == 0 &&
             edgert_tokenizer_chunk(tokenizer, 12) == 8 && edgert_tokenizer_chunk(tokenizer, 13) == 24,
         "the model's sizes are known");
}

/* A text that outgrows the context, and one that repeats itself, with guesses and without. */
static void go_on(edgert_text_model *model) {
  edgert_text_options options = {.size = sizeof options, .limit = 70, .when_full = EDGERT_TEXT_SLIDE};
  edgert_text_stats stats = {.size = sizeof stats};
  int32_t tokens[300];
  for (int i = 0; i < 300; ++i) tokens[i] = i * 7 % 250;
  options.keep = 7;
  putchar('\n');
  expect(edgert_text_generate_from(model, tokens, 114, &options, print, NULL, &stats, NULL) ==
                 EDGERT_OK &&
             stats.tokens == 70 && stats.finish == EDGERT_TEXT_LIMIT,
         "a text slides");
  options.limit = 1, options.keep = 0;
  expect(edgert_text_generate_from(model, tokens, 300, &options, NULL, NULL, &stats, NULL) ==
             EDGERT_OK,
         "a prompt slides at once");
  options.when_full = 2;
  expect(edgert_text_generate_from(model, tokens, 9, &options, NULL, NULL, NULL, NULL) ==
             EDGERT_INVALID_ARGUMENT,
         "there is nothing else that becomes of it");
  for (int without = 0; without < 2; ++without) {
    options = (edgert_text_options){.size = sizeof options, .limit = 60, .without_guesses = without};
    putchar('\n');
    expect(edgert_text_generate(model, "abcabcabc", 9, &options, print, NULL, &stats, NULL) == EDGERT_OK,
           "a text with guesses");
  }
  const edgert_text_message said[] = {{"system", "Be brief."}, {"user", "What?"}};
  options = (edgert_text_options){.size = sizeof options, .limit = 90, .when_full = EDGERT_TEXT_SLIDE};
  putchar('\n');
  expect(edgert_text_chat(model, said, 2, &options, print, NULL, &stats, NULL) == EDGERT_OK,
         "a conversation slides");
}

/* Allows digits alone, and no more than five tokens. */
static int five_digits(void *user, int32_t last, uint32_t *mask, size_t words) {
  int *calls = user;
  expect(words == 10, "the mask is as large as the vocabulary");
  expect((last < 0) == (*calls == 0), "the newest token is told");
  for (uint32_t token = 15; token < 25; ++token) mask[token / 32] |= 1u << token % 32; /* 0 to 9 */
  return (*calls)++ < 5;
}

static int everything(void *user, int32_t last, uint32_t *mask, size_t words) {
  (void)user, (void)last;
  memset(mask, 0xFF, words * sizeof *mask);
  return 1;
}

static void hold(edgert_text_model *model) {
  edgert_text_options options = {.size = sizeof options, .limit = 60, .allow = everything};
  edgert_text_stats stats = {.size = sizeof stats};
  int calls = 0;
  putchar('\n');
  expect(edgert_text_generate(model, "abcabcabc", 9, &options, print, NULL, &stats, NULL) == EDGERT_OK,
         "all tokens are allowed");
  options.allow = five_digits, options.allow_user = &calls;
  putchar('\n');
  expect(edgert_text_generate(model, "Once", 4, &options, print, NULL, &stats, NULL) == EDGERT_OK &&
             stats.tokens == 5 && stats.finish == EDGERT_TEXT_STOP,
         "an answer is held to what is allowed");
}

/* Any damage is found, and what was known is known still. */
static void damage(edgert_text_model *model, const uint8_t *data, size_t size) {
  edgert_text_options options = {.size = sizeof options, .limit = 1};
  edgert_text_stats stats = {.size = sizeof stats};
  edgert_error error;
  uint8_t *wrong = malloc(size + 1);
  memcpy(wrong, data, size);
  wrong[size] = 0;
  for (size_t shorter = 0; shorter < size; shorter += shorter < 200 ? 1 : 997)
    expect(edgert_text_restore(model, wrong, shorter, NULL) == EDGERT_INVALID_ARGUMENT,
           "saved bytes are cut short");
  expect(edgert_text_restore(model, wrong, size + 1, NULL) == EDGERT_INVALID_ARGUMENT,
         "saved bytes are too many");
  for (size_t at = 0; at < size; at += 331) {
    wrong[at] ^= 4;
    expect(edgert_text_restore(model, wrong, size, &error) == EDGERT_INVALID_ARGUMENT &&
               strstr(error.message, "damaged"),
           "saved bytes have changed");
    wrong[at] ^= 4;
  }
  free(wrong);
  expect(edgert_text_generate(model, "Once upon a time", 16, &options, NULL, NULL, &stats, NULL) ==
                 EDGERT_OK &&
             stats.reused == 15,
         "what was known is known still");
}

/* What Python had read is known, what is saved here is known again, and written for Python. */
static void keep(edgert_text_model *model, const char *path) {
  edgert_text_options options = {.size = sizeof options, .limit = 8};
  edgert_text_stats stats = {.size = sizeof stats};
  edgert_error error = {EDGERT_OK, ""};
  static uint8_t data[1 << 20];
  void *saved = NULL;
  size_t size = 0;
  FILE *file = fopen(path, "rb");
  if (file) size = fread(data, 1, sizeof data, file), fclose(file);
  expect(edgert_text_restore(model, data, size, &error) == EDGERT_OK, error.message);
  putchar('\n');
  expect(edgert_text_generate(model, "Once upon a time", 16, &options, print, NULL, &stats, NULL) ==
                 EDGERT_OK &&
             stats.reused == 15,
         "what Python has read is known");
  expect(edgert_text_save(model, &saved, &size, &error) == EDGERT_OK, error.message);
  damage(model, saved, size);
  expect(edgert_text_generate(model, "Another", 7, &options, NULL, NULL, NULL, NULL) == EDGERT_OK,
         "another text");
  expect(edgert_text_restore(model, saved, size, &error) == EDGERT_OK, error.message);
  expect(edgert_text_generate(model, "Once upon a time", 16, &options, NULL, NULL, &stats, NULL) ==
                 EDGERT_OK &&
             stats.reused == 15,
         "what was saved is known");
  file = fopen(path, "wb");
  expect(file && fwrite(saved, 1, size, file) == size && fclose(file) == 0, "bytes are written");
  edgert_text_free(model, saved);
}

/* What another model has read is refused, and what was known is known still. */
static void refuse(edgert_text_model *model, const char *path) {
  edgert_text_options options = {.size = sizeof options, .limit = 1};
  edgert_text_stats stats = {.size = sizeof stats};
  edgert_error error = {EDGERT_OK, ""};
  static uint8_t data[1 << 20];
  size_t size = 0;
  FILE *file = fopen(path, "rb");
  if (file) size = fread(data, 1, sizeof data, file), fclose(file);
  expect(size > 0 && edgert_text_restore(model, data, size, &error) == EDGERT_INVALID_ARGUMENT &&
             strstr(error.message, "another model"),
         "what another model has read is refused");
  expect(edgert_text_generate(model, "Once upon a time", 16, &options, NULL, NULL, &stats, NULL) ==
                 EDGERT_OK &&
             stats.reused == 15,
         "and what was known is known still");
}

int main(int count, char **words) {
  edgert_error error;
  edgert_device *device = NULL;
  edgert_module *module = NULL;
  edgert_session *session = NULL;
  edgert_text_model *model = NULL;
  if (count != 4 || edgert_device_create("cpu", NULL, &device, &error) ||
      edgert_module_open(words[1], NULL, &module, &error) ||
      edgert_session_create(module, device, NULL, &session, &error) ||
      edgert_text_model_create(module, session, device, NULL, &model, &error)) {
    fprintf(stderr, "%s\n", count == 4 ? error.message : "text_model MODULE SAVED OTHER");
    return 2;
  }
  ask(model);
  go_on(model);
  hold(model);
  keep(model, words[2]);
  refuse(model, words[3]);
  edgert_session_release(session);
  edgert_module_release(module);
  edgert_device_release(device);
  edgert_text_model_release(model);
  return problems != 0;
}
