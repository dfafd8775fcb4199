/* Builds without threads: locks that lock nothing. */
#include "platform.h"

#if !EDGERT_THREADS

void edgert_mutex_create(edgert_mutex *self) { *self = 0; }
void edgert_mutex_destroy(edgert_mutex *self) { (void)self; }
void edgert_mutex_lock(edgert_mutex *self) { (void)self; }
void edgert_mutex_unlock(edgert_mutex *self) { (void)self; }
void edgert_condition_create(edgert_condition *self) { *self = 0; }
void edgert_condition_destroy(edgert_condition *self) { (void)self; }
void edgert_condition_wait(edgert_condition *self, edgert_mutex *mutex) {
  (void)self, (void)mutex;
}
void edgert_condition_wait_for(edgert_condition *self, edgert_mutex *mutex, uint64_t milliseconds) {
  (void)self, (void)mutex, (void)milliseconds;
}
void edgert_condition_wake_all(edgert_condition *self) { (void)self; }

edgert_status edgert_thread_start(edgert_thread *self, void *(*run)(void *), void *argument,
                                  edgert_error *error) {
  (void)self, (void)run, (void)argument;
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "there are no threads here");
}

void edgert_thread_join(edgert_thread *self) { (void)self; }

void edgert_thread_detach(edgert_thread *self) { (void)self; }

int edgert_thread_is_current(const edgert_thread *self) {
  (void)self;
  return 1;
}

void edgert_thread_yield(void) {}

unsigned edgert_processor_count(void) { return 1; }

#endif
