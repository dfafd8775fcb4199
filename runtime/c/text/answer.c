/* Prompts and conversations to answers, token after token. */
#include "model.h"

enum { SINKS = 4 }; /* tokens at a text's beginning that attention leans on, whatever they say */

static edgert_status check(const edgert_text_model *self, const int32_t *tokens, size_t count,
                           const edgert_text_options *options, edgert_error *error) {
  uint32_t context = edgert_tokenizer_context(self->tokenizer);
  if (count == 0) return text_fail(error, EDGERT_INVALID_ARGUMENT, "the prompt has no tokens");
  if (count > context && options->when_full != EDGERT_TEXT_SLIDE)
    return text_fail_at(error, EDGERT_INVALID_ARGUMENT,
                        "the prompt has more tokens than the context holds, ", context, "");
  for (size_t i = 0; i < count; ++i)
    if (tokens[i] < 0 || (uint32_t)tokens[i] >= edgert_tokenizer_vocabulary(self->tokenizer))
      return text_fail_at(error, EDGERT_INVALID_ARGUMENT, "token ", i,
                          " of the prompt is none that the model knows");
  if (!(options->temperature >= 0) || !(options->top_p >= 0 && options->top_p <= 1) ||
      !(options->min_p >= 0 && options->min_p <= 1) || !(options->repetition_penalty >= 0) ||
      options->when_full > EDGERT_TEXT_SLIDE)
    return text_fail(error, EDGERT_INVALID_ARGUMENT, "an option is out of its range");
  if (options->allow && !self->mask)
    return text_fail(error, EDGERT_UNSUPPORTED, "the module was exported before tokens could be "
                                                "chosen among some: export it again");
  return EDGERT_OK;
}

static edgert_status read_options(edgert_text_options *out, const edgert_text_options *given,
                                  edgert_error *error) {
  if (!given) return EDGERT_OK;
  if (given->size <= sizeof given->size)
    return text_fail(error, EDGERT_INVALID_ARGUMENT, "options without their size: set `size`");
  for (size_t i = sizeof *out; i < given->size; ++i)
    if (((const uint8_t *)given)[i])
      return text_fail(error, EDGERT_UNSUPPORTED,
                       "an option is set that this edgert_text does not know: it is older");
  memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
  out->size = sizeof *out;
  return EDGERT_OK;
}

/* What guesses have to bring: tokens that a call with them reads on average, for it takes about as long
 * as so many; the newest one's part in that average; and what each guess that was not tried adds to it,
 * so that guesses are tried again some day. */
static const float worth = 2, weight = 0.3f, patience = 0.125f;

typedef struct answer {
  edgert_text_model *model;
  edgert_text_options options;
  edgert_text_told told;
  void *user;
  edgert_text_stats stats;
  text_array text;                   /* tokens of the prompt and the answer */
  int32_t coming[TEXT_MOST_GUESSES]; /* tokens that are known to follow */
  size_t coming_count;
  float paid; /* tokens that calls with guesses read, on average */
  int guesses;
  int is_over; /* no token may follow */
} answer;

static int tell(const answer *it, const char *piece, size_t size) {
  return !it->told || size == 0 || it->told(it->user, piece, size);
}

static edgert_status text_add(answer *it, const int32_t *tokens, size_t count, edgert_error *error) {
  edgert_status status =
      text_array_reserve(&it->model->allocator, &it->text, count, sizeof *tokens, error);
  if (status != EDGERT_OK) return status;
  memcpy((int32_t *)it->text.data + it->text.count, tokens, count * sizeof *tokens);
  it->text.count += count;
  return EDGERT_OK;
}

/* What of the text is read. */
static size_t window_of(const answer *it) {
  return text_window(it->text.data, it->text.count, edgert_tokenizer_context(it->model->tokenizer),
                     it->options.keep ? it->options.keep : SINKS, it->model->seen);
}

/* Ask which tokens may follow. */
static int anything_allowed(answer *it) {
  if (!it->options.allow) return 1;
  edgert_text_model *model = it->model;
  const int32_t *tokens = it->text.data;
  const int32_t last = it->stats.tokens ? tokens[it->text.count - 1] : -1;
  memset(model->mask, 0, model->mask_words * sizeof *model->mask);
  it->is_over = !it->options.allow(it->options.allow_user, last, model->mask, model->mask_words);
  return !it->is_over;
}

