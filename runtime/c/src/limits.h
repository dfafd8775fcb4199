/* What a session may use: memory that is counted, and time that runs out or is cut short. */
#ifndef EDGERT_LIMITS_H
#define EDGERT_LIMITS_H

#include <stdatomic.h>

#include "memory.h"

/* Counts what a session holds, and results that outlive it; gone with the last of these. */
typedef struct edgert_budget {
  edgert_allocator inner;
  atomic_uint_least64_t holds; /* allocations and buffers, and whoever made this */
  atomic_uint_least64_t used;  /* bytes */
  atomic_uint_least64_t peak;
  uint64_t limit; /* 0: none */
} edgert_budget;

/* With one hold, the caller's. */
edgert_status edgert_budget_create(const edgert_allocator *inner, uint64_t limit,
                                   edgert_budget **out, edgert_error *error);

/* Memory that is counted. */
edgert_allocator edgert_budget_allocator(edgert_budget *self);

/* Hold `size` bytes more: 1, or 0 where that goes beyond the limit. NULL is the app, without one. */
int edgert_budget_take(edgert_budget *self, uint64_t size);
void edgert_budget_give(edgert_budget *self, uint64_t size);

/* Looked at between instructions of the interpreter and between runs of workgroups. */
typedef struct edgert_watch {
  atomic_int is_interrupted;
  uint64_t deadline; /* of the clock; 0: none */
} edgert_watch;

int edgert_watch_is_over(const edgert_watch *self);
edgert_status edgert_watch_fail(const edgert_watch *self, edgert_error *error);

#endif
