/* NCCL's and the CUDA driver's calls that a mesh makes, carried out in the host's memory.
 *
 * For tests on machines without GPUs: ranks are threads of one process, "GPUs" are numbers, and a
 * stream has done its work when the call that gave it the work returns. Written after nccl.h and
 * cuda.h; it computes by itself, element by element, and refuses what the real one would refuse.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 16, OK = 0, INVALID = 4 };

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int ranks, arrived, round, aborted, left;
  const void *given[MAX_RANKS];
  void *box[MAX_RANKS][MAX_RANKS]; /* from, to */
  size_t boxed[MAX_RANKS][MAX_RANKS];
} group_t;

typedef struct {
  group_t *group;
  int rank, device;
} comm_t;

typedef struct {
  int receives, peer;
  void *address;
  size_t size;
  comm_t *comm;
} errand_t;

static _Thread_local long current = -1;
static _Thread_local errand_t errands[64];
static _Thread_local int waiting, grouped;

/* --- the driver --- */

int cuInit(unsigned flags) { return flags ? 1 : 0; }
int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return ordinal < 0 || ordinal >= MAX_RANKS ? 101 : 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  *context = (void *)(intptr_t)(device + 1);
  return 0;
}
int cuCtxSetCurrent(void *context) {
  current = (long)(intptr_t)context - 1;
  return 0;
}
int cuStreamCreate(void **stream, unsigned flags) {
  if (current < 0 || flags != 1) return 201;
  *stream = (void *)(intptr_t)(100 + current);
  return 0;
}
int cuStreamSynchronize(void *stream) { return (intptr_t)stream == 100 + current ? 0 : 400; }
int cuMemsetD8Async(uint64_t address, unsigned char value, size_t size, void *stream) {
  if ((intptr_t)stream != 100 + current) return 400;
  memset((void *)(uintptr_t)address, value, size);
  return 0;
}

/* --- communicators --- */

int ncclGetVersion(int *version) {
  *version = 22707;
  return OK;
}
const char *ncclGetErrorString(int status) { return status == INVALID ? "invalid argument" : "?"; }

int ncclCommInitAll(comm_t **comms, int count, const int *devices) {
  if (count < 1 || count > MAX_RANKS) return INVALID;
  for (int i = 0; i < count; i++)
    for (int j = 0; j < i; j++)
      if (devices[i] == devices[j]) return 5;
  group_t *group = calloc(1, sizeof *group);
  pthread_mutex_init(&group->lock, NULL);
  pthread_cond_init(&group->changed, NULL);
  group->ranks = group->left = count;
  for (int i = 0; i < count; i++) {
    comms[i] = malloc(sizeof(comm_t));
    *comms[i] = (comm_t){group, i, devices[i]};
  }
  return OK;
}

static int leave(comm_t *comm, int aborts) {
  group_t *group = comm->group;
  pthread_mutex_lock(&group->lock);
  group->aborted |= aborts;
  pthread_cond_broadcast(&group->changed);
  pthread_mutex_unlock(&group->lock);
  return OK; /* its few bytes stay, as others may still look at them */
}
int ncclCommDestroy(comm_t *comm) { return leave(comm, 0); }
int ncclCommAbort(comm_t *comm) { return leave(comm, 1); }

/* Until all ranks are here; false if somebody has aborted. */
static int meet(group_t *group) {
  pthread_mutex_lock(&group->lock);
  int round = group->round;
  if (++group->arrived == group->ranks) {
    group->arrived = 0;
    group->round++;
    pthread_cond_broadcast(&group->changed);
  }
  while (group->round == round && !group->aborted)
    pthread_cond_wait(&group->changed, &group->lock);
  int met = !group->aborted;
  pthread_mutex_unlock(&group->lock);
  return met;
}

static int mine(comm_t *comm, void *stream) {
  return comm->device == current && (intptr_t)stream == 100 + current;
}

/* --- collectives --- */

static size_t size_of(int type) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type < 0 || type > 9 ? 0 : sizes[type];
}

#define REDUCE(TYPE)                                                                     \
  for (size_t i = 0; i < count; i++) {                                                   \
    TYPE total = ((const TYPE *)from[0])[first + i];                                     \
    for (int r = 1; r < ranks; r++) {                                                    \
      TYPE next = ((const TYPE *)from[r])[first + i];                                    \
      if (operation == 0) total = (TYPE)(total + next);                                  \
      if (operation == 1) total = (TYPE)(total * next);                                  \
      if (operation == 2) total = next > total ? next : total;                           \
      if (operation == 3) total = next < total ? next : total;                           \
    }                                                                                    \
    ((TYPE *)to)[i] = total;                                                             \
  }                                                                                      \
  return OK;

