#include "fence.h"

void edgert_fence_destroy(edgert_object *object) { (void)object; }

edgert_status edgert_fence_create(const edgert_allocator *allocator, edgert_fence **out,
                                  edgert_error *error) {
  void *made;
  edgert_status status =
      edgert_object_create(allocator, EDGERT_KIND_FENCE, sizeof **out, &made, error);
  *out = status == EDGERT_OK ? made : NULL;
  return status;
}

edgert_status edgert_fence_point(const edgert_fence *self, uint64_t *out_point,
                                 edgert_error *error) {
  *out_point = self ? self->point : 0;
  if (!self || (self->is_signalled && !self->code)) return EDGERT_OK;
  if (self->code)
    return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program waits for what failed with %d",
                       (int)self->code);
  return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED,
                     "the program waits for what nothing will ever signal");
}

void edgert_fence_signal(edgert_fence *self, uint64_t point) {
  if (!self) return;
  self->is_signalled = 1;
  self->point = point;
}