/* Read the text, as far as it is not held; what follows it. */
static edgert_status begin(answer *it, edgert_error *error) {
  const size_t count = window_of(it);
  it->coming_count = 0;
  if (!anything_allowed(it)) return EDGERT_OK;
  it->coming_count = 1;
  edgert_status status =
      text_model_read_anew(it->model, it->model->seen, count, it->coming, error);
  if (status != EDGERT_OK) return status;
  return text_model_choose(it->model, &it->options, it->options.allow != NULL, it->coming,
                           error);
}

/* Read the last token; what follows it, and perhaps more; nothing in a full context. */
static edgert_status go_on(answer *it, edgert_error *error) {
  const size_t context = edgert_tokenizer_context(it->model->tokenizer);
  const size_t held = it->model->held_count;
  const int32_t *tokens = it->text.data, *last = tokens + it->text.count - 1;
  size_t guesses = 0, place = 0;
  it->coming_count = 0;
  if (held >= context)
    return it->options.when_full == EDGERT_TEXT_SLIDE ? begin(it, error) : EDGERT_OK;
  if (it->guesses) {
    const size_t room = context - held, size = it->model->verify_size;
    guesses = text_guess(tokens, it->text.count, (size < room ? size : room) - 1, &place);
  }
  if (guesses && it->paid >= worth) {
    int32_t given[TEXT_MOST_GUESSES];
    given[0] = *last;
    memcpy(given + 1, tokens + place, guesses * sizeof *given);
    edgert_status status =
        text_model_verify(it->model, given, guesses + 1, it->coming, &it->coming_count, error);
    it->paid += weight * ((float)it->coming_count - it->paid);
    return status;
  }
  if (guesses) it->paid += patience;
  if (!anything_allowed(it)) return EDGERT_OK;
  it->coming_count = 1;
  edgert_status status = text_model_read(it->model, last, 1, it->coming, error);
  if (status != EDGERT_OK) return status;
  return text_model_choose(it->model, &it->options, it->options.allow != NULL, it->coming,
                           error);
}

/* Token after token, from the first on. */
static edgert_status write_answer(answer *it, edgert_error *error) {
  const edgert_tokenizer *tokenizer = it->model->tokenizer;
  const char *piece;
  size_t size, at = 0;
  edgert_status status;
  for (;;) {
    const int32_t token = it->coming[at++];
    it->stats.tokens += 1;
    it->stats.finish = EDGERT_TEXT_STOP;
    if (edgert_tokenizer_stops(tokenizer, token)) break;
    status = edgert_text_stream_add(it->model->stream, token, &piece, &size, error);
    if (status != EDGERT_OK) return status;
    it->stats.finish = EDGERT_TEXT_BROKEN_OFF;
    if (!tell(it, piece, size)) return EDGERT_OK;
    it->stats.finish = EDGERT_TEXT_LIMIT;
    if (it->options.limit && it->stats.tokens >= it->options.limit) break;
    status = text_add(it, &token, 1, error);
    if (status != EDGERT_OK) return status;
    if (at < it->coming_count) continue;
    status = go_on(it, error);
    if (status != EDGERT_OK) return status;
    it->stats.finish = it->is_over ? EDGERT_TEXT_STOP : EDGERT_TEXT_CONTEXT;
    if (it->coming_count == 0) break;
    at = 0;
  }
  status = edgert_text_stream_end(it->model->stream, &piece, &size, error);
  if (status == EDGERT_OK) (void)tell(it, piece, size);
  return status;
}

