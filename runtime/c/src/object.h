/* Objects that are shared by counting references: everything the interpreter can hold. */
#ifndef EDGERT_OBJECT_H
#define EDGERT_OBJECT_H

#include <stdatomic.h>

#include "memory.h"

typedef struct edgert_object edgert_object;

typedef struct edgert_kind {
  const char *name; /* as modules spell it, without the `!` */
  void (*destroy)(edgert_object *object);
} edgert_kind;

struct edgert_object {
  const edgert_kind *kind;
  atomic_size_t references; /* each takes memory, so this many can't be */
  edgert_allocator allocator;
};

/* A zeroed object of `size` bytes that begins with an `edgert_object`, with one reference. */
edgert_status edgert_object_create(const edgert_allocator *allocator,
                                   const edgert_kind *kind, size_t size, void **out,
                                   edgert_error *error);

/* Add or drop a reference; NULL is fine. `edgert_retain` returns its argument. */
void *edgert_retain(void *object);
void edgert_release(void *object);

/* Drop the reference that `*place` holds and leave NULL there. */
void edgert_release_at(edgert_object **place);

/* The object if it is of that type, NULL otherwise (and for NULL). */
void *edgert_object_as(edgert_object *object, const edgert_kind *kind);

extern const edgert_kind edgert_bytes_kind;
extern const edgert_kind edgert_list_kind;
extern const edgert_kind edgert_device_kind;
extern const edgert_kind edgert_heap_kind;
extern const edgert_kind edgert_buffer_kind;
extern const edgert_kind edgert_tensor_kind;
extern const edgert_kind edgert_commands_kind;
extern const edgert_kind edgert_executable_kind;
extern const edgert_kind edgert_fence_kind;
extern const edgert_kind edgert_file_kind;

#endif
