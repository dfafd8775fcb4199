/* A call is owned by its handle; without one, or when its handle was given back on the session's
 * own thread, by that thread. The owner frees it, after it is done. So the thread never holds the
 * last reference to a session whose calls have handles, and whoever releases those finds all gone.
 * Where it does hold the last one, the session is destroyed on it, and it ends. */
#include "call.h"

#include "session.h"

typedef enum call_state { CALL_WAITS, CALL_RUNS, CALL_TELLS, CALL_DONE } call_state;

struct edgert_call {
  edgert_allocator allocator;
  edgert_session *session;
  edgert_call *next;
  edgert_call_done done;
  void *user;
  edgert_value *results;
  size_t result_count;
  size_t function;
  call_state state;
  int is_owned; /* by its handle */
  int is_cancelled;
  int was_last; /* its session went with it */
  edgert_status status;
  edgert_error error;
  size_t argument_count;
  edgert_value arguments[];
};

/* Whether the session, whose own thread this is, went with it. */
static int call_destroy(edgert_call *self) {
  for (size_t i = 0; i < self->argument_count; ++i)
    if (self->arguments[i].kind == EDGERT_TENSOR) edgert_release(self->arguments[i].as.tensor);
  edgert_release(self->session);
  int was_last = self->was_last;
  edgert_allocator allocator = self->allocator;
  edgert_deallocate(&allocator, self);
  return was_last;
}

/* Run a call and tell; it may be gone afterwards, and the session with it: 1. */
static int call_run(edgert_call *self) {
  edgert_runner *runner = &self->session->runner;
  if (self->is_cancelled) {
    if (self->result_count) memset(self->results, 0, self->result_count * sizeof *self->results);
    self->status = EDGERT_FAIL(&self->error, EDGERT_CANCELLED, "the call was cancelled");
  } else {
    self->status =
        edgert_session_call(self->session, self->function, self->arguments, self->argument_count,
                            self->results, self->result_count, &self->error);
  }
  edgert_mutex_lock(&runner->lock);
  self->state = CALL_TELLS;
  edgert_mutex_unlock(&runner->lock);
  if (self->done) self->done(self->user, self);
  edgert_mutex_lock(&runner->lock);
  self->state = CALL_DONE;
  int is_owned = self->is_owned;
  edgert_condition_wake_all(&runner->changed);
  edgert_mutex_unlock(&runner->lock);
  if (is_owned) return 0;
  runner->ending = self;
  return call_destroy(self);
}

/* The next call to run, or NULL: the thread ends. */
static edgert_call *runner_take(edgert_runner *self) {
  edgert_mutex_lock(&self->lock);
  while (!self->first && !self->stop) edgert_condition_wait(&self->changed, &self->lock);
  edgert_call *call = self->first;
  if (call) {
    self->first = call->next;
    call->state = CALL_RUNS;
  }
  edgert_mutex_unlock(&self->lock);
  return call;
}

static void *runner_main(void *argument) {
  edgert_runner *self = argument;
  edgert_call *call;
  while ((call = runner_take(self)) != NULL && !call_run(call)) continue;
  return NULL;
}

static int runner_is_current(const edgert_runner *self) {
  return !EDGERT_THREADS || (self->is_started && edgert_thread_is_current(&self->thread));
}

void edgert_runner_create(edgert_runner *self) {
  edgert_mutex_create(&self->lock);
  edgert_condition_create(&self->changed);
}

void edgert_runner_destroy(edgert_runner *self) {
  if (self->is_started && runner_is_current(self)) {
    self->ending->was_last = 1;
    edgert_thread_detach(&self->thread);
  } else if (self->is_started) {
    edgert_mutex_lock(&self->lock);
    self->stop = 1;
    edgert_condition_wake_all(&self->changed);
    edgert_mutex_unlock(&self->lock);
    edgert_thread_join(&self->thread);
  }
  edgert_condition_destroy(&self->changed);
  edgert_mutex_destroy(&self->lock);
}

/* Queue a call, on a thread that is started for the first one. */
static edgert_status runner_add(edgert_runner *self, edgert_call *call, edgert_error *error) {
  edgert_status status = EDGERT_OK;
  edgert_mutex_lock(&self->lock);
  if (!self->is_started) status = edgert_thread_start(&self->thread, runner_main, self, error);
  if (status == EDGERT_OK) {
    self->is_started = 1;
    if (self->first)
      self->last->next = call;
    else
      self->first = call;
    self->last = call;
    edgert_condition_wake_all(&self->changed);
  }
  edgert_mutex_unlock(&self->lock);
  return status;
}

