/* Errors, as PJRT's caller reads them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

struct pjrt_error {
  pjrt_code code;
  size_t size;
  char text[];
};

/* What there is no memory to say; never freed. */
static pjrt_error *const pjrt_nothing = (pjrt_error *)&(struct {
  pjrt_code code;
  size_t size;
  char text[14];
}){PJRT_RESOURCE_EXHAUSTED, 13, "out of memory"};

pjrt_error *pjrt_out_of_memory(void) { return pjrt_nothing; }

pjrt_error *pjrt_fail_text(pjrt_code code, const char *text, size_t size) {
  pjrt_error *error = malloc(sizeof *error + size + 1);
  if (!error) return pjrt_nothing;
  error->code = code;
  error->size = size;
  memcpy(error->text, text, size);
  error->text[size] = 0;
  return error;
}

pjrt_error *pjrt_error_copy(const pjrt_error *error) {
  if (!error || error == pjrt_nothing) return (pjrt_error *)(uintptr_t)error;
  return pjrt_fail_text(error->code, error->text, error->size);
}

pjrt_error *pjrt_fail(pjrt_code code, const char *format, ...) {
  char text[1024];
  va_list values;
  va_start(values, format);
  int size = vsnprintf(text, sizeof text, format, values);
  va_end(values);
  if (size < 0) size = 0;
  if ((size_t)size >= sizeof text) size = (int)sizeof text - 1;
  return pjrt_fail_text(code, text, (size_t)size);
}

static pjrt_code pjrt_code_of(edgert_status status) {
  switch (status) {
    case EDGERT_OUT_OF_MEMORY:
    case EDGERT_LIMIT:
      return PJRT_RESOURCE_EXHAUSTED;
    case EDGERT_INVALID_ARGUMENT:
      return PJRT_INVALID_ARGUMENT;
    case EDGERT_NOT_FOUND:
      return PJRT_NOT_FOUND;
    case EDGERT_UNSUPPORTED:
      return PJRT_UNIMPLEMENTED;
    case EDGERT_CANCELLED:
      return PJRT_CANCELLED;
    default:
      return PJRT_INTERNAL;
  }
}

pjrt_error *pjrt_fail_edgert(const edgert_error *error) {
  return pjrt_fail(pjrt_code_of(error->status), "edgert: %s", error->message);
}

void pjrt_error_destroy(error_destroy_args *args) {
  if (args->error != pjrt_nothing) free(args->error);
}

void pjrt_error_message(error_message_args *args) {
  args->message = args->error->text;
  args->message_size = args->error->size;
}

pjrt_error *pjrt_error_code(error_code_args *args) {
  args->code = args->error->code;
  return NULL;
}
