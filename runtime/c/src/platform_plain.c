/* Systems with nothing but a C library: WebAssembly. No machine code; a clock only with threads. */
#include "platform.h"

#if defined(__wasm__)

/* Pages have no files, and a C library that could open some takes a kilobyte. */
#ifndef EDGERT_WITH_FILES
#define EDGERT_WITH_FILES 1
#endif

#if EDGERT_WITH_FILES

#include <stdio.h>

edgert_status edgert_mapping_open(const char *path, const edgert_allocator *allocator,
                                  edgert_mapping *out, edgert_error *error) {
  memset(out, 0, sizeof *out);
  FILE *file = fopen(path, "rb");
  if (!file) return EDGERT_FAIL(error, EDGERT_NOT_FOUND, "cannot open %s", path);
  edgert_status status = EDGERT_OK;
  long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  void *data = NULL;
  if (size < 0 || fseek(file, 0, SEEK_SET) != 0)
    status = EDGERT_FAIL(error, EDGERT_IO, "cannot read %s", path);
  else if (size == 0)
    status = EDGERT_FAIL(error, EDGERT_DAMAGED, "%s is empty", path);
  else
    status = edgert_allocate(allocator, (size_t)size, EDGERT_ALIGNMENT, &data, error);
  if (status == EDGERT_OK && fread(data, 1, (size_t)size, file) != (size_t)size)
    status = EDGERT_FAIL(error, EDGERT_IO, "cannot read %s", path);
  fclose(file);
  if (status != EDGERT_OK) {
    edgert_deallocate(allocator, data);
    return status;
  }
  out->data = data;
  out->size = (size_t)size;
  return EDGERT_OK;
}

#else

edgert_status edgert_mapping_open(const char *path, const edgert_allocator *allocator,
                                  edgert_mapping *out, edgert_error *error) {
  (void)path, (void)allocator;
  memset(out, 0, sizeof *out);
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "there are no files here");
}

#endif

void edgert_mapping_close(edgert_mapping *mapping, const edgert_allocator *allocator) {
  edgert_deallocate(allocator, mapping->data);
  memset(mapping, 0, sizeof *mapping);
}

size_t edgert_code_page_size(void) { return 4096; }

edgert_status edgert_zeros_reserve(size_t size, uint8_t **out, edgert_error *error) {
  (void)size;
  *out = NULL;
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "machine code cannot be loaded here");
}

edgert_status edgert_code_protect(uint8_t *base, size_t size, int access, edgert_error *error) {
  (void)base, (void)size, (void)access;
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "machine code cannot be loaded here");
}

void edgert_zeros_release(uint8_t *base, size_t size) { (void)base, (void)size; }

/* What compilers make of a comparison with no order; the C library's is ten times as large. */
int bcmp(const void *a, const void *b, size_t size);
int bcmp(const void *a, const void *b, size_t size) {
  const volatile uint8_t *left = a, *right = b; /* or it is made of itself */
  for (size_t i = 0; i < size; ++i)
    if (left[i] != right[i]) return 1;
  return 0;
}

#if !EDGERT_THREADS
uint64_t edgert_nanoseconds(void) { return 0; }
#endif

#endif
