/* Failures: a status to return and a sentence for the caller. */
#ifndef EDGERT_STATUS_H
#define EDGERT_STATUS_H

#include "edgert/edgert.h"

#ifndef EDGERT_MESSAGES
#define EDGERT_MESSAGES 1
#endif

/* Whether modules can prove themselves; in pages JavaScript sees to it. */
#ifndef EDGERT_WITH_PROVE
#if defined(__wasm__)
#define EDGERT_WITH_PROVE 0
#else
#define EDGERT_WITH_PROVE 1
#endif
#endif

/* Whether calls take memory of the caller's own: 1 KB for bindings, which apps in C do without. */
#ifndef EDGERT_WITH_PLACES
#define EDGERT_WITH_PLACES 0
#endif

/* Whether other libraries may give devices work beside edgert: for bindings, as JAX's. */
#ifndef EDGERT_WITH_NATIVE
#define EDGERT_WITH_NATIVE 0
#endif

/* Whether modules can be asked for a signature: some 12 KB of code. */
#ifndef EDGERT_WITH_SIGNATURES
#define EDGERT_WITH_SIGNATURES 0
#endif

/* Any of the strings in a module: bytes that are not terminated. */
typedef struct edgert_text {
  const char *data;
  size_t size;
} edgert_text;

/* `%.*s` arguments of a text; cut at a length that no message exceeds. */
#define EDGERT_TEXT(text) ((int)((text).size < 160 ? (text).size : 160)), ((text).data)

int edgert_text_equal(edgert_text text, const char *other);

/* Names in one text, each ended by NUL: no room is lost, and a loader has nothing to relocate. */
const char *edgert_name_at(const char *names, size_t index);

/* Which one a text is, of those before an empty name; SIZE_MAX: none. */
size_t edgert_name_index(const char *names, edgert_text text);

void edgert_error_clear(edgert_error *error);

/* Fill `error` where there is one, and return `status`. */
edgert_status edgert_fail(edgert_error *error, edgert_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* The same with the status's name for a sentence. */
edgert_status edgert_fail_plainly(edgert_error *error, edgert_status status);

#if EDGERT_MESSAGES
#define EDGERT_FAIL(error, status, ...) edgert_fail((error), (status), __VA_ARGS__)
#else
#define EDGERT_FAIL(error, status, ...) edgert_fail_plainly((error), (status))
#endif

#endif
