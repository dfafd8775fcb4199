#include "file.h"

#include <string.h>

#if defined(__wasm__)

int edgert_file_replace(const char *path, const edgert_allocator *allocator, const void *head,
                        size_t head_size, const void *data, size_t size) {
  (void)path, (void)allocator, (void)head, (void)head_size, (void)data, (void)size;
  return 0; /* pages have none */
}

#else

#include <stdio.h>

static int file_write(const char *path, const char *beside, const void *head, size_t head_size,
                      const void *data, size_t size) {
  FILE *file = fopen(beside, "wb");
  if (!file) return 0;
  int is_written =
      fwrite(head, 1, head_size, file) == head_size && fwrite(data, 1, size, file) == size;
  is_written &= fclose(file) == 0;
#if defined(_WIN32)
  if (is_written) (void)remove(path); /* it renames over nothing */
#endif
  if (is_written && rename(beside, path) == 0) return 1;
  (void)remove(beside);
  return 0;
}

int edgert_file_replace(const char *path, const edgert_allocator *allocator, const void *head,
                        size_t head_size, const void *data, size_t size) {
  void *beside;
  size_t length = strlen(path);
  if (edgert_allocate(allocator, length + 5, 1, &beside, NULL) != EDGERT_OK) return 0;
  memcpy(beside, path, length);
  memcpy((char *)beside + length, ".new", 5);
  int is_written = file_write(path, beside, head, head_size, data, size);
  edgert_deallocate(allocator, beside);
  return is_written;
}

#endif
