/* Calls in the background: their order, failures, cancelling, callbacks that do what they may; and
 * calls on memory of the caller's own.
 *
 *     calls MODULE THREADS    0: edgert was built without threads
 *
 * Function 0 takes a f32[4] and gives how often it was called, as a f32[4]; the exit status is 0
 * where all went well and all memory came back. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edgert/edgert.h"

enum { CALLS = 40, CHAIN = 20 };

static atomic_int problems;
static atomic_long live;

#define EXPECT(condition)                                       \
  do {                                                          \
    if (!(condition)) {                                         \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition);   \
      atomic_fetch_add(&problems, 1);                           \
    }                                                           \
  } while (0)

static void *allocate(void *user, size_t size, size_t alignment) {
  (void)user;
  if (alignment < sizeof(void *)) alignment = sizeof(void *);
  void *memory = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory) atomic_fetch_add(&live, 1);
  return memory;
}

static void give_back(void *user, void *memory) {
  (void)user;
  atomic_fetch_sub(&live, 1);
  free(memory);
}

static const edgert_allocator allocator = {NULL, allocate, give_back};
static edgert_device *device;
static edgert_module *module;
static edgert_value input = {.kind = EDGERT_TENSOR};

static edgert_session *new_session(void) {
  edgert_session_options options = {.size = sizeof options, .allocator = allocator};
  edgert_session *session;
  edgert_error error;
  if (edgert_session_create(module, device, &options, &session, &error)) {
    fprintf(stderr, "%s\n", error.message);
    exit(1);
  }
  return session;
}

/* The number that a call gave, and the tensor's end. */
static int take(edgert_value *result) {
  if (result->kind != EDGERT_TENSOR) return -1;
  float value;
  memcpy(&value, edgert_tensor_data(result->as.tensor), sizeof value);
  edgert_tensor_release(result->as.tensor);
  result->kind = EDGERT_NONE;
  return (int)value;
}

static void begin(edgert_session *session, edgert_value *result, edgert_call_done done, void *user,
                  edgert_call **out) {
  edgert_error error;
  EXPECT(edgert_call_begin(session, 0, &input, 1, result, 1, done, user, out, &error) == EDGERT_OK);
}

/* Calls of a session run in the order in which they were begun; its handle may go before them. */
static void check_order(void) {
  edgert_session *session = new_session();
  edgert_call *calls[CALLS];
  edgert_value results[CALLS];
  edgert_error error;
  for (int i = 0; i < CALLS; ++i) begin(session, &results[i], NULL, NULL, &calls[i]);
  edgert_session_release(session);
  EXPECT(edgert_call_wait(calls[CALLS - 1], &error) == EDGERT_OK);
  for (int i = 0; i < CALLS; ++i) {
    EXPECT(edgert_call_is_done(calls[i]));
    EXPECT(edgert_call_cancel(calls[i]) == 0);
    EXPECT(edgert_call_wait(calls[i], NULL) == EDGERT_OK);
    EXPECT(take(&results[i]) == i + 1);
    edgert_call_release(calls[i]);
  }
}

/* Releasing is waiting. */
static void check_release(void) {
  edgert_session *session = new_session();
  edgert_call *call;
  edgert_value result;
  begin(session, &result, NULL, NULL, &call);
  edgert_call_release(call);
  EXPECT(take(&result) == 1);
  edgert_call_release(NULL);
  edgert_session_release(session);
}

/* What is wrong with a call is the call's own status, and the next one goes on. */
static void check_failure(void) {
  edgert_session *session = new_session();
  edgert_value wrong = {.kind = EDGERT_I32_VALUE}, results[2];
  edgert_call *bad, *good;
  edgert_error error;
  EXPECT(edgert_call_begin(session, 0, &wrong, 1, &results[0], 1, NULL, NULL, &bad, &error) == 0);
  begin(session, &results[1], NULL, NULL, &good);
  EXPECT(edgert_call_wait(good, &error) == EDGERT_OK);
  EXPECT(edgert_call_wait(bad, &error) == EDGERT_INVALID_ARGUMENT);
  EXPECT(error.status == EDGERT_INVALID_ARGUMENT && strstr(error.message, "tensor"));
  EXPECT(results[0].kind == EDGERT_NONE);
  EXPECT(take(&results[1]) == 1);
  edgert_call_release(bad);
  edgert_call_release(good);
  edgert_session_release(session);
}

/* A callback that holds the session's thread until the gate opens. */
typedef struct gate {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int entered, open, left;
  edgert_call *later;
} gate;

