/* A language model in a session, as its files share it: model.c calls it, answer.c writes with it,
 * saved.c keeps what it has read. */
#ifndef EDGERT_TEXT_MODEL_H
#define EDGERT_TEXT_MODEL_H

#include "text.h"

#if !defined(__STDC_NO_ATOMICS__)
#include <stdatomic.h>
typedef atomic_int text_flag;
#else
typedef volatile int text_flag;
#endif

struct edgert_text_model {
  edgert_allocator allocator;
  edgert_module *module;
  edgert_session *session;
  edgert_device *device;
  edgert_tokenizer *tokenizer;
  edgert_text_stream *stream;
  size_t *prefill; /* functions, in the tokenizer's order of sizes */
  size_t prefill_count, decode, sample, reset;
  size_t verify;        /* the function that checks guesses, */
  uint32_t verify_size; /* and how many tokens it takes; 0: there is none */
  size_t sample_allowed; /* the function that chooses among some tokens, */
  uint32_t *mask;        /* and room for a bit for each; NULL: there is none */
  size_t mask_words;
  int32_t *held; /* tokens whose keys and values are on the device */
  size_t held_count;
  int32_t *seen; /* room for what of a text is read, a context */
  text_flag is_interrupted;
};

/* Tokens that a call of `verify` may take. */
enum { TEXT_MOST_GUESSES = 64 };

/* Read tokens behind those that are held; the likeliest next one. */
edgert_status text_model_read(edgert_text_model *self, const int32_t *tokens, size_t count,
                              int32_t *out_token, edgert_error *error);

/* Forget all tokens that are held from a place on. */
edgert_status text_model_forget(edgert_text_model *self, size_t count, edgert_error *error);

/* How many tokens of a text are held; the last is read again, for what follows it. */
size_t text_model_known(const edgert_text_model *self, const int32_t *tokens, size_t count);

/* Read what of a text is not held; the likeliest next token. */
edgert_status text_model_read_anew(edgert_text_model *self, const int32_t *tokens, size_t count,
                                   int32_t *out_token, edgert_error *error);

/* Read the first of `count` tokens and those behind it that are the likeliest: what is likeliest behind
 * each that was read. There is room for them in the context. */
edgert_status text_model_verify(edgert_text_model *self, const int32_t *tokens, size_t count,
                                int32_t out_tokens[TEXT_MOST_GUESSES], size_t *out_count,
                                edgert_error *error);

/* Another choice than the likeliest token, where the options ask for it, or the mask does not allow it. */
edgert_status text_model_choose(edgert_text_model *self, const edgert_text_options *options,
                                int is_masked, int32_t *token, edgert_error *error);

#endif
