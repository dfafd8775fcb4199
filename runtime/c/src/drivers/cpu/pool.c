/* Threads that share the workgroups of a batch of dispatches.
 *
 * A batch is opened by raising `generation`. Every thread, the caller's too, then takes runs of
 * workgroups, of its own share first and of the others' shares then, and adds what it did to `done`;
 * nobody waits for a particular thread. Shares are alike from batch to batch, so that a thread finds
 * in its cache what it wrote before. Threads without work spin for a while and then sleep. The caller closes the batch when
 * all is done and no thread is inside it any more; only then the batch's memory is its own again. */
#include "cpu.h"

/* Spinning, in pauses of some 10 to 40 nanoseconds: long enough to bridge the gap between two
 * dispatches of one call, short enough for a phone. */
#define POOL_SPINS 2000
/* Where calls follow each other closely: a thread that slept for less than this would have done
 * better to spin, and does so the next time, until it sleeps for longer. A sleeper is often woken on
 * the caller's processor and waits there while another one is idle, all through a small call. */
#define POOL_MOST_SPINS 20000
#define POOL_SHORT_SLEEP 1000000u /* nanoseconds */
#define POOL_MAX_THREADS 128
/* A batch that takes less than this is not worth waking others for. */
#define POOL_MIN_NANOSECONDS 8000u
/* Runs of workgroups that a thread takes, each thread some four of them; more where one would take
 * longer than this, so that nobody waits long for the last. */
#define POOL_RUNS 4
#define POOL_RUN_NANOSECONDS 20000u
/* Workgroups that a thread runs without a look at the watch. */
#define POOL_UNWATCHED 64

typedef struct pool_worker {
  edgert_pool *pool;
  unsigned index;
#if EDGERT_THREADS
  edgert_thread thread;
#endif
  atomic_uint_least64_t next; /* of its share, not yet taken */
  edgert_scratch scratch;
} pool_worker;

struct edgert_pool {
  edgert_allocator allocator;
  unsigned threads;
  unsigned started;
  atomic_flag busy; /* a caller has the threads */
  /* The batch; written by the caller while it is closed. */
  const edgert_work *works;
  size_t work_count;
  uint64_t total;
  uint64_t share; /* of each thread; the last ones may have less */
  uint64_t run;
  const edgert_watch *watch;
  atomic_uint_least64_t done;
  atomic_int failed;
  /* Coming and going. */
  atomic_uint generation;
  atomic_int open;
  atomic_int inside;
  atomic_int sleepers;
  atomic_int caller_sleeps;
  int stop;
  edgert_mutex lock;
  edgert_condition wake;
  edgert_condition finished;
  pool_worker workers[]; /* the first is the caller's */
};

edgert_status edgert_scratch_reserve(edgert_scratch *self, const edgert_allocator *allocator,
                                     size_t size, edgert_error *error) {
  if (size <= self->size) return EDGERT_OK;
  void *memory;
  edgert_status status = edgert_allocate(allocator, size, EDGERT_ALIGNMENT, &memory, error);
  if (status != EDGERT_OK) return status;
  edgert_deallocate(allocator, self->memory);
  *self = (edgert_scratch){memory, size};
  return EDGERT_OK;
}

/* Run `count` workgroups of one dispatch from the `first` on; whether all went well. */
static int pool_run_work(const edgert_work *work, uint64_t first, uint64_t count,
                         unsigned processor, edgert_scratch *scratch, const edgert_watch *watch) {
  const edgert_library_dispatch *dispatch = &work->dispatch;
  edgert_library_workgroup group = {.processor = processor,
                                    .scratch = work->scratch_size ? scratch->memory : NULL,
                                    .scratch_size = work->scratch_size};
  uint64_t plane = (uint64_t)dispatch->count_x * dispatch->count_y;
  group.z = (uint16_t)(first / plane);
  group.y = (uint32_t)(first % plane / dispatch->count_x);
  group.x = (uint32_t)(first % plane % dispatch->count_x);
  for (uint64_t i = 0; i < count; ++i) {
    if (i % POOL_UNWATCHED == 0 && edgert_watch_is_over(watch)) return 0;
    if (work->kernel(work->environment, dispatch, &group) != 0) return 0;
    if (++group.x < dispatch->count_x) continue;
    group.x = 0;
    if (++group.y < dispatch->count_y) continue;
    group.y = 0;
    group.z += 1;
  }
  return 1;
}