static void gate_set(gate *self, int *flag) {
  pthread_mutex_lock(&self->lock);
  *flag = 1;
  pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->lock);
}

static void gate_wait(gate *self, int *flag) {
  pthread_mutex_lock(&self->lock);
  while (!*flag) pthread_cond_wait(&self->changed, &self->lock);
  pthread_mutex_unlock(&self->lock);
}

static void pass_gate(void *user, edgert_call *call) {
  gate *self = user;
  edgert_error error;
  EXPECT(edgert_call_is_done(call) && edgert_call_wait(call, &error) == EDGERT_OK);
  gate_set(self, &self->entered);
  gate_wait(self, &self->open);
  EXPECT(edgert_call_wait(self->later, &error) == EDGERT_INVALID_ARGUMENT);
  edgert_call_release(self->later); /* ends without its handle, since nothing can wait here */
  gate_set(self, &self->left);
}

static void note(void *user, edgert_call *call) {
  edgert_error error;
  atomic_store((atomic_int *)user, edgert_call_wait(call, &error) == EDGERT_CANCELLED ? 2 : 1);
}

static void check_cancelling(void) {
  gate self = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, NULL};
  edgert_session *session = new_session();
  edgert_value results[4];
  edgert_call *first, *second, *third;
  edgert_error error;
  atomic_int told = 0, told_later = 0;
  begin(session, &results[0], pass_gate, &self, &first);
  gate_wait(&self, &self.entered);
  EXPECT(!edgert_call_is_done(first)); /* its callback has not returned */
  EXPECT(edgert_call_cancel(first) == 0);
  begin(session, &results[1], note, &told, &second);
  begin(session, &results[2], NULL, NULL, &third);
  begin(session, &results[3], note, &told_later, &self.later);
  EXPECT(edgert_call_cancel(second) == 1);
  EXPECT(!edgert_call_is_done(second) && !edgert_call_is_done(third));
  gate_set(&self, &self.open);
  EXPECT(edgert_call_wait(second, &error) == EDGERT_CANCELLED);
  EXPECT(strcmp(edgert_status_name(error.status), "cancelled") == 0);
  EXPECT(self.left); /* the first callback has returned before the second call's turn */
  EXPECT(atomic_load(&told) == 2 && results[1].kind == EDGERT_NONE);
  EXPECT(edgert_call_wait(third, &error) == EDGERT_OK);
  EXPECT(take(&results[0]) == 1 && take(&results[2]) == 2);
  edgert_call_release(first);
  edgert_call_release(second);
  edgert_call_release(third);
  while (!atomic_load(&told_later)) sched_yield();
  EXPECT(atomic_load(&told_later) == 1 && take(&results[3]) == 3);
  edgert_session_release(session);
}

/* A chain of calls, each begun by the callback of the one before; nobody has a handle, and the
 * session's last reference is the last call's. */
typedef struct chain {
  edgert_session *session; /* borrowed: the calls hold it */
  edgert_value result;
  int count;
  atomic_int ended;
} chain;

static void go_on(void *user, edgert_call *call) {
  chain *self = user;
  edgert_error error;
  EXPECT(edgert_call_wait(call, &error) == EDGERT_OK);
  EXPECT(take(&self->result) == ++self->count);
  if (self->count < CHAIN)
    begin(self->session, &self->result, go_on, self, NULL);
  else
    atomic_store(&self->ended, 1);
}

static void check_chain(void) {
  long before = atomic_load(&live);
  chain self = {.session = new_session()};
  begin(self.session, &self.result, go_on, &self, NULL);
  edgert_session_release(self.session);
  while (!atomic_load(&self.ended) || atomic_load(&live) > before) sched_yield();
  EXPECT(self.count == CHAIN);
}

/* A call whose callback gives its handle back. */
static void release_mine(void *user, edgert_call *call) {
  edgert_call_release(call);
  atomic_store((atomic_int *)user, 1);
}

static void check_release_in_callback(void) {
  edgert_session *session = new_session();
  edgert_value result;
  edgert_call *call;
  atomic_int told = 0;
  begin(session, &result, release_mine, &told, &call);
  while (!atomic_load(&told)) sched_yield();
  EXPECT(take(&result) == 1);
  edgert_session_release(session);
}

