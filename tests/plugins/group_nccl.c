/* A `libnccl.so.2` without GPUs: what one thread gives all members of a group between `ncclGroupStart`
 * and `ncclGroupEnd`, carried out in the host's memory when the group of calls ends.
 *
 * Written after nccl.h; it computes element by element, and refuses what the real one would refuse or
 * wait for without end: a member that is left out, members that are asked for different things, two
 * members of one device or stream. GROUP_NCCL=F has a line in the file F for each call.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 16, CALLS = 256, OK = 0, BAD_ARGUMENT = 4, BAD_USAGE = 5 };
enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECEIVE, KINDS };

typedef struct {
  int ranks, left;
} group_t;
typedef struct {
  group_t *group;
  int rank, device;
} comm_t;
typedef struct {
  int kind, type, other; /* its operation, root or peer */
  const void *from;
  void *to;
  size_t count;
  comm_t *comm;
  void *stream;
} call_t;

static call_t calls[CALLS];
static int call_count, depth;

static const char *const kind_names[] = {"all_reduce", "reduce_scatter", "all_gather",
                                         "broadcast",  "send",           "receive"};

const char *ncclGetErrorString(int status) {
  return status == BAD_ARGUMENT ? "invalid argument" : "invalid usage";
}

int ncclCommInitAll(comm_t **comms, int count, const int *devices) {
  if (count < 1 || count > RANKS) return BAD_ARGUMENT;
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < i; ++j)
      if (devices[i] == devices[j]) return BAD_USAGE;
  group_t *group = malloc(sizeof *group);
  *group = (group_t){count, count};
  for (int i = 0; i < count; ++i) {
    comms[i] = malloc(sizeof **comms);
    *comms[i] = (comm_t){group, i, devices[i]};
  }
  return OK;
}

int ncclCommDestroy(comm_t *comm) {
  if (!--comm->group->left) free(comm->group);
  free(comm);
  return OK;
}
int ncclCommAbort(comm_t *comm) { return ncclCommDestroy(comm); }

int ncclGroupStart(void) {
  ++depth;
  return OK;
}

static int put_off(call_t call) {
  const char *file = getenv("GROUP_NCCL");
  FILE *told = file ? fopen(file, "a") : NULL;
  if (told) {
    fprintf(told, "%s of %d\n", kind_names[call.kind], call.comm->group->ranks);
    fclose(told);
  }
  if (!depth || call_count == CALLS || !call.count) return BAD_USAGE;
  calls[call_count++] = call;
  return OK;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, comm_t *comm,
                  void *stream) {
  return put_off((call_t){ALL_REDUCE, type, operation, from, to, count, comm, stream});
}
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation,
                      comm_t *comm, void *stream) {
  return put_off((call_t){REDUCE_SCATTER, type, operation, from, to, count, comm, stream});
}
int ncclAllGather(const void *from, void *to, size_t count, int type, comm_t *comm, void *stream) {
  return put_off((call_t){ALL_GATHER, type, 0, from, to, count, comm, stream});
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, comm_t *comm,
                  void *stream) {
  return put_off((call_t){BROADCAST, type, root, from, to, count, comm, stream});
}
int ncclSend(const void *from, size_t count, int type, int peer, comm_t *comm, void *stream) {
  return put_off((call_t){SEND, type, peer, from, NULL, count, comm, stream});
}
int ncclRecv(void *to, size_t count, int type, int peer, comm_t *comm, void *stream) {
  return put_off((call_t){RECEIVE, type, peer, NULL, to, count, comm, stream});
}

/* --- carrying out ----------------------------------------------------------------------------- */

#define REDUCE(TYPE)                                                 \
  for (size_t i = 0; i < count; ++i) {                               \
    TYPE total = ((const TYPE *)from[0])[first + i];                 \
    for (int r = 1; r < ranks; ++r) {                                \
      TYPE next = ((const TYPE *)from[r])[first + i];                \
      if (operation == 0) total = (TYPE)(total + next);              \
      if (operation == 1) total = (TYPE)(total * next);              \
      if (operation == 2) total = next > total ? next : total;       \
      if (operation == 3) total = next < total ? next : total;       \
    }                                                                \
    ((TYPE *)to)[i] = total;                                         \
  }                                                                  \
  return OK;

static int reduce(void *to, const void *const *from, int ranks, size_t first, size_t count,
                  int type, int operation) {
  if (operation < 0 || operation > 3) return BAD_ARGUMENT;
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
    default: return BAD_ARGUMENT;
  }
}

static size_t size_of(const call_t *call) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return call->type < 0 || call->type > 9 ? 0 : sizes[call->type] * call->count;
}

/* The call of every rank of a group that fits one of them, none left out. */
static int find_all(const call_t *one, const call_t **all) {
  int ranks = one->comm->group->ranks, found = 0;
  memset(all, 0, RANKS * sizeof *all);
  for (int i = 0; i < call_count; ++i) {
    const call_t *call = &calls[i];
    if (call->comm->group != one->comm->group) continue;
    if (call->kind != one->kind || call->type != one->type || call->other != one->other ||
        call->count != one->count || all[call->comm->rank])
      return 0;
    for (int r = 0; r < ranks; ++r)
      if (all[r] && all[r]->stream == call->stream) return 0;
    all[call->comm->rank] = call;
    ++found;
  }
  return found == ranks;
}

static int carry_out(const call_t *one) {
  const call_t *all[RANKS];
  const void *from[RANKS];
  int ranks = one->comm->group->ranks, rank = one->comm->rank;
  size_t size = size_of(one);
  if (!size || !find_all(one, all)) return BAD_USAGE;
  for (int r = 0; r < ranks; ++r) from[r] = all[r]->from;
  if (one->kind == ALL_REDUCE)
    return reduce(one->to, from, ranks, 0, one->count, one->type, one->other);
  if (one->kind == REDUCE_SCATTER)
    return reduce(one->to, from, ranks, one->count * (size_t)rank, one->count, one->type,
                  one->other);
  if (one->kind == BROADCAST) memmove(one->to, from[one->other], size);
  for (int r = 0; r < ranks && one->kind == ALL_GATHER; ++r)
    memcpy((char *)one->to + (size_t)r * size, from[r], size);
  return OK;
}

/* The first send to whoever receives that nobody has taken. */
static int receive(const call_t *one, char *is_taken) {
  for (int i = 0; i < call_count; ++i) {
    const call_t *call = &calls[i];
    if (call->kind != SEND || is_taken[i] || call->comm->group != one->comm->group ||
        call->comm->rank != one->other || call->other != one->comm->rank)
      continue;
    if (size_of(call) != size_of(one)) return BAD_USAGE;
    memcpy(one->to, call->from, size_of(one));
    is_taken[i] = 1;
    return OK;
  }
  return BAD_USAGE;
}

int ncclGroupEnd(void) {
  char is_taken[CALLS] = {0};
  int status = OK;
  if (depth-- != 1) return BAD_USAGE;
  for (int i = 0; i < call_count && status == OK; ++i) {
    if (calls[i].kind == RECEIVE)
      status = receive(&calls[i], is_taken);
    else if (calls[i].kind != SEND)
      status = carry_out(&calls[i]);
  }
  for (int i = 0; i < call_count && status == OK; ++i)
    if (calls[i].kind == SEND && !is_taken[i]) status = BAD_USAGE;
  call_count = 0;
  return status;
}
