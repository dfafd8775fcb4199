/* A conversation with a language model, in a program of C.
 *
 *     chat MODULE [--weights=FILE] [--threads=N] [--limit=N] [--temperature=T] [--slide] [QUESTION]
 *
 * Answers one question, or each line of the input as one conversation. What is said is written as
 * it comes; what it took, behind it to the error output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "edgert/edgert_text.h"

enum { MOST_MESSAGES = 64, LONGEST_LINE = 4096 };

typedef struct chat {
  edgert_text_model *model;
  edgert_text_options options;
  edgert_text_message messages[MOST_MESSAGES];
  size_t count;
  char *answer; /* what is being written */
  size_t answer_size;
  double first; /* when the prompt had been read */
} chat;

static double now(void) {
  struct timespec time;
  return timespec_get(&time, TIME_UTC) ? (double)time.tv_sec + 1e-9 * (double)time.tv_nsec : 0;
}

/* Written as it comes, and kept for the next question. */
static int say(void *user, const char *piece, size_t size) {
  chat *self = user;
  if (size == 0) {
    self->first = now();
    return 1;
  }
  char *grown = realloc(self->answer, self->answer_size + size + 1);
  if (grown == NULL) return 0;
  self->answer = grown;
  memcpy(grown + self->answer_size, piece, size);
  self->answer_size += size;
  grown[self->answer_size] = 0;
  return fwrite(piece, 1, size, stdout) == size && fflush(stdout) == 0;
}

static char *copy_of(const char *text) {
  char *copy = malloc(strlen(text) + 1);
  if (copy != NULL) strcpy(copy, text);
  return copy;
}

/* Answer a question; both become part of the conversation. */
static edgert_status answer(chat *self, const char *question, edgert_error *error) {
  edgert_text_stats stats = {.size = sizeof stats};
  char *asked = copy_of(question);
  if (asked == NULL || self->count + 2 > MOST_MESSAGES) {
    free(asked);
    fprintf(stderr, "the conversation is too long\n");
    return EDGERT_LIMIT;
  }
  self->messages[self->count++] = (edgert_text_message){"user", asked};
  double began = now();
  edgert_status status = edgert_text_chat(self->model, self->messages, self->count, &self->options,
                                          say, self, &stats, error);
  double ended = now();
  char *said = self->answer ? self->answer : copy_of("");
  self->answer = NULL;
  self->answer_size = 0;
  if (status != EDGERT_OK || said == NULL) {
    free(said);
    return status == EDGERT_OK ? EDGERT_OUT_OF_MEMORY : status;
  }
  self->messages[self->count++] = (edgert_text_message){"assistant", said};
  putchar('\n');
  fprintf(stderr, "prompt %u tokens (%u known), first token after %.3f s; %u tokens, %.1f a second\n",
          stats.prompt, stats.reused, self->first - began, stats.tokens,
          stats.tokens > 1 ? (stats.tokens - 1) / (ended - self->first) : 0.0);
  return EDGERT_OK;
}

static edgert_status converse(chat *self, const char *question, edgert_error *error) {
  if (question) return answer(self, question, error);
  char line[LONGEST_LINE];
  edgert_status status = EDGERT_OK;
  while (status == EDGERT_OK && fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\r\n")] = 0;
    if (line[0]) status = answer(self, line, error);
  }
  return status;
}

/* What stands behind an option's name, or NULL. */
static const char *option(const char *word, const char *name) {
  size_t size = strlen(name);
  return strncmp(word, name, size) == 0 ? word + size : NULL;
}

int main(int count, char **words) {
  edgert_error error = {EDGERT_OK, ""};
  edgert_device *device = NULL;
  edgert_module *module = NULL;
  edgert_weights *weights = NULL;
  edgert_session *session = NULL;
  edgert_device_options device_options = {.size = sizeof device_options};
  edgert_session_options session_options = {.size = sizeof session_options};
  chat self = {.options = {.size = sizeof self.options}};
  const char *file = NULL, *question = NULL, *beside = NULL, *value;
  for (int i = 1; i < count; ++i) {
    if ((value = option(words[i], "--weights="))) beside = value;
    else if ((value = option(words[i], "--threads="))) device_options.threads = (uint32_t)atoi(value);
    else if ((value = option(words[i], "--limit="))) self.options.limit = (uint32_t)atoi(value);
    else if ((value = option(words[i], "--temperature="))) self.options.temperature = (float)atof(value);
    else if (strcmp(words[i], "--slide") == 0) self.options.when_full = EDGERT_TEXT_SLIDE;
    else if (!file) file = words[i];
    else question = words[i];
  }
  if (!file) {
    fprintf(stderr, "chat MODULE [--weights=FILE] [--threads=N] [--limit=N] [--temperature=T] "
                    "[--slide] [QUESTION]\n");
    return 2;
  }
  edgert_status status = edgert_device_create("cpu", &device_options, &device, &error);
  if (status == EDGERT_OK) status = edgert_module_open(file, NULL, &module, &error);
  if (status == EDGERT_OK && beside) status = edgert_weights_open(beside, NULL, &weights, &error);
  edgert_scope scope = {NULL, weights};
  session_options.scopes = &scope;
  session_options.scope_count = weights != NULL;
  if (status == EDGERT_OK)
    status = edgert_session_create(module, device, &session_options, &session, &error);
  if (status == EDGERT_OK)
    status = edgert_text_model_create(module, session, device, NULL, &self.model, &error);
  if (status == EDGERT_OK) status = converse(&self, question, &error);
  if (status != EDGERT_OK)
    fprintf(stderr, "%s: %s\n", edgert_status_name(status), error.message);
  for (size_t i = 0; i < self.count; ++i) free((char *)self.messages[i].content);
  edgert_text_model_release(self.model);
  edgert_session_release(session);
  edgert_weights_release(weights);
  edgert_module_release(module);
  edgert_device_release(device);
  return status != EDGERT_OK;
}