/* Several threads begin calls of one session, and call it, too. */
static void *hammer(void *user) {
  edgert_session *session = user;
  edgert_error error;
  for (int i = 0; i < CALLS; ++i) {
    edgert_value results[2];
    edgert_call *call;
    begin(session, &results[0], NULL, NULL, &call);
    EXPECT(edgert_session_call(session, 0, &input, 1, &results[1], 1, &error) == EDGERT_OK);
    (void)edgert_call_cancel(call);
    edgert_status status = edgert_call_wait(call, &error);
    EXPECT(status == EDGERT_OK || status == EDGERT_CANCELLED);
    EXPECT((take(&results[0]) > 0) == (status == EDGERT_OK));
    EXPECT(take(&results[1]) > 0);
    edgert_call_release(call);
  }
  return NULL;
}

static void check_threads(void) {
  edgert_session *sessions[2] = {new_session(), new_session()};
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i)
    if (pthread_create(&threads[i], NULL, hammer, sessions[i / 2])) exit(1);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  edgert_session_release(sessions[0]);
  edgert_session_release(sessions[1]);
}

static void check_without_threads(void) {
  edgert_session *session = new_session();
  edgert_value result;
  edgert_call *call;
  atomic_int told = 0;
  begin(session, &result, note, &told, &call);
  EXPECT(atomic_load(&told) == 1 && edgert_call_is_done(call));
  EXPECT(take(&result) == 1);
  edgert_call_release(call);
  edgert_session_release(session);
}

/* Calls on the caller's own memory, at whatever address, and what is left as tensors. */
static void check_places(void) {
  edgert_session *session = new_session();
  edgert_error error;
  const int64_t shape[] = {4}, other[] = {5};
  char memory[1 + 4 * sizeof(float)], back[3 + 4 * sizeof(float)];
  float one[4] = {1, 2, 3, 4};
  memcpy(memory + 1, one, sizeof one);
  const edgert_place given = {NULL, memory + 1, sizeof one, EDGERT_F32, 1, shape};
  const edgert_place wanted = {NULL, back + 3, sizeof one, EDGERT_F32, 1, shape};
  edgert_place argument = given, result = wanted;
  EXPECT(!edgert_session_call_places(session, 0, &argument, 1, &result, 1, &error));
  memcpy(one, back + 3, sizeof one);
  EXPECT(!result.tensor && result.data == back + 3 && one[0] == 1 && one[3] == 1);
  result.shape = other; /* not what comes */
  argument.tensor = input.as.tensor;
  EXPECT(!edgert_session_call_places(session, 0, &argument, 1, &result, 1, &error));
  EXPECT(result.tensor && result.rank == 1 && result.shape[0] == 4 && result.size == sizeof one);
  EXPECT(result.data == edgert_tensor_data(result.tensor) && *(float *)result.data == 2);
  edgert_tensor_release(result.tensor);
  argument = (edgert_place){NULL, NULL, 0, EDGERT_F32, 1, shape};
  EXPECT(edgert_session_call_places(session, 0, &argument, 1, &result, 1, &error) ==
         EDGERT_INVALID_ARGUMENT);
  EXPECT(!result.tensor);
  argument = given;
  argument.size -= 1;
  EXPECT(edgert_session_call_places(session, 0, &argument, 1, &result, 1, &error));
  argument = given;
  EXPECT(edgert_session_call_places(session, 0, &argument, 1, &result, 0, &error));
  EXPECT(edgert_session_call_places(session, 9, &argument, 1, &result, 1, &error) ==
         EDGERT_NOT_FOUND);
  result = wanted;
  result.size -= 1;
  EXPECT(edgert_session_call_places(session, 0, &argument, 1, &result, 1, &error));
  edgert_session_release(session);
}

int main(int count, char **arguments) {
  edgert_error error = {EDGERT_OK, "give a module and whether there are threads"};
  edgert_device_options options = {.size = sizeof options, .threads = 2, .allocator = allocator};
  edgert_module_options reading = {.size = sizeof reading, .allocator = allocator};
  const int64_t shape[] = {4};
  const float values[4] = {1, 2, 3, 4};
  if (count < 3 || edgert_device_create("cpu", &options, &device, &error) ||
      edgert_module_open(arguments[1], &reading, &module, &error) ||
      edgert_tensor_create(device, EDGERT_F32, 1, shape, &input.as.tensor, &error) ||
      edgert_tensor_write(input.as.tensor, values, sizeof values, &error)) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  check_places();
  check_order();
  check_release();
  check_failure();
  check_chain();
  check_release_in_callback();
  if (atoi(arguments[2])) {
    check_cancelling();
    check_threads();
  } else {
    check_without_threads();
  }
  edgert_tensor_release(input.as.tensor);
  edgert_module_release(module);
  edgert_device_release(device);
  EXPECT(atomic_load(&live) == 0);
  return atomic_load(&problems) != 0;
}