edgert_status edgert_text_generate_from(edgert_text_model *self, const int32_t *tokens,
                                        size_t count, const edgert_text_options *options,
                                        edgert_text_told told, void *user, edgert_text_stats *stats,
                                        edgert_error *error) {
  answer it = {.model = self,
               .options = {.size = sizeof it.options},
               .told = told,
               .user = user,
               .stats = {.finish = EDGERT_TEXT_BROKEN_OFF}};
  const char *piece;
  size_t size;
  self->is_interrupted = 0;
  edgert_status status = read_options(&it.options, options, error);
  if (status == EDGERT_OK) status = check(self, tokens, count, &it.options, error);
  if (status == EDGERT_OK) status = text_add(&it, tokens, count, error);
  if (status == EDGERT_OK) status = edgert_text_stream_end(self->stream, &piece, &size, error);
  if (status == EDGERT_OK) {
    it.paid = (float)self->verify_size;
    it.guesses = self->verify_size && !it.options.without_guesses && !it.options.allow && it.options.temperature == 0 &&
                 (it.options.repetition_penalty == 0 || it.options.repetition_penalty == 1);
    it.stats.prompt = (uint32_t)count;
    it.stats.reused = (uint32_t)text_model_known(self, self->seen, window_of(&it));
    status = begin(&it, error);
  }
  if (it.is_over) it.stats.finish = EDGERT_TEXT_STOP;
  if (status == EDGERT_OK && it.coming_count && (!told || told(user, "", 0)))
    status = write_answer(&it, error);
  if (stats) {
    it.stats.size = stats->size;
    memcpy(stats, &it.stats, stats->size < sizeof it.stats ? stats->size : sizeof it.stats);
  }
  text_deallocate(&self->allocator, it.text.data);
  return status;
}

edgert_status edgert_text_generate(edgert_text_model *self, const char *prompt, size_t size,
                                   const edgert_text_options *options, edgert_text_told told,
                                   void *user, edgert_text_stats *stats, edgert_error *error) {
  int32_t *tokens;
  size_t count;
  edgert_status status =
      edgert_tokenizer_encode(self->tokenizer, prompt, size, 1, &tokens, &count, error);
  if (status == EDGERT_OK)
    status = edgert_text_generate_from(self, tokens, count, options, told, user, stats, error);
  edgert_tokenizer_free(self->tokenizer, tokens);
  return status;
}

/* The tokens of a conversation's prompt. */
static edgert_status prompt_of(const edgert_text_model *self, const edgert_text_message *messages,
                               size_t count, int32_t **out_tokens, size_t *out_count,
                               edgert_error *error) {
  char *prompt;
  size_t size;
  *out_tokens = NULL;
  *out_count = 0;
  edgert_status status =
      edgert_tokenizer_prompt(self->tokenizer, messages, count, &prompt, &size, error);
  if (status == EDGERT_OK)
    status =
        edgert_tokenizer_encode(self->tokenizer, prompt, size, 0, out_tokens, out_count, error);
  edgert_tokenizer_free(self->tokenizer, prompt);
  return status;
}

/* How many tokens of a conversation stand before its first question. */
static edgert_status find_beginning(const edgert_text_model *self,
                                    const edgert_text_message *messages, size_t count,
                                    const int32_t *tokens, size_t token_count, uint32_t *out_keep,
                                    edgert_error *error) {
  edgert_text_message *before;
  int32_t *other = NULL;
  size_t first = 0, other_count = 0;
  while (first < count && strcmp(messages[first].role, "user") != 0) ++first;
  if (first == count) first = 0;
  edgert_status status =
      text_allocate(&self->allocator, first + 1, sizeof *before, (void **)&before, error);
  if (status != EDGERT_OK) return status;
  if (first) memcpy(before, messages, first * sizeof *before);
  before[first] = (edgert_text_message){"user", "?"};
  status = prompt_of(self, before, first + 1, &other, &other_count, error);
  if (status == EDGERT_OK) {
    size_t alike = text_alike(tokens, token_count, other, other_count);
    *out_keep = alike > SINKS ? (uint32_t)alike : SINKS;
  }
  edgert_tokenizer_free(self->tokenizer, other);
  text_deallocate(&self->allocator, before);
  return status;
}

edgert_status edgert_text_chat(edgert_text_model *self, const edgert_text_message *messages,
                               size_t count, const edgert_text_options *options,
                               edgert_text_told told, void *user, edgert_text_stats *stats,
                               edgert_error *error) {
  edgert_text_options chosen = {.size = sizeof chosen};
  int32_t *tokens;
  size_t token_count;
  edgert_status status = prompt_of(self, messages, count, &tokens, &token_count, error);
  if (status == EDGERT_OK) status = read_options(&chosen, options, error);
  if (status == EDGERT_OK && chosen.when_full == EDGERT_TEXT_SLIDE && chosen.keep == 0)
    status = find_beginning(self, messages, count, tokens, token_count, &chosen.keep, error);
  if (status == EDGERT_OK)
    status =
        edgert_text_generate_from(self, tokens, token_count, &chosen, told, user, stats, error);
  edgert_tokenizer_free(self->tokenizer, tokens);
  return status;
}
