/* Objects that are shared by counting references: everything the interpreter can hold. */
#ifndef EDGERT_OBJECT_H
#define EDGERT_OBJECT_H

#include <stdatomic.h>

#include "memory.h"

typedef struct edgert_object edgert_object;

/* Each kind of object, and its name as modules spell it, without the `!`; those behind the list
 * are never a program's. `edgert_NAME_destroy` gives back what an object of the kind holds. A list
 * and a switch instead of pointers are nothing to relocate. */
#define EDGERT_KINDS(X)                         \
  X(BYTES, bytes, "vm.buffer")                  \
  X(DEVICE, device, "hal.device")               \
  X(HEAP, heap, "hal.allocator")                \
  X(BUFFER, buffer, "hal.buffer")               \
  X(TENSOR, tensor, "hal.buffer_view")          \
  X(COMMANDS, commands, "hal.command_buffer")   \
  X(FILE, file, "hal.file")                     \
  X(FENCE, fence, "hal.fence")                  \
  X(EXECUTABLE, executable, "hal.executable")   \
  X(LIST, list, "vm.list")                      \
  X(MODULE, module, "edgert.module")            \
  X(SESSION, session, "edgert.session")         \
  X(WEIGHTS, weights, "edgert.weights")         \
  EDGERT_KINDS_TRUSTED(X)
#if EDGERT_WITH_SIGNATURES
#define EDGERT_KINDS_TRUSTED(X) X(PAGES, pages, "edgert.pages")
#else
#define EDGERT_KINDS_TRUSTED(X)
#endif

#define EDGERT_KIND_CODE(upper, lower, name) EDGERT_KIND_##upper,
typedef enum edgert_kind { EDGERT_KIND_ANY, EDGERT_KINDS(EDGERT_KIND_CODE) } edgert_kind;
#define EDGERT_KIND_DESTROY(upper, lower, name) void edgert_##lower##_destroy(edgert_object *object);
EDGERT_KINDS(EDGERT_KIND_DESTROY)

const char *edgert_kind_name(edgert_kind kind);
/* The kind that programs call by a name; EDGERT_KIND_ANY if there is none. */
edgert_kind edgert_kind_of(edgert_text name);

struct edgert_object {
  edgert_kind kind;
  atomic_size_t references; /* each takes memory, so this many can't be */
  edgert_allocator allocator;
};

/* A zeroed object of `size` bytes that begins with an `edgert_object`, with one reference. */
edgert_status edgert_object_create(const edgert_allocator *allocator,
                                   edgert_kind kind, size_t size, void **out,
                                   edgert_error *error);

/* Add or drop a reference; NULL is fine. `edgert_retain` returns its argument. */
void *edgert_retain(void *object);
void edgert_release(void *object);

/* Drop the reference that `*place` holds and leave NULL there. */
void edgert_release_at(edgert_object **place);

/* The object if it is of that type, NULL otherwise (and for NULL). */
void *edgert_object_as(edgert_object *object, edgert_kind kind);

#endif
