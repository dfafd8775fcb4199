/* Linux, Android, macOS, iOS and other POSIX systems. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* sched_getaffinity */
#endif
#if defined(__APPLE__)
#define _DARWIN_C_SOURCE 1
#endif

#include "platform.h"

#if !defined(__wasm__) && !defined(_WIN32)

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAPPING_LARGE (4 << 20) /* two of the usual large pages */

edgert_status edgert_mapping_open(const char *path, const edgert_allocator *allocator,
                                  edgert_mapping *out, edgert_error *error) {
  (void)allocator;
  memset(out, 0, sizeof *out);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return EDGERT_FAIL(error, errno == ENOENT ? EDGERT_NOT_FOUND : EDGERT_IO, "cannot open %s: %s",
                       path, strerror(errno));
  edgert_status status = EDGERT_OK;
  struct stat facts;
  void *data = MAP_FAILED;
  if (fstat(file, &facts) != 0)
    status = EDGERT_FAIL(error, EDGERT_IO, "cannot read %s: %s", path, strerror(errno));
  else if (!S_ISREG(facts.st_mode))
    status = EDGERT_FAIL(error, EDGERT_IO, "%s is no file", path);
  else if (facts.st_size <= 0)
    status = EDGERT_FAIL(error, EDGERT_DAMAGED, "%s is empty", path);
  else if ((uint64_t)facts.st_size > SIZE_MAX / 2)
    status = EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "%s is too large for this machine", path);
  if (status == EDGERT_OK) {
    data = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED)
      status = EDGERT_FAIL(error, EDGERT_IO, "cannot map %s: %s", path, strerror(errno));
  }
#if defined(MADV_HUGEPAGE)
  /* Weights are read from end to end, and each small page is looked up on the way: large ones are
   * read a third faster. A hint: systems that have none for files do as before. */
  if (status == EDGERT_OK && facts.st_size >= MAPPING_LARGE)
    (void)madvise(data, (size_t)facts.st_size, MADV_HUGEPAGE);
#endif
  close(file);
  if (status != EDGERT_OK) return status;
  out->data = data;
  out->size = (size_t)facts.st_size;
  out->mapped = 1;
  return EDGERT_OK;
}

void edgert_mapping_close(edgert_mapping *mapping, const edgert_allocator *allocator) {
  (void)allocator;
  if (mapping->data) munmap(mapping->data, mapping->size);
  memset(mapping, 0, sizeof *mapping);
}

size_t edgert_code_page_size(void) {
  long size = sysconf(_SC_PAGESIZE);
  return size > 0 ? (size_t)size : 4096;
}

edgert_status edgert_zeros_reserve(size_t size, uint8_t **out, edgert_error *error) {
  *out = NULL;
  void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "no memory for %llu bytes",
                       (unsigned long long)size);
  *out = base;
  return EDGERT_OK;
}

edgert_status edgert_code_protect(uint8_t *base, size_t size, int access, edgert_error *error) {
  int protection = PROT_READ;
  if (access == EDGERT_CODE_WRITE) protection |= PROT_WRITE;
  if (access == EDGERT_CODE_EXECUTE) protection |= PROT_EXEC;
  if (mprotect(base, size, protection) != 0)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                       "this system lets no loaded code run (%s): link the module's library",
                       strerror(errno));
  if (access == EDGERT_CODE_EXECUTE) __builtin___clear_cache((char *)base, (char *)base + size);
  return EDGERT_OK;
}

void edgert_zeros_release(uint8_t *base, size_t size) {
  if (base) munmap(base, size);
}

uint64_t edgert_nanoseconds(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0;
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if EDGERT_THREADS

/* By constants, which cannot fail as `pthread_mutex_init` and `pthread_cond_init` may. */
void edgert_mutex_create(edgert_mutex *self) {
  *self = (edgert_mutex)PTHREAD_MUTEX_INITIALIZER;
}
void edgert_mutex_destroy(edgert_mutex *self) { pthread_mutex_destroy(self); }
void edgert_mutex_lock(edgert_mutex *self) { pthread_mutex_lock(self); }
void edgert_mutex_unlock(edgert_mutex *self) { pthread_mutex_unlock(self); }
void edgert_condition_create(edgert_condition *self) {
  *self = (edgert_condition)PTHREAD_COND_INITIALIZER;
}
void edgert_condition_destroy(edgert_condition *self) { pthread_cond_destroy(self); }
void edgert_condition_wait(edgert_condition *self, edgert_mutex *mutex) {
  pthread_cond_wait(self, mutex);
}
void edgert_condition_wait_for(edgert_condition *self, edgert_mutex *mutex, uint64_t milliseconds) {
  struct timespec end;
  if (milliseconds > 86400000u) milliseconds = 86400000u; /* no clock overflows in a day */
  (void)clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += (time_t)(milliseconds / 1000);
  end.tv_nsec += (long)(milliseconds % 1000) * 1000000;
  if (end.tv_nsec >= 1000000000) {
    end.tv_nsec -= 1000000000;
    end.tv_sec += 1;
  }
  pthread_cond_timedwait(self, mutex, &end);
}
void edgert_condition_wake_all(edgert_condition *self) { pthread_cond_broadcast(self); }

// Kernels keep up to 256 KiB on the stack; musl gives a thread 128 KiB.
#define EDGERT_THREAD_STACK ((size_t)1 << 20)

/* Signals that are sent to a process are for the app's own threads, whose handlers may count on what
 * these have. What a thread itself does wrong is told where it happens, and a profiler is let in. */
static void thread_signals(sigset_t *out) {
  static const char own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
  sigfillset(out);
  for (size_t i = 0; i < sizeof own; ++i) sigdelset(out, own[i]);
}

edgert_status edgert_thread_start(edgert_thread *self, void *(*run)(void *), void *argument,
                                  edgert_error *error) {
  pthread_attr_t attributes;
  int code = pthread_attr_init(&attributes);
  if (code == 0) {
    // A size that the system refuses leaves its own default, which is what it has to offer.
    (void)pthread_attr_setstacksize(&attributes, EDGERT_THREAD_STACK);
    sigset_t blocked, before;
    thread_signals(&blocked);
    (void)pthread_sigmask(SIG_BLOCK, &blocked, &before);
    code = pthread_create(self, &attributes, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
  }
  if (code == 0) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "cannot start a thread: %s", strerror(code));
}

void edgert_thread_join(edgert_thread *self) { pthread_join(*self, NULL); }

void edgert_thread_detach(edgert_thread *self) { pthread_detach(*self); }

int edgert_thread_is_current(const edgert_thread *self) {
  return *self == pthread_self(); /* numbers or pointers wherever this file is for */
}

void edgert_thread_yield(void) { sched_yield(); }

unsigned edgert_processor_count(void) {
#if defined(__linux__) && defined(CPU_ISSET)
  cpu_set_t set;
  unsigned allowed = 0;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i) allowed += CPU_ISSET(i, &set) != 0;
  if (allowed) return allowed;
#endif
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? (unsigned)count : 1;
}

#endif

#endif
