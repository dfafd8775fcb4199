/* What the operating system gives: files, memory for code, threads. One file a platform. */
#ifndef EDGERT_PLATFORM_H
#define EDGERT_PLATFORM_H

#include "memory.h"

#if !defined(EDGERT_THREADS)
#if defined(__wasm__)
#define EDGERT_THREADS 0
#else
#define EDGERT_THREADS 1
#endif
#endif

/* A file in memory: mapped where the platform can, read otherwise. */
typedef struct edgert_mapping {
  uint8_t *data; /* at a multiple of EDGERT_ALIGNMENT */
  size_t size;
  int mapped;
} edgert_mapping;

edgert_status edgert_mapping_open(const char *path, const edgert_allocator *allocator,
                                  edgert_mapping *out, edgert_error *error);
void edgert_mapping_close(edgert_mapping *mapping, const edgert_allocator *allocator);

/* Pages of zeros (EDGERT_HAS_ZEROS), readable and writable. Those for machine code are then
 * protected piece by piece. */
edgert_status edgert_zeros_reserve(size_t size, uint8_t **out, edgert_error *error);
void edgert_zeros_release(uint8_t *base, size_t size);
enum { EDGERT_CODE_READ = 0, EDGERT_CODE_WRITE = 1, EDGERT_CODE_EXECUTE = 2 };
size_t edgert_code_page_size(void);
edgert_status edgert_code_protect(uint8_t *base, size_t size, int access, edgert_error *error);

#if EDGERT_THREADS && defined(__wasm__)
#include <stdatomic.h>

typedef atomic_int edgert_mutex;
typedef atomic_int edgert_condition;
typedef atomic_int edgert_thread;
#elif EDGERT_THREADS && defined(_WIN32)
/* SRWLOCK, CONDITION_VARIABLE and a thread, without the system's header and its many macros. */
typedef struct edgert_mutex {
  void *word;
} edgert_mutex;
typedef struct edgert_condition {
  void *word;
} edgert_condition;
typedef struct edgert_thread {
  void *handle;
  unsigned long id;
  void *(*run)(void *argument);
  void *argument;
} edgert_thread;
#elif EDGERT_THREADS
#include <pthread.h>

typedef pthread_mutex_t edgert_mutex;
typedef pthread_cond_t edgert_condition;
typedef pthread_t edgert_thread;
#else
typedef int edgert_mutex;
typedef int edgert_condition;
typedef int edgert_thread;
#endif

/* These cannot fail on the platforms there are. */
void edgert_mutex_create(edgert_mutex *self);
void edgert_mutex_destroy(edgert_mutex *self);
void edgert_mutex_lock(edgert_mutex *self);
void edgert_mutex_unlock(edgert_mutex *self);
void edgert_condition_create(edgert_condition *self);
void edgert_condition_destroy(edgert_condition *self);
void edgert_condition_wait(edgert_condition *self, edgert_mutex *mutex);
/* No longer than so many milliseconds (endlessly for UINT64_MAX); it may return sooner. */
void edgert_condition_wait_for(edgert_condition *self, edgert_mutex *mutex, uint64_t milliseconds);
void edgert_condition_wake_all(edgert_condition *self);

edgert_status edgert_thread_start(edgert_thread *self, void *(*run)(void *), void *argument,
                                  edgert_error *error);
void edgert_thread_join(edgert_thread *self);
void edgert_thread_detach(edgert_thread *self);
int edgert_thread_is_current(const edgert_thread *self);
void edgert_thread_yield(void);

/* Make what kernels use of this thread's stack theirs, page by page: Windows gives a page only where
 * the one before it was touched, and kernels touch any. */
#if defined(_WIN32)
void edgert_stack_commit(void);
#else
static inline void edgert_stack_commit(void) {}
#endif

/* A clock that only goes forward; 0 where there is none. */
uint64_t edgert_nanoseconds(void);

/* Processors that this process may use, 1 at least. */
unsigned edgert_processor_count(void);

/* Tell the processor that this thread spins. */
static inline void edgert_spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__arm__) && __ARM_ARCH >= 7)
  __asm__ volatile("yield");
#elif defined(__wasm__)
  for (int i = 0; i < 32; ++i) __asm__ volatile(""); /* it has no such instruction */
#endif
}

#endif
