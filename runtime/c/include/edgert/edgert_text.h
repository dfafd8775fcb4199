/* edgert_text: text for modules that hold a language model, in a library of its own beside edgert.
 *
 * This header is the manual. `edgec compile` writes what it takes into the module: the tokenizer
 * and the chat template in a small form of their own, checked against what Python does with them.
 *
 *     static int say(void *user, const char *piece, size_t size) {
 *       return fwrite(piece, 1, size, stdout) == size;
 *     }
 *
 *     edgert_text_model *model;
 *     const edgert_text_message question = {"user", "What is the capital of France?"};
 *     if (edgert_text_model_create(module, session, device, NULL, &model, &error) ||
 *         edgert_text_chat(model, &question, 1, NULL, say, NULL, NULL, &error))
 *       puts(error.message);
 *
 * Two kinds of objects:
 *
 *     tokenizer  text to tokens and back, conversations to prompts; immutable, for any threads
 *     model      a session, and what its module has read; one thread at a time
 *
 * Texts are UTF-8 with a size and need no zero at their end; a text that is no UTF-8 is refused with
 * EDGERT_INVALID_ARGUMENT and the place. What comes out is always UTF-8. Ownership, failure and
 * versions are as in edgert.h. The form in a module is verified when it is opened, and whatever bytes
 * it holds, nothing is reached but its own memory.
 */
#ifndef EDGERT_EDGERT_TEXT_H
#define EDGERT_EDGERT_TEXT_H

#include "edgert/edgert.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Tokenizers ------------------------------------------------------------------------------- */

typedef struct edgert_tokenizer edgert_tokenizer;

/* The tokenizer of a module. EDGERT_NOT_FOUND: it holds no language model. EDGERT_UNSUPPORTED: its
 * tokenizer has something that apps cannot do; the sentence says what. `allocator` may be NULL. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_tokenizer_open(const edgert_module *module,
                                                               const edgert_allocator *allocator,
                                                               edgert_tokenizer **out_tokenizer,
                                                               edgert_error *error);

/* The same of the module's attribute `edgec.text.form`, where somebody else has read it. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_tokenizer_parse(const char *attribute, size_t size,
                                                                const edgert_allocator *allocator,
                                                                edgert_tokenizer **out_tokenizer,
                                                                edgert_error *error);
EDGERT_API void edgert_tokenizer_release(edgert_tokenizer *tokenizer);

/* What the model says of itself. */
EDGERT_API uint32_t edgert_tokenizer_context(const edgert_tokenizer *tokenizer);
EDGERT_API uint32_t edgert_tokenizer_vocabulary(const edgert_tokenizer *tokenizer);

/* How many tokens a call of each `prefill_N` reads, smallest first; 0 behind the last. */
EDGERT_API uint32_t edgert_tokenizer_prefill(const edgert_tokenizer *tokenizer, size_t index);

/* The chunk by which the next call reads a text of which so many tokens are left: a size of
 * `prefill_N`, or 1 for `decode`. It may be more than are left, unless the model is recurrent: of the
 * largest that is chosen, more than half are tokens. */
EDGERT_API uint32_t edgert_tokenizer_chunk(const edgert_tokenizer *tokenizer, size_t left);

/* 1: the model keeps what all tokens so far have left, of which none can be taken back. */
EDGERT_API int edgert_tokenizer_recurrent(const edgert_tokenizer *tokenizer);

/* 1: the token ends an answer. */
EDGERT_API int edgert_tokenizer_stops(const edgert_tokenizer *tokenizer, int32_t token);

/* The tokens of a text, which the caller gives back with `edgert_tokenizer_free`. `special`: with those
 * that the model's texts begin and end with; prompts of conversations have theirs already. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_tokenizer_encode(
    const edgert_tokenizer *tokenizer, const char *text, size_t size, int special,
    int32_t **out_tokens, size_t *out_count, edgert_error *error);

/* The text of tokens without special ones, with a zero behind it; to give back like tokens. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_tokenizer_decode(
    const edgert_tokenizer *tokenizer, const int32_t *tokens, size_t count, char **out_text,
    size_t *out_size, edgert_error *error);

/* Who speaks ("user", "assistant", "system"), and what is said, both zero-terminated. */
typedef struct edgert_text_message {
  const char *role;
  const char *content;
} edgert_text_message;

/* The prompt of a conversation, the oldest message first, up to where an answer begins, with a zero
 * behind it; to give back like tokens. EDGERT_INVALID_ARGUMENT: the model's chat template does not
 * take these messages; EDGERT_UNSUPPORTED: it has none, or one that apps cannot follow. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_tokenizer_prompt(
    const edgert_tokenizer *tokenizer, const edgert_text_message *messages, size_t count,
    char **out_text, size_t *out_size, edgert_error *error);

EDGERT_API void edgert_tokenizer_free(const edgert_tokenizer *tokenizer, void *memory);

/* Tokens that come one by one, to pieces of text of whole characters. */
typedef struct edgert_text_stream edgert_text_stream;

EDGERT_API EDGERT_MUST_USE edgert_status edgert_text_stream_create(
    const edgert_tokenizer *tokenizer, edgert_text_stream **out_stream, edgert_error *error);
EDGERT_API void edgert_text_stream_release(edgert_text_stream *stream);

/* The text that is known now and was not before, until the next call; empty inside of a character. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_text_stream_add(edgert_text_stream *stream,
                                                                int32_t token,
                                                                const char **out_piece,
                                                                size_t *out_size,
                                                                edgert_error *error);

/* What is left when no more tokens come; the stream then begins anew. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_text_stream_end(edgert_text_stream *stream,
                                                                const char **out_piece,
                                                                size_t *out_size,
                                                                edgert_error *error);

/* --- Language models -------------------------------------------------------------------------- */

