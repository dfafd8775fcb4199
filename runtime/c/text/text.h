/* What the parts of edgert_text share: a tokenizer's tables, growing arrays, failures. */
#ifndef EDGERT_TEXT_TEXT_H
#define EDGERT_TEXT_TEXT_H

#include <string.h>

#include "edgert/edgert_text.h"

#define TEXT_NONE UINT32_MAX

/* --- Failures and memory (memory.c) ------------------------------------------------------------ */

/* Fill `error` where there is one with up to two texts and a number between them. */
edgert_status text_fail(edgert_error *error, edgert_status status, const char *sentence);
edgert_status text_fail_at(edgert_error *error, edgert_status status, const char *before,
                           uint64_t number, const char *after);

/* The caller's, or the C library's where that is NULL or zero. */
edgert_allocator text_allocator_or_default(const edgert_allocator *allocator);

/* Zeroed; an array of none is NULL. */
edgert_status text_allocate(const edgert_allocator *allocator, size_t count, size_t size, void **out,
                            edgert_error *error);
void text_deallocate(const edgert_allocator *allocator, void *memory);

/* An array that grows; zero it, and give its memory back with `text_deallocate`. */
typedef struct text_array {
  void *data;
  size_t count, capacity;
} text_array;

/* Room for `more` things of `size` bytes behind those that are there. */
edgert_status text_array_reserve(const edgert_allocator *allocator, text_array *self, size_t more,
                                 size_t size, edgert_error *error);
edgert_status text_bytes_add(const edgert_allocator *allocator, text_array *self, const void *data,
                             size_t size, edgert_error *error);

typedef struct text_string {
  const uint8_t *data;
  size_t size;
} text_string;

/* --- Characters (characters.c) ----------------------------------------------------------------- */

/* A set of characters: pairs of a first and a last one, in order. */
typedef struct text_class {
  uint32_t ascii[4]; /* a bit each for the first 128 */
  uint32_t count;
  const uint32_t *ranges;
} text_class;

int text_class_has(const text_class *self, uint32_t code);

/* The place of the first byte that is no UTF-8, or `size`. */
size_t text_valid(const uint8_t *data, size_t size);

