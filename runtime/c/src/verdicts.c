#include "verdicts.h"

#include <string.h>

#include "file.h"
#include "format.h"
#include "platform.h"

#define VERDICTS_RIGHT "right"

enum { VERDICTS_KEY = 17, VERDICTS_MOST = 16 << 10 };

static void verdicts_key(uint64_t identity, char out[VERDICTS_KEY + 1]) {
  edgert_format(out, VERDICTS_KEY + 1, "%08x%08x ", (unsigned)(identity >> 32),
                (unsigned)identity);
}

/* The text behind a key, up to the end of its line; the last one counts. */
static edgert_text verdicts_look(const edgert_mapping *file, const char *key) {
  const char *at = (const char *)file->data, *end = at + file->size;
  edgert_text found = {NULL, 0};
  while (at < end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) break;
    if (stop - at > VERDICTS_KEY && memcmp(at, key, VERDICTS_KEY) == 0)
      found = (edgert_text){at + VERDICTS_KEY, (size_t)(stop - at) - VERDICTS_KEY};
    at = stop + 1;
  }
  return found;
}

int edgert_verdicts_find(const char *path, const edgert_allocator *allocator, uint64_t identity,
                         edgert_status *out, edgert_error *error) {
  char key[VERDICTS_KEY + 1];
  edgert_mapping file;
  if (edgert_mapping_open(path, allocator, &file, NULL) != EDGERT_OK) return 0;
  verdicts_key(identity, key);
  const edgert_text found = verdicts_look(&file, key);
  if (found.data) {
    *out = EDGERT_OK;
    if (!edgert_text_equal(found, VERDICTS_RIGHT))
      *out = EDGERT_FAIL(error, EDGERT_WRONG_ANSWER, "%.*s (found before)", EDGERT_TEXT(found));
  }
  edgert_mapping_close(&file, allocator);
  return found.data != NULL;
}

int edgert_verdicts_add(const char *path, const edgert_allocator *allocator, uint64_t identity,
                        edgert_status status, const char *message) {
  char line[VERDICTS_KEY + 256];
  edgert_mapping file = {NULL, 0, 0};
  if (edgert_mapping_open(path, allocator, &file, NULL) != EDGERT_OK) file.data = NULL;
  verdicts_key(identity, line);
  edgert_format(line + VERDICTS_KEY, sizeof line - VERDICTS_KEY, "%s\n",
                status == EDGERT_OK ? VERDICTS_RIGHT : message);
  /* The message names what the module names: a line's end there must be none here. */
  for (char *at = line; at[0] && at[1]; ++at)
    if ((unsigned char)*at < ' ') *at = ' ';
  size_t size = file.data && file.size <= VERDICTS_MOST ? file.size : 0; /* else anew */
  int is_written =
      edgert_file_replace(path, allocator, size ? file.data : (const uint8_t *)"", size, line,
                          strlen(line));
  if (file.data) edgert_mapping_close(&file, allocator);
  return is_written;
}
