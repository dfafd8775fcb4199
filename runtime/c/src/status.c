#include "status.h"

#include <string.h>

#include "format.h"

uint32_t edgert_abi(void) { return EDGERT_ABI; }

const char *edgert_status_name(edgert_status status) {
  switch (status) {
    case EDGERT_OK:
      return "ok";
    case EDGERT_OUT_OF_MEMORY:
      return "out of memory";
    case EDGERT_INVALID_ARGUMENT:
      return "invalid argument";
    case EDGERT_NOT_FOUND:
      return "not found";
    case EDGERT_DAMAGED:
      return "damaged";
    case EDGERT_UNSUPPORTED:
      return "unsupported";
    case EDGERT_PROGRAM_FAILED:
      return "program failed";
    case EDGERT_OUT_OF_RANGE:
      return "out of range";
    case EDGERT_IO:
      return "input or output failed";
    case EDGERT_DEVICE_FAILED:
      return "device failed";
    case EDGERT_LIMIT:
      return "limit reached";
    case EDGERT_CANCELLED:
      return "cancelled";
    case EDGERT_TIMED_OUT:
      return "timed out";
    case EDGERT_WRONG_ANSWER:
      return "wrong answer";
    case EDGERT_PENDING:
      return "pending";
    case EDGERT_UNTRUSTED:
      return "not trusted";
  }
  return "unknown status";
}

int edgert_text_equal(edgert_text text, const char *other) {
  return strlen(other) == text.size && memcmp(text.data, other, text.size) == 0;
}

const char *edgert_name_at(const char *names, size_t index) {
  while (index--) names += strlen(names) + 1;
  return names;
}

size_t edgert_name_index(const char *names, edgert_text text) {
  for (size_t i = 0; *names; ++i, names = edgert_name_at(names, 1))
    if (edgert_text_equal(text, names)) return i;
  return SIZE_MAX;
}

void edgert_error_clear(edgert_error *error) {
  if (!error) return;
  error->status = EDGERT_OK;
  error->message[0] = 0;
}

edgert_status edgert_fail_plainly(edgert_error *error, edgert_status status) {
  if (!error) return status;
  const char *name = edgert_status_name(status);
  error->status = status;
  memcpy(error->message, name, strlen(name) + 1);
  return status;
}

edgert_status edgert_fail(edgert_error *error, edgert_status status, const char *format, ...) {
  if (!error) return status;
  error->status = status;
  va_list arguments;
  va_start(arguments, format);
  (void)edgert_format_list(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  return status;
}