edgert_status edgert_call_begin(edgert_session *session, size_t function,
                                const edgert_value *arguments, size_t argument_count,
                                edgert_value *results, size_t result_count, edgert_call_done done,
                                void *user, edgert_call **out_call, edgert_error *error) {
  if (out_call) *out_call = NULL;
  edgert_error_clear(error);
  const edgert_allocator *allocator = &session->object.allocator;
  if (argument_count > (SIZE_MAX - sizeof(edgert_call)) / sizeof *arguments)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "there are too many arguments");
  void *made;
  edgert_status status = edgert_allocate_array(
      allocator, 1, sizeof(edgert_call) + argument_count * sizeof *arguments, &made, error);
  if (status != EDGERT_OK) return status;
  edgert_call *self = made;
  self->allocator = *allocator;
  self->session = edgert_retain(session);
  self->done = done;
  self->user = user;
  self->results = results;
  self->result_count = result_count;
  self->function = function;
  self->is_owned = out_call != NULL;
  self->argument_count = argument_count;
  if (argument_count) memcpy(self->arguments, arguments, argument_count * sizeof *arguments);
  for (size_t i = 0; i < argument_count; ++i)
    if (arguments[i].kind == EDGERT_TENSOR) edgert_retain(arguments[i].as.tensor);
  if (out_call) *out_call = self;
  if (!EDGERT_THREADS) {
    (void)call_run(self);
    return EDGERT_OK;
  }
  status = runner_add(&session->runner, self, error);
  if (status == EDGERT_OK) return status;
  if (out_call) *out_call = NULL;
  (void)call_destroy(self);
  return status;
}

/* Whether its status and results are there for this thread; under the lock. */
static int call_is_over(const edgert_call *self) {
  return self->state == CALL_DONE ||
         (self->state == CALL_TELLS && runner_is_current(&self->session->runner));
}

int edgert_call_is_done(edgert_call *call) {
  edgert_runner *runner = &call->session->runner;
  edgert_mutex_lock(&runner->lock);
  int is_over = call_is_over(call);
  edgert_mutex_unlock(&runner->lock);
  return is_over;
}

int edgert_call_cancel(edgert_call *call) {
  edgert_runner *runner = &call->session->runner;
  edgert_mutex_lock(&runner->lock);
  int in_time = call->state == CALL_WAITS;
  if (in_time) call->is_cancelled = 1;
  edgert_mutex_unlock(&runner->lock);
  return in_time;
}

edgert_status edgert_call_wait(edgert_call *call, edgert_error *error) {
  return edgert_call_wait_for(call, UINT64_MAX, error);
}

edgert_status edgert_call_wait_for(edgert_call *call, uint64_t milliseconds, edgert_error *error) {
  edgert_runner *runner = &call->session->runner;
  edgert_error_clear(error);
  uint64_t begin = edgert_nanoseconds(), passed = 0;
  edgert_mutex_lock(&runner->lock);
  int is_endless = runner_is_current(runner) && !call_is_over(call);
  while (!is_endless && !call_is_over(call) && passed < milliseconds) {
    edgert_condition_wait_for(&runner->changed, &runner->lock, milliseconds - passed);
    passed = (edgert_nanoseconds() - begin) / 1000000u;
  }
  int is_over = call_is_over(call);
  edgert_mutex_unlock(&runner->lock);
  if (is_endless)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT,
                       "a callback cannot wait for a call that comes after its own");
  if (!is_over) return EDGERT_FAIL(error, EDGERT_TIMED_OUT, "the call has not ended yet");
  if (error) *error = call->error;
  return call->status;
}

void edgert_call_release(edgert_call *call) {
  if (!call) return;
  edgert_runner *runner = &call->session->runner;
  edgert_mutex_lock(&runner->lock);
  if (call->state != CALL_DONE && runner_is_current(runner)) call->is_owned = 0;
  int is_owned = call->is_owned;
  while (is_owned && call->state != CALL_DONE)
    edgert_condition_wait(&runner->changed, &runner->lock);
  edgert_mutex_unlock(&runner->lock);
  if (is_owned) (void)call_destroy(call);
}