static edgert_status pool_failed(const edgert_watch *watch, edgert_error *error) {
  if (edgert_watch_is_over(watch)) return edgert_watch_fail(watch, error);
  return EDGERT_FAIL(error, EDGERT_DEVICE_FAILED, "a kernel reported failure");
}

/* All on the caller's thread, each dispatch's cost noted where others may share it another time. */
static edgert_status pool_run_alone(const edgert_pool *self, const edgert_work *works, size_t count,
                                    edgert_scratch *scratch, const edgert_watch *watch,
                                    edgert_error *error) {
  int is_noted = EDGERT_THREADS && self->threads > 1;
  uint64_t begin = is_noted ? edgert_nanoseconds() : 0;
  for (size_t i = 0; i < count; ++i) {
    if (!pool_run_work(&works[i], 0, works[i].count, 0, scratch, watch))
      return pool_failed(watch, error);
    if (!is_noted) continue;
    uint64_t end = edgert_nanoseconds(), each = (end - begin) / works[i].count;
    atomic_store_explicit(works[i].cost, each < UINT32_MAX ? (unsigned)each + 1 : UINT32_MAX,
                          memory_order_relaxed);
    begin = end;
  }
  return EDGERT_OK;
}

static size_t pool_scratch_size(const edgert_work *works, size_t count) {
  size_t size = 0;
  for (size_t i = 0; i < count; ++i)
    if (works[i].scratch_size > size) size = works[i].scratch_size;
  return size;
}

#if EDGERT_THREADS

/* Run workgroups [first, last) of the batch. */
static int pool_run_span(const edgert_work *works, uint64_t first, uint64_t last,
                         unsigned processor, edgert_scratch *scratch, const edgert_watch *watch) {
  size_t i = 0;
  while (first < last) {
    while (works[i].first + works[i].count <= first) ++i;
    uint64_t end = works[i].first + works[i].count;
    if (end > last) end = last;
    if (!pool_run_work(&works[i], first - works[i].first, end - first, processor, scratch, watch))
      return 0;
    first = end;
  }
  return 1;
}

static int pool_is_sequential(const edgert_work *works, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (works[i].is_sequential) return 1;
  return 0;
}

static uint64_t pool_total(const edgert_work *works, size_t count) {
  return works[count - 1].first + works[count - 1].count;
}

/* What the batch took, all threads together; 0 where that is not known yet. */
static uint64_t pool_cost(const edgert_work *works, size_t count) {
  uint64_t nanoseconds = 0;
  for (size_t i = 0; i < count; ++i) {
    uint64_t cost = atomic_load_explicit(works[i].cost, memory_order_relaxed);
    if (cost == 0) return 0;
    nanoseconds += cost * works[i].count;
  }
  return nanoseconds;
}

/* Whether the batch is too small for more than one thread, as far as is known. */
static int pool_is_small(const edgert_work *works, size_t count) {
  if (pool_total(works, count) < 2) return 1;
  uint64_t nanoseconds = pool_cost(works, count);
  return nanoseconds && nanoseconds < POOL_MIN_NANOSECONDS;
}

/* How many workgroups a thread takes at a time. */
static uint64_t pool_run(const edgert_work *works, size_t count, uint64_t share) {
  uint64_t run = share / POOL_RUNS, each = pool_cost(works, count) / pool_total(works, count);
  if (each && run > POOL_RUN_NANOSECONDS / each) run = POOL_RUN_NANOSECONDS / each;
  return run ? run : 1;
}

static uint64_t pool_share_begin(const edgert_pool *self, unsigned owner) {
  uint64_t begin = owner * self->share;
  return begin < self->total ? begin : self->total;
}

