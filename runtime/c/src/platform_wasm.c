/* Threads in WebAssembly: the host makes them, each an instance of edgert on the same memory with a
 * stack of its own, and tells the time. `wasm/threads.mjs` is the host's part. */
#include "platform.h"

#if defined(__wasm__) && EDGERT_THREADS

enum { THREAD_WAITS, THREAD_RUNS, THREAD_ENDED };
enum { MUTEX_FREE, MUTEX_LOCKED, MUTEX_AWAITED };

/* Whether there is a thread left that will call `edgert_thread_run` with these. */
__attribute__((import_module("edgert"), import_name("start_thread"))) int edgert_host_start_thread(
    edgert_thread *self, void *(*run)(void *), void *argument);

/* Sleep while the number is `seen`, or for a moment only where a thread must not sleep: on the main
 * thread of a page. */
__attribute__((import_module("edgert"), import_name("wait"))) void edgert_host_wait(
    atomic_int *number, int seen);

/* Milliseconds. */
__attribute__((import_module("edgert"), import_name("now"))) double edgert_host_now(void);

static void wasm_wake(atomic_int *number, unsigned count) {
  (void)__builtin_wasm_memory_atomic_notify((int *)number, count);
}

void edgert_mutex_create(edgert_mutex *self) { atomic_init(self, MUTEX_FREE); }
void edgert_mutex_destroy(edgert_mutex *self) { (void)self; }

void edgert_mutex_lock(edgert_mutex *self) {
  int seen = MUTEX_FREE;
  if (atomic_compare_exchange_strong(self, &seen, MUTEX_LOCKED)) return;
  while (atomic_exchange(self, MUTEX_AWAITED) != MUTEX_FREE) edgert_host_wait(self, MUTEX_AWAITED);
}

void edgert_mutex_unlock(edgert_mutex *self) {
  if (atomic_exchange(self, MUTEX_FREE) == MUTEX_AWAITED) wasm_wake(self, 1);
}

/* A condition counts how often it was woken. */
void edgert_condition_create(edgert_condition *self) { atomic_init(self, 0); }
void edgert_condition_destroy(edgert_condition *self) { (void)self; }

void edgert_condition_wait(edgert_condition *self, edgert_mutex *mutex) {
  int seen = atomic_load(self);
  edgert_mutex_unlock(mutex);
  edgert_host_wait(self, seen);
  edgert_mutex_lock(mutex);
}

/* Asked by those who wait for calls in the background only, which the host gives no thread. */
void edgert_condition_wait_for(edgert_condition *self, edgert_mutex *mutex, uint64_t milliseconds) {
  (void)self, (void)mutex, (void)milliseconds;
}

void edgert_condition_wake_all(edgert_condition *self) {
  atomic_fetch_add(self, 1);
  wasm_wake(self, UINT32_MAX);
}

edgert_status edgert_thread_start(edgert_thread *self, void *(*run)(void *), void *argument,
                                  edgert_error *error) {
  atomic_init(self, THREAD_WAITS);
  if (edgert_host_start_thread(self, run, argument)) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "the host gives no more threads");
}

/* For the host: be that thread, until it ends. */
__attribute__((export_name("edgert_thread_run"))) void edgert_thread_run(edgert_thread *self,
                                                                         void *(*run)(void *),
                                                                         void *argument) {
  int seen = THREAD_WAITS;
  if (!atomic_compare_exchange_strong(self, &seen, THREAD_RUNS)) return;
  run(argument);
  atomic_store(self, THREAD_ENDED);
  wasm_wake(self, UINT32_MAX);
}

/* One that has not begun, as the host makes them when it likes to, never will. */
void edgert_thread_join(edgert_thread *self) {
  int seen = THREAD_WAITS;
  if (atomic_compare_exchange_strong(self, &seen, THREAD_ENDED)) return;
  while (atomic_load(self) == THREAD_RUNS) edgert_host_wait(self, THREAD_RUNS);
}

void edgert_thread_detach(edgert_thread *self) { (void)self; }

/* Asked by the threads of calls in the background only, which the host does not give. */
int edgert_thread_is_current(const edgert_thread *self) {
  (void)self;
  return 0;
}

void edgert_thread_yield(void) {}

unsigned edgert_processor_count(void) { return 1; }

uint64_t edgert_nanoseconds(void) { return (uint64_t)(edgert_host_now() * 1e6); }

#endif
