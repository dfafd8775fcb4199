/* `hal.fence`: a point in time that queue operations wait for and signal.
 *
 * Queues run in order and the interpreter waits for each operation, so a fence is signalled by the
 * time anybody can ask; one that is not will never be, and waiting for it is an error. */
#ifndef EDGERT_FENCE_H
#define EDGERT_FENCE_H

#include "object.h"

/* As programs see failures: codes of the usual kind. */
enum { EDGERT_CODE_OK = 0, EDGERT_CODE_DEADLINE = 4, EDGERT_CODE_DEFERRED = 17 };

typedef struct edgert_fence {
  edgert_object object;
  int reached;
  int32_t code; /* what it was failed with; 0: it was not */
} edgert_fence;

edgert_status edgert_fence_create(const edgert_allocator *allocator, edgert_fence **out,
                                  edgert_error *error);

/* Fine for NULL and for a fence that was signalled. */
edgert_status edgert_fence_wait(const edgert_fence *self, edgert_error *error);

/* Nothing for NULL. */
void edgert_fence_signal(edgert_fence *self);

#endif