/* Take part in the open batch until nothing is left to take. */
static void pool_take_part(edgert_pool *self, pool_worker *worker) {
  uint64_t total = self->total, run = self->run;
  for (unsigned i = 0, owner = worker->index; i < self->threads;) {
    atomic_uint_least64_t *next = &self->workers[owner].next;
    uint64_t end = pool_share_begin(self, owner + 1);
    uint64_t first = atomic_load_explicit(next, memory_order_relaxed);
    if (first < end) first = atomic_fetch_add_explicit(next, run, memory_order_relaxed);
    if (first >= end) {
      owner = owner + 1 < self->threads ? owner + 1 : 0;
      ++i;
      continue;
    }
    uint64_t last = end - first < run ? end : first + run;
    if (!atomic_load_explicit(&self->failed, memory_order_relaxed) &&
        !pool_run_span(self->works, first, last, worker->index, &worker->scratch, self->watch))
      atomic_store_explicit(&self->failed, 1, memory_order_relaxed);
    uint64_t before = atomic_fetch_add(&self->done, last - first);
    if (before + (last - first) == total && atomic_load(&self->caller_sleeps)) {
      edgert_mutex_lock(&self->lock);
      edgert_condition_wake_all(&self->finished);
      edgert_mutex_unlock(&self->lock);
    }
  }
}

/* Wait for the generation after `seen`; 0: the pool ends. `spins` is how long to spin first, and is
 * learned. */
static int pool_wait(edgert_pool *self, unsigned seen, int *spins) {
  for (int i = 0; i < *spins; ++i) {
    if (atomic_load_explicit(&self->generation, memory_order_acquire) != seen) break;
    edgert_spin_pause();
  }
  if (atomic_load(&self->generation) != seen) return 1;
  uint64_t begin = edgert_nanoseconds();
  edgert_mutex_lock(&self->lock);
  atomic_fetch_add(&self->sleepers, 1);
  while (atomic_load(&self->generation) == seen && !self->stop)
    edgert_condition_wait(&self->wake, &self->lock);
  atomic_fetch_sub(&self->sleepers, 1);
  int stop = self->stop;
  edgert_mutex_unlock(&self->lock);
  int is_short = begin && edgert_nanoseconds() - begin < POOL_SHORT_SLEEP;
  *spins = is_short ? POOL_MOST_SPINS : POOL_SPINS;
  return !stop;
}

static void *pool_worker_main(void *argument) {
  pool_worker *worker = argument;
  edgert_pool *self = worker->pool;
  unsigned seen = 0;
  int spins = POOL_SPINS;
  while (pool_wait(self, seen, &spins)) {
    seen = atomic_load(&self->generation);
    atomic_fetch_add(&self->inside, 1);
    if (atomic_load(&self->open)) pool_take_part(self, worker);
    atomic_fetch_sub(&self->inside, 1);
  }
  return NULL;
}

#if EDGERT_WITH_WASM
/* For the host: a kernel has trapped on this thread, which is lost; the batch fails, and later ones
 * are for the others. */
__attribute__((export_name("edgert_pool_worker_lost"))) void edgert_pool_worker_lost(
    void *argument) {
  edgert_pool *self = ((pool_worker *)argument)->pool;
  atomic_store(&self->failed, 1);
  atomic_store(&self->done, self->total); /* others add to it in vain */
  edgert_mutex_lock(&self->lock);
  edgert_condition_wake_all(&self->finished);
  edgert_mutex_unlock(&self->lock);
  atomic_fetch_sub(&self->inside, 1);
}
#endif

static void pool_open(edgert_pool *self) {
  atomic_store(&self->open, 1);
  atomic_fetch_add(&self->generation, 1);
  if (atomic_load(&self->sleepers) == 0) return;
  edgert_mutex_lock(&self->lock);
  edgert_condition_wake_all(&self->wake);
  edgert_mutex_unlock(&self->lock);
}

static void pool_close(edgert_pool *self) {
  for (int i = 0; i < POOL_SPINS && atomic_load(&self->done) < self->total; ++i)
    edgert_spin_pause();
  if (atomic_load(&self->done) < self->total) {
    edgert_mutex_lock(&self->lock);
    atomic_store(&self->caller_sleeps, 1);
    while (atomic_load(&self->done) < self->total)
      edgert_condition_wait(&self->finished, &self->lock);
    atomic_store(&self->caller_sleeps, 0);
    edgert_mutex_unlock(&self->lock);
  }
  atomic_store(&self->open, 0);
  for (int i = 0; atomic_load(&self->inside) != 0; ++i) {
    edgert_spin_pause();
    if (i >= POOL_SPINS) edgert_thread_yield();
  }
}

