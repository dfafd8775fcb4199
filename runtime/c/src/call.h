/* Calls that run beside their caller: each session has a queue of them and one thread for it. */
#ifndef EDGERT_CALL_H
#define EDGERT_CALL_H

#include "platform.h"

typedef struct edgert_runner {
  edgert_mutex lock; /* of all that follows, and of the calls' states */
  edgert_condition changed;
  edgert_thread thread;
  edgert_call *first, *last; /* begun, and not yet running */
  int is_started;
  int stop;
  edgert_call *ending; /* the call that the thread is about to free */
} edgert_runner;

void edgert_runner_create(edgert_runner *self);

/* End the thread; no call refers to the session any more. */
void edgert_runner_destroy(edgert_runner *self);

#endif
