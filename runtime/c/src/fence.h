/* `hal.fence`: a point in time that queue operations wait for and signal.
 *
 * Devices do things in order, so a fence that was signalled is one point of its session's device:
 * things asked of the device later need not wait for it, and joins are the latest of their parts.
 * One that was not signalled by the time anybody asks never will be, and waiting for it is an
 * error. */
#ifndef EDGERT_FENCE_H
#define EDGERT_FENCE_H

#include "object.h"

/* As programs see failures: codes of the usual kind. */
enum { EDGERT_CODE_OK = 0, EDGERT_CODE_DEADLINE = 4, EDGERT_CODE_DEFERRED = 17 };

typedef struct edgert_fence {
  edgert_object object;
  int is_signalled;
  uint64_t point; /* at which it is reached */
  int32_t code; /* what it was failed with; 0: it was not */
} edgert_fence;

edgert_status edgert_fence_create(const edgert_allocator *allocator, edgert_fence **out,
                                  edgert_error *error);

/* When a fence is reached; 0 for NULL. Refuses one that failed, or was not signalled. */
edgert_status edgert_fence_point(const edgert_fence *self, uint64_t *out_point,
                                 edgert_error *error);

/* Nothing for NULL. */
void edgert_fence_signal(edgert_fence *self, uint64_t point);

#endif