/* How many bytes a character of valid UTF-8 has, by its first one. */
static inline size_t text_width(uint8_t lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* A character of valid UTF-8. */
uint32_t text_code(const uint8_t *at);

/* A character as UTF-8; how many bytes. */
size_t text_put(uint32_t code, uint8_t out[4]);

/* --- Patterns (pattern.c) ---------------------------------------------------------------------- */

typedef enum text_op {
  TEXT_MATCH = 0, /* the pattern, or what LOOK asked for, is found */
  TEXT_SPAN = 1,  /* a: class, b to c characters of it, as many as there are; mode 1: and no fewer */
  TEXT_SPLIT = 2, /* go on at a, and where that fails at b */
  TEXT_JUMP = 3,  /* go on at a */
  TEXT_LOOK = 4   /* what follows up to its MATCH: mode 0 stands here, 1 does not; 2: and is taken
                     without a second try; then at a */
} text_op;

typedef struct text_instruction {
  uint8_t op, mode;
  uint32_t a, b, c;
} text_instruction;

typedef struct text_pattern {
  text_instruction *code;
  uint32_t count;
} text_pattern;

/* What matching takes; zero it, set the first three, and give `stack` back. */
typedef struct text_matcher {
  const edgert_allocator *allocator;
  const text_class *classes;
  uint64_t steps; /* that are left */
  text_array stack;
} text_matcher;

/* The first match in valid UTF-8 at or behind `from`; `*out_begin` is `size` where there is none. */
edgert_status text_find(text_matcher *self, const text_pattern *pattern, const uint8_t *data,
                        size_t size, size_t from, size_t *out_begin, size_t *out_end,
                        edgert_error *error);

/* --- The tokenizer ------------------------------------------------------------------------------ */

typedef enum text_step_kind {
  TEXT_REPLACE = 1, /* `from` by `to` */
  TEXT_PREPEND = 2, /* `to`: mode 0 before all, 1 unless it begins with it, 2 so for the first alone */
  TEXT_FORM = 3,    /* Unicode's normal form; mode 1: composed */
  TEXT_PIECES = 4   /* cut by `pattern`; mode: what becomes of matches */
} text_step_kind;

typedef enum text_cut {
  TEXT_REMOVED = 0,
  TEXT_ISOLATED = 1,
  TEXT_WITH_PREVIOUS = 2,
  TEXT_WITH_NEXT = 3,
  TEXT_CONTIGUOUS = 4
} text_cut;

typedef struct text_step {
  uint8_t kind, mode, inverted;
  uint32_t pattern;
  text_string from, to;
} text_step;

typedef struct text_token {
  uint32_t begin, size; /* of its bytes; none: there is no such token */
  uint8_t only;         /* 1: it is written, and never made of text by merging */
  uint8_t special;
} text_token;

typedef struct text_merge {
  uint32_t left, right, made;
} text_merge;

typedef struct text_added {
  uint32_t token;
  text_string content;
  uint8_t normalized, left, right; /* looked for in normalized text; takes white space beside it */
} text_added;

typedef struct text_decomposition {
  uint32_t code, begin, count;
} text_decomposition;

typedef struct text_order {
  uint32_t first, last, order;
} text_order;

typedef struct text_composition {
  uint32_t first, second, made;
} text_composition;

typedef struct text_role {
  text_string name;
  uint8_t trimmed;
} text_role;

typedef struct text_glue {
  uint8_t known; /* 0: the template takes no such messages one after the other */
  text_string text;
} text_glue;

struct edgert_tokenizer {
  edgert_allocator allocator;
  uint8_t *form; /* what the strings lie in */
  size_t form_size;

  uint32_t context, vocabulary;
  uint32_t *prefill, prefill_count;
  int recurrent; /* what all tokens have left is kept: chunks are full, and none is taken back */
  uint32_t *stops, stop_count;

  text_class *classes;
  uint32_t class_count;
  uint32_t *ranges;
  text_pattern *patterns;
  uint32_t pattern_count;

  text_decomposition *decompositions;
  uint32_t decomposition_count;
  uint32_t *decomposed;
  text_order *orders;
  uint32_t order_count;
  text_composition *compositions;
  uint32_t composition_count;

  text_step *steps; /* the first `normalizers` are for all of a text, the others cut it */
  uint32_t step_count, normalizers;

  text_token *tokens;
  uint32_t token_count;
  uint32_t *token_table, token_mask; /* by their bytes: a token + 1, or 0 */
  text_merge *merges;
  uint32_t merge_count;
  uint32_t *merge_table, merge_mask; /* by their two tokens: a rank + 1, or 0 */
  uint32_t bytes[256];               /* tokens of bytes, or TEXT_NONE */
  uint8_t by_bytes, falls_back, fuses, whole_words;
  uint32_t unknown; /* or TEXT_NONE */

  text_added *added;
  uint32_t added_count;
  uint32_t *added_table, added_mask; /* by their content: an index + 1, or 0 */
  uint32_t *added_sizes, added_size_count; /* of contents, the largest first */
  uint32_t added_first[8];                 /* a bit for each byte that one begins with */
  uint32_t space;                          /* the class that they take beside them, or TEXT_NONE */
  uint32_t *before, before_count, *after, after_count;

  uint8_t decodes_bytes;
  uint32_t stripped; /* spaces that a text loses at its begin */
  text_string written_from, written_to;

  text_role *roles;
  uint32_t role_count;
  uint32_t trimmed; /* the class that is cut off, or TEXT_NONE */
  text_glue *glue;  /* (role_count + 1)²: from none and each role, to each role and the answer */
  text_string refusal; /* why there is no template */
};

/* Read and verify a form, which belongs to the tokenizer from then on (reading.c). */
edgert_status text_read(edgert_tokenizer *self, edgert_error *error);

/* Tables by content (lookup.c). */
edgert_status text_build_tokens(edgert_tokenizer *self, edgert_error *error);
edgert_status text_build_added(edgert_tokenizer *self, edgert_error *error);
edgert_status text_reserve_merges(edgert_tokenizer *self, edgert_error *error);
/* 0: the pair is there already, or the table is full of others like it. */
int text_add_merge(edgert_tokenizer *self, uint32_t rank);
uint32_t text_token_of(const edgert_tokenizer *self, const uint8_t *data, size_t size);
uint32_t text_rank_of(const edgert_tokenizer *self, uint32_t left, uint32_t right);
/* The longest added token that begins here, as an index, or TEXT_NONE. */
uint32_t text_added_at(const edgert_tokenizer *self, const uint8_t *data, size_t size,
                       int normalized);

/* Unicode's normal form of valid UTF-8, behind what is there already (normal.c). */
edgert_status text_normalise(const edgert_tokenizer *self, const uint8_t *data, size_t size,
                             int composed, text_array *out, edgert_error *error);

/* --- Pieces (pieces.c) -------------------------------------------------------------------------- */

typedef struct text_piece {
  size_t begin, size; /* in the bytes */
  uint32_t token;     /* or TEXT_NONE, for text */
  uint8_t first;      /* it begins where the whole text begins */
} text_piece;

typedef struct text_pieces {
  const edgert_tokenizer *tokenizer;
  text_matcher matcher;
  text_array bytes, pieces;           /* as far as it is */
  text_array next_bytes, next_pieces; /* what a step makes of them */
} text_pieces;

/* A text to tokens and pieces, by all steps. Zero it before; released also where this fails. */
edgert_status text_cut_up(text_pieces *self, const edgert_tokenizer *tokenizer, const uint8_t *text,
                          size_t size, edgert_error *error);
void text_pieces_release(text_pieces *self);

/* --- Merging (merging.c) ------------------------------------------------------------------------ */

typedef struct text_symbol {
  uint32_t token;
  uint32_t previous, next; /* or TEXT_NONE */
} text_symbol;

/* What merging takes; zero it before, and release it. */
typedef struct text_word {
  text_array symbols, heap;
} text_word;

/* The tokens of a piece, behind those that are there. */
edgert_status text_merge_word(const edgert_tokenizer *self, text_word *word, const uint8_t *data,
                              size_t size, text_array *tokens, edgert_error *error);

/* --- A text that grows (window.c) ---------------------------------------------------------------- */

/* How many tokens two texts begin with alike. */
size_t text_alike(const int32_t *one, size_t one_count, const int32_t *other, size_t other_count);

/* What of a text is read where it outgrows the context, into room for one: its first tokens and its end.
 * Of what is between go whole halves of the context, so that a text that grows is read anew once in so
 * many tokens. Returns how many. */
size_t text_window(const int32_t *tokens, size_t count, size_t context, size_t keep, int32_t *out);

/* What followed where the text's last three tokens, or two, stood before: a place in it, and how many
 * tokens from there on, at most `most`; 0: they stood nowhere. */
size_t text_guess(const int32_t *tokens, size_t count, size_t most, size_t *out_place);

#endif