static int reduce(void *to, const void *const *from, int ranks, size_t first, size_t count,
                  int type, int operation) {
  if (operation < 0 || operation > 3) return INVALID;
  switch (type) {
    case 0: REDUCE(int8_t)
    case 1: REDUCE(uint8_t)
    case 2: REDUCE(int32_t)
    case 3: REDUCE(uint32_t)
    case 4: REDUCE(int64_t)
    case 5: REDUCE(uint64_t)
    case 6: REDUCE(_Float16)
    case 7: REDUCE(float)
    case 8: REDUCE(double)
    default: return INVALID;
  }
}

static int reduced(const void *send, void *receive, size_t first, size_t count, int type,
                   int operation, comm_t *comm, void *stream) {
  group_t *group = comm->group;
  if (!mine(comm, stream) || !size_of(type)) return INVALID;
  void *made = malloc(count * size_of(type) + 1);
  group->given[comm->rank] = send;
  int status = OK;
  if (meet(group)) status = reduce(made, group->given, group->ranks, first, count, type, operation);
  if (meet(group)) memcpy(receive, made, count * size_of(type)); /* send may be receive */
  meet(group);
  free(made);
  return status;
}

int ncclAllReduce(const void *send, void *receive, size_t count, int type, int operation,
                  comm_t *comm, void *stream) {
  return reduced(send, receive, 0, count, type, operation, comm, stream);
}
int ncclReduceScatter(const void *send, void *receive, size_t count, int type, int operation,
                      comm_t *comm, void *stream) {
  return reduced(send, receive, count * (size_t)comm->rank, count, type, operation, comm, stream);
}
int ncclAllGather(const void *send, void *receive, size_t count, int type, comm_t *comm,
                  void *stream) {
  group_t *group = comm->group;
  size_t size = count * size_of(type);
  if (!mine(comm, stream) || !size) return INVALID;
  group->given[comm->rank] = send;
  if (meet(group))
    for (int r = 0; r < group->ranks; r++) memcpy((char *)receive + r * size, group->given[r], size);
  meet(group);
  return OK;
}
int ncclBroadcast(const void *send, void *receive, size_t count, int type, int root, comm_t *comm,
                  void *stream) {
  group_t *group = comm->group;
  if (!mine(comm, stream) || root < 0 || root >= group->ranks) return INVALID;
  group->given[comm->rank] = send;
  if (meet(group)) memmove(receive, group->given[root], count * size_of(type));
  meet(group);
  return OK;
}

/* --- pairs: nothing moves before the group of calls ends --- */

int ncclGroupStart(void) {
  grouped++;
  return OK;
}
static int put_off(int receives, void *address, size_t count, int type, int peer, comm_t *comm,
                   void *stream) {
  if (!grouped || !mine(comm, stream) || waiting == 64 || peer >= comm->group->ranks) return INVALID;
  errands[waiting++] = (errand_t){receives, peer, address, count * size_of(type), comm};
  return OK;
}
int ncclSend(const void *address, size_t count, int type, int peer, comm_t *comm, void *stream) {
  return put_off(0, (void *)address, count, type, peer, comm, stream);
}
int ncclRecv(void *address, size_t count, int type, int peer, comm_t *comm, void *stream) {
  return put_off(1, address, count, type, peer, comm, stream);
}
int ncclGroupEnd(void) {
  int count = waiting, status = OK;
  waiting = 0;
  if (--grouped) return INVALID;
  for (int receives = 0; receives < 2; receives++)
    for (int i = 0; i < count; i++) {
      errand_t *each = &errands[i];
      if (each->receives != receives) continue;
      group_t *group = each->comm->group;
      int from = receives ? each->peer : each->comm->rank;
      int to = receives ? each->comm->rank : each->peer;
      pthread_mutex_lock(&group->lock);
      while (!group->aborted && (group->box[from][to] != NULL) != receives)
        pthread_cond_wait(&group->changed, &group->lock);
      if (!group->aborted && !receives) {
        group->box[from][to] = memcpy(malloc(each->size + 1), each->address, each->size);
        group->boxed[from][to] = each->size;
      } else if (!group->aborted) {
        if (group->boxed[from][to] != each->size) status = INVALID;
        else memcpy(each->address, group->box[from][to], each->size);
        free(group->box[from][to]);
        group->box[from][to] = NULL;
      }
      pthread_cond_broadcast(&group->changed);
      pthread_mutex_unlock(&group->lock);
    }
  return status;
}
