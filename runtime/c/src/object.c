#include "object.h"

#define OBJECT_NAME(upper, lower, name) name "\0"
#define OBJECT_DESTROY(upper, lower, name) \
  case EDGERT_KIND_##upper: edgert_##lower##_destroy(object); break;

static const char kind_names[] = "anything\0" EDGERT_KINDS(OBJECT_NAME);

const char *edgert_kind_name(edgert_kind kind) { return edgert_name_at(kind_names, kind); }

edgert_kind edgert_kind_of(edgert_text name) {
  size_t index = edgert_name_index(kind_names + sizeof "anything", name);
  return index == SIZE_MAX ? EDGERT_KIND_ANY : (edgert_kind)(index + 1);
}

edgert_status edgert_object_create(const edgert_allocator *allocator,
                                   edgert_kind kind, size_t size, void **out,
                                   edgert_error *error) {
  edgert_status status = edgert_allocate_array(allocator, 1, size, out, error);
  if (status != EDGERT_OK) return status;
  edgert_object *object = *out;
  object->kind = kind;
  object->allocator = *allocator;
  atomic_init(&object->references, 1);
  return EDGERT_OK;
}

void *edgert_retain(void *object) {
  if (object)
    atomic_fetch_add_explicit(&((edgert_object *)object)->references, 1, memory_order_relaxed);
  return object;
}

void edgert_release(void *reference) {
  edgert_object *object = reference;
  if (!object) return;
  if (atomic_fetch_sub_explicit(&object->references, 1, memory_order_acq_rel) != 1) return;
  edgert_allocator allocator = object->allocator;
  switch (object->kind) {
    case EDGERT_KIND_ANY: break;
    EDGERT_KINDS(OBJECT_DESTROY)
  }
  edgert_deallocate(&allocator, object);
}

void edgert_release_at(edgert_object **place) {
  edgert_object *object = *place;
  *place = NULL;
  edgert_release(object);
}

void *edgert_object_as(edgert_object *object, edgert_kind kind) {
  return object && object->kind == kind ? object : NULL;
}