static edgert_status pool_run_together(edgert_pool *self, const edgert_work *works, size_t count,
                                       const edgert_watch *watch, edgert_error *error) {
  size_t size = pool_scratch_size(works, count);
  for (unsigned i = 0; i < self->threads; ++i) {
    edgert_status status =
        edgert_scratch_reserve(&self->workers[i].scratch, &self->allocator, size, error);
    if (status != EDGERT_OK) return status;
  }
  self->works = works;
  self->work_count = count;
  self->watch = watch;
  self->total = pool_total(works, count);
  self->share = (self->total + self->threads - 1) / self->threads;
  self->run = pool_run(works, count, self->share);
  for (unsigned i = 0; i < self->threads; ++i)
    atomic_store(&self->workers[i].next, pool_share_begin(self, i));
  atomic_store(&self->done, 0);
  atomic_store(&self->failed, 0);
  uint64_t begin = edgert_nanoseconds();
  pool_open(self);
  pool_take_part(self, &self->workers[0]);
  pool_close(self);
  /* An upper bound of what each costs; enough to see that a batch is small. */
  uint64_t each = (edgert_nanoseconds() - begin) * self->threads / self->total;
  for (size_t i = 0; i < count; ++i)
    atomic_store_explicit(works[i].cost, each < UINT32_MAX ? (unsigned)each + 1 : UINT32_MAX,
                          memory_order_relaxed);
  return atomic_load(&self->failed) ? pool_failed(watch, error) : EDGERT_OK;
}

#endif

edgert_status edgert_pool_run(edgert_pool *self, const edgert_work *works, size_t count,
                              edgert_scratch *scratch, const edgert_watch *watch,
                              edgert_error *error) {
  edgert_stack_commit();
#if EDGERT_THREADS
  if (self->threads > 1 && !pool_is_sequential(works, count) && !pool_is_small(works, count) &&
      !atomic_flag_test_and_set_explicit(&self->busy, memory_order_acquire)) {
    edgert_status status = pool_run_together(self, works, count, watch, error);
    atomic_flag_clear_explicit(&self->busy, memory_order_release);
    return status;
  }
#endif
  edgert_status status =
      edgert_scratch_reserve(scratch, &self->allocator, pool_scratch_size(works, count), error);
  return status == EDGERT_OK ? pool_run_alone(self, works, count, scratch, watch, error) : status;
}

edgert_status edgert_pool_create(const edgert_allocator *allocator, unsigned threads,
                                 edgert_pool **out, edgert_error *error) {
  *out = NULL;
  if (threads == 0) threads = 1;
  if (threads > POOL_MAX_THREADS) threads = POOL_MAX_THREADS;
  if (!EDGERT_THREADS) threads = 1;
  void *made;
  edgert_status status = edgert_allocate_array(
      allocator, 1, sizeof **out + threads * sizeof(pool_worker), &made, error);
  if (status != EDGERT_OK) return status;
  edgert_pool *self = made;
  self->allocator = *allocator;
  self->threads = threads;
  self->started = 1;
  atomic_flag_clear(&self->busy);
  edgert_mutex_create(&self->lock);
  edgert_condition_create(&self->wake);
  edgert_condition_create(&self->finished);
  for (unsigned i = 0; i < threads; ++i) {
    self->workers[i].pool = self;
    self->workers[i].index = i;
  }
#if EDGERT_THREADS
  for (unsigned i = 1; i < threads && status == EDGERT_OK; ++i) {
    status = edgert_thread_start(&self->workers[i].thread, pool_worker_main, &self->workers[i],
                                 error);
    if (status == EDGERT_OK) self->started += 1;
  }
#endif
  if (status != EDGERT_OK)
    edgert_pool_destroy(self);
  else
    *out = self;
  return status;
}

void edgert_pool_destroy(edgert_pool *self) {
  if (!self) return;
#if EDGERT_THREADS
  edgert_mutex_lock(&self->lock);
  self->stop = 1;
  edgert_condition_wake_all(&self->wake);
  edgert_mutex_unlock(&self->lock);
  for (unsigned i = 1; i < self->started; ++i) edgert_thread_join(&self->workers[i].thread);
#endif
  for (unsigned i = 0; i < self->threads; ++i)
    edgert_deallocate(&self->allocator, self->workers[i].scratch.memory);
  edgert_condition_destroy(&self->wake);
  edgert_condition_destroy(&self->finished);
  edgert_mutex_destroy(&self->lock);
  edgert_allocator allocator = self->allocator;
  edgert_deallocate(&allocator, self);
}

unsigned edgert_pool_threads(const edgert_pool *self) { return self->threads; }