typedef struct edgert_text_model edgert_text_model;

/* A language model in a session of its module. What two prompts begin with alike is read once: a
 * conversation that goes on costs its new messages alone. Nobody else may call the session's
 * functions meanwhile. The model keeps all three. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_text_model_create(
    edgert_module *module, edgert_session *session, edgert_device *device,
    const edgert_allocator *allocator, edgert_text_model **out_model, edgert_error *error);
EDGERT_API void edgert_text_model_release(edgert_text_model *model);

/* Its tokenizer, which lives as long as the model. */
EDGERT_API const edgert_tokenizer *edgert_text_model_tokenizer(const edgert_text_model *model);

/* What becomes of an answer when the context is full. */
typedef enum edgert_text_when_full {
  EDGERT_TEXT_END = 0,  /* it ends */
  EDGERT_TEXT_SLIDE = 1 /* it goes on: the text's beginning and its last part are read anew */
} edgert_text_when_full;

/* Says which tokens may follow `last`, the answer's newest token, or -1 where it has none: sets a bit for
 * each in `mask`, the first the lowest, which is all zero. 0: none may, and the answer ends. Libraries
 * that follow a grammar or a JSON schema give such masks. */
typedef int (*edgert_text_allow)(void *user, int32_t last, uint32_t *mask, size_t words);

/* How tokens are chosen, by the module itself; all zero takes the likeliest ones. */
typedef struct edgert_text_options {
  uint32_t size;
  uint32_t limit;           /* the most tokens that are made; 0: as many as the context holds, or,
                               where the text slides, until the model ends */
  float temperature;        /* scores are divided by it; 0: the best is taken */
  float top_p;              /* only the best that together have this probability; 0: all */
  float min_p;              /* only those at least this part as likely as the best */
  float repetition_penalty; /* scores of tokens that were there already are divided by it; 0: by 1 */
  uint32_t top_k;           /* only so many of the best; 0: all */
  uint32_t seed;            /* another one gives another text, the same one the same */
  uint32_t when_full;       /* an edgert_text_when_full */
  uint32_t keep;            /* tokens at the beginning that stay when a text slides; 0: 4, or all before
                               a conversation's first question */
  uint32_t without_guesses; /* 1: what followed the same words before is not read along with a token,
                               where the module could (`edgec export --speculate`); the text is the
                               same */
  edgert_text_allow allow; /* each token is one of those that it allows, and nothing is guessed; NULL:
                              all. EDGERT_UNSUPPORTED: the module was exported before this could be */
  void *allow_user;
} edgert_text_options;

/* Why an answer ended. */
typedef enum edgert_text_finish {
  EDGERT_TEXT_STOP = 0,      /* the model ended it */
  EDGERT_TEXT_LIMIT = 1,     /* it has as many tokens as were asked for */
  EDGERT_TEXT_CONTEXT = 2,   /* the context is full */
  EDGERT_TEXT_BROKEN_OFF = 3 /* the app wanted no more */
} edgert_text_finish;

/* What an answer took; the caller sets `size`. */
typedef struct edgert_text_stats {
  uint32_t size;
  edgert_text_finish finish;
  uint32_t prompt; /* tokens of the prompt */
  uint32_t reused; /* how many of them the module still knew */
  uint32_t tokens; /* of the answer, the one that ended it included */
} edgert_text_stats;

/* Told each piece of an answer as it is written, and once of 0 bytes when the prompt has been read; 0
 * breaks the answer off, else it goes on. */
typedef int (*edgert_text_told)(void *user, const char *piece, size_t size);

/* Go on with a text. `options`, `told` and `stats` may be NULL. EDGERT_INVALID_ARGUMENT: the prompt has
 * no tokens, or more than the context where that does not slide. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_text_generate(
    edgert_text_model *model, const char *prompt, size_t size, const edgert_text_options *options,
    edgert_text_told told, void *user, edgert_text_stats *stats, edgert_error *error);

/* The same for a prompt of tokens. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_text_generate_from(
    edgert_text_model *model, const int32_t *tokens, size_t count,
    const edgert_text_options *options, edgert_text_told told, void *user, edgert_text_stats *stats,
    edgert_error *error);

/* Answer the last message of a conversation. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_text_chat(
    edgert_text_model *model, const edgert_text_message *messages, size_t count,
    const edgert_text_options *options, edgert_text_told told, void *user, edgert_text_stats *stats,
    edgert_error *error);

/* Make the answer that is being written end with EDGERT_CANCELLED; from any thread. The model can be
 * asked again. Where none is written, nothing happens. */
EDGERT_API void edgert_text_interrupt(edgert_text_model *model);

/* What the model has read, as bytes for a file of the app's, which the caller gives back with
 * `edgert_text_free`: tokens, and the keys and values that are in use. Python, Java and JavaScript write
 * the same. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_text_save(edgert_text_model *model, void **out_data,
                                                          size_t *out_size, edgert_error *error);
EDGERT_API void edgert_text_free(const edgert_text_model *model, void *data);

/* Know again what was known when the bytes were saved, here or in another process, on this device or
 * another: a prompt that begins as that text did is read from there on. EDGERT_INVALID_ARGUMENT: they are
 * damaged, or of another model, be it one with other weights alone; then what was known is known still.
 * EDGERT_UNSUPPORTED, as of `edgert_text_save`: the module does not say which model it is. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_text_restore(edgert_text_model *model,
                                                             const void *data, size_t size,
                                                             edgert_error *error);

#ifdef __cplusplus
}
#endif

#endif
