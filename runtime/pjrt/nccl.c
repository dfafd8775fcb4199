#include "nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As much of nccl.h as is used, which has not changed since 2.10. */
typedef struct ncclComm *nccl_comm;
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 };
enum { NCCL_BYTES = 1, NCCL_NOTHING = -1 };
#define NCCL_FUNCTIONS(X)                                                                 \
  X(CommInitAll, (nccl_comm *, int, const int *))                                         \
  X(CommDestroy, (nccl_comm))                                                             \
  X(CommAbort, (nccl_comm))                                                               \
  X(GroupStart, (void))                                                                   \
  X(GroupEnd, (void))                                                                     \
  X(AllReduce, (const void *, void *, size_t, int, int, nccl_comm, void *))               \
  X(AllGather, (const void *, void *, size_t, int, nccl_comm, void *))                    \
  X(ReduceScatter, (const void *, void *, size_t, int, int, nccl_comm, void *))           \
  X(Broadcast, (const void *, void *, size_t, int, int, nccl_comm, void *))               \
  X(Send, (const void *, size_t, int, int, nccl_comm, void *))                            \
  X(Recv, (void *, size_t, int, int, nccl_comm, void *))
#define NCCL_POINTER(name, arguments) int(*name) arguments;
#define NCCL_NAME(name, arguments) "nccl" #name,

/* Devices that speak together, in the order of their ranks. */
typedef struct nccl_members {
  struct nccl_members *next;
  size_t count;
  int ids[PJRT_MAX_DEVICES];
  nccl_comm comms[PJRT_MAX_DEVICES];
} nccl_members;

typedef struct pjrt_nccl {
  struct {
    NCCL_FUNCTIONS(NCCL_POINTER)
    const char *(*GetErrorString)(int);
  } library;
  nccl_members *members;
  bool is_over; /* a GPU failed */
} pjrt_nccl;

static pjrt_error *nccl_fail(const pjrt_nccl *self, const char *what, int status) {
  return pjrt_fail(PJRT_INTERNAL,
                   "NCCL failed: %s: %s; NCCL_DEBUG=WARN in the environment lets it say why", what,
                   self->library.GetErrorString(status));
}

/* --- the library ------------------------------------------------------------------------------ */

static bool library_read(pjrt_nccl *self, void *library) {
  static const char *const names[] = {NCCL_FUNCTIONS(NCCL_NAME)};
  void **at = (void **)&self->library;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (!(at[i] = dlsym(library, names[i]))) return false;
  *(void **)&self->library.GetErrorString = dlsym(library, "ncclGetErrorString");
  return self->library.GetErrorString != NULL;
}

/* The first of the client's files, a line each, that is the library; it stays loaded. */
static pjrt_nccl *library_load(const char *files) {
  pjrt_nccl *self = calloc(1, sizeof *self);
  char *text = strdup(files), *rest;
  bool is_there = false;
  for (char *file = self && text ? strtok_r(text, "\n", &rest) : NULL; file && !is_there;
       file = strtok_r(NULL, "\n", &rest)) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    is_there = library && library_read(self, library);
  }
  free(text);
  if (is_there) return self;
  free(self);
  return NULL;
}

static void say_once(pjrt_client *client, const char *why) {
  if (client->is_told_of_host) return;
  client->is_told_of_host = true;
  fprintf(stderr, "edgec: devices speak to each other through the host's memory: %s\n", why);
}

bool pjrt_nccl_is_for(pjrt_client *client, pjrt_device *const *devices, size_t count) {
  edgert_native natives[PJRT_MAX_DEVICES];
  bool is_for = true;
  pthread_mutex_lock(&client->speaking);
  for (size_t i = 0; i < count && is_for; ++i) {
    if (edgert_device_native(devices[i]->device, &natives[i], NULL)) {
      say_once(client, "they are no GPUs that NCCL knows");
      is_for = false;
    }
    for (size_t j = 0; j < i && is_for; ++j)
      if (natives[i].index == natives[j].index) {
        say_once(client, "NCCL does not take a GPU that is named twice");
        is_for = false;
      }
  }
  if (is_for && !client->nccl) client->nccl = library_load(client->nccl_files);
  if (is_for && !client->nccl) {
    say_once(client, "NCCL is not here (pip install nvidia-nccl-cu12, or nvidia-nccl-cu13)");
    is_for = false;
  }
  pthread_mutex_unlock(&client->speaking);
  return is_for;
}

/* --- what it carries out ---------------------------------------------------------------------- */

/* How it counts what is reduced: its type, and how many of them an element is. */
typedef struct nccl_kind {
  int type;
  size_t parts, bytes; /* of a part */
  int operation;
} nccl_kind;

static nccl_kind kind_of(const pjrt_step *step) {
  static const struct {
    uint32_t type;
    int number;
    size_t parts, bytes;
  } types[] = {
      {EDGERT_I8, 0, 1, 1},  {EDGERT_U8, 1, 1, 1},   {EDGERT_BOOL, 1, 1, 1}, {EDGERT_I32, 2, 1, 4},
      {EDGERT_U32, 3, 1, 4}, {EDGERT_I64, 4, 1, 8},  {EDGERT_U64, 5, 1, 8},  {EDGERT_F16, 6, 1, 2},
      {EDGERT_F32, 7, 1, 4}, {EDGERT_F64, 8, 1, 8},  {EDGERT_BF16, 9, 1, 2}, {EDGERT_C64, 7, 2, 4},
      {EDGERT_C128, 8, 2, 8},
  };
  /* Truths are bytes of 0 and 1: all of them is the least, any of them the most. */
  static const int of_numbers[REDUCTION_COUNT] = {0, 1, 2, 3, -1, -1, -1};
  static const int of_truths[REDUCTION_COUNT] = {2, 3, 2, 3, 3, 2, -1};
  nccl_kind found = {.type = NCCL_NOTHING, .operation = NCCL_NOTHING};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (types[i].type == step->type)
      found = (nccl_kind){types[i].number, types[i].parts, types[i].bytes,
                          (step->type == EDGERT_BOOL ? of_truths : of_numbers)[step->reduction]};
  if (found.parts == 2 && step->reduction != REDUCE_ADD) found.operation = NCCL_NOTHING;
  return found;
}

bool pjrt_nccl_takes(const pjrt_step *step, const char **out_why) {
  *out_why = "has no such reduction of such elements";
  if (step->kind != STEP_ALL_REDUCE && step->kind != STEP_REDUCE_SCATTER) return true;
  nccl_kind kind = kind_of(step);
  return kind.type != NCCL_NOTHING && kind.operation != NCCL_NOTHING;
}

/* --- members ---------------------------------------------------------------------------------- */

static pjrt_error *members_find(pjrt_client *client, pjrt_device *const *devices,
                                const size_t *places, size_t count, const nccl_members **out) {
  pjrt_nccl *self = client->nccl;
  int ids[PJRT_MAX_DEVICES], indices[PJRT_MAX_DEVICES];
  edgert_native native;
  edgert_error error;
  for (size_t i = 0; i < count; ++i) {
    pjrt_device *device = devices[places ? places[i] : i];
    ids[i] = device->id;
    if (edgert_device_native(device->device, &native, &error)) return pjrt_fail_edgert(&error);
    indices[i] = (int)native.index;
  }
  for (*out = self->members; *out; *out = (*out)->next)
    if ((*out)->count == count && !memcmp((*out)->ids, ids, count * sizeof *ids)) return NULL;
  nccl_members *made = calloc(1, sizeof *made);
  if (!made) return pjrt_out_of_memory();
  int status = self->library.CommInitAll(made->comms, (int)count, indices);
  if (status != NCCL_SUCCESS) {
    free(made);
    return nccl_fail(self, "letting GPUs find each other", status);
  }
  made->count = count;
  memcpy(made->ids, ids, count * sizeof *ids);
  made->next = self->members;
  *out = self->members = made;
  return NULL;
}

pjrt_error *pjrt_nccl_join(pjrt_client *client, pjrt_device *const *devices, size_t count,
                           pjrt_step *step) {
  pjrt_error *failed = NULL;
  pthread_mutex_lock(&client->speaking);
  if (step->kind == STEP_PERMUTE)
    failed = members_find(client, devices, NULL, count, &step->members);
  for (size_t i = 0; i < step->group_count && !failed && step->kind != STEP_PERMUTE; ++i) {
    pjrt_group *group = &step->groups[i];
    if (group->count > 1)
      failed = members_find(client, devices, group->devices, group->count, &group->members);
  }
  pthread_mutex_unlock(&client->speaking);
  step->is_native = !failed;
  return failed;
}

/* --- collectives ------------------------------------------------------------------------------ */

/* One that is on its way: what devices give and get, and where that lies. */
typedef struct speech {
  const pjrt_nccl *nccl;
  const pjrt_step *step;
  pjrt_device *const *devices;
  size_t count;
  edgert_tensor *const *given;
  edgert_tensor **made;
  uint64_t from[PJRT_MAX_DEVICES], to[PJRT_MAX_DEVICES];
  void *streams[PJRT_MAX_DEVICES];
} speech;

static const void *source(const speech *self, size_t device, size_t offset) {
  return (const void *)(uintptr_t)(self->from[device] + offset);
}

static void *target(const speech *self, size_t device, size_t offset) {
  return (void *)(uintptr_t)(self->to[device] + offset);
}

/* A tensor for what a device gets. */
static pjrt_error *make_room(speech *self, size_t device, size_t others) {
  edgert_tensor *given = self->given[device];
  edgert_error error;
  size_t rank = edgert_tensor_rank(given);
  int64_t shape[EDGERT_MAX_RANK];
  memcpy(shape, edgert_tensor_shape(given), rank * sizeof *shape);
  if (!pjrt_shape_after(self->step, others, rank, shape))
    return pjrt_fail(PJRT_INTERNAL, "what devices give each other does not fit together");
  if (edgert_tensor_create(self->devices[device]->device, edgert_tensor_type(given), rank, shape,
                           &self->made[device], &error))
    return pjrt_fail_edgert(&error);
  return NULL;
}

/* Where all lies that devices give and get, and the streams that fill it in. */
static pjrt_error *find_places(speech *self) {
  edgert_error error;
  edgert_native native;
  for (size_t i = 0; i < self->count; ++i) {
    if (!self->given[i]) continue;
    if (!self->made[i])
      return pjrt_fail(PJRT_INTERNAL, "a collective leaves device %zu of the mesh out", i);
    if (edgert_device_native(self->devices[i]->device, &native, &error) ||
        edgert_tensor_address(self->given[i], &self->from[i], &error) ||
        edgert_tensor_address(self->made[i], &self->to[i], &error))
      return pjrt_fail_edgert(&error);
    self->streams[i] = native.stream;
  }
  return NULL;
}

/* Of a permutation whoever gets something of another. */
static bool is_of_another(const pjrt_step *step, size_t device) {
  for (size_t i = 0; i < step->group_count; ++i)
    if (step->groups[i].devices[1] == device) return step->groups[i].devices[0] != device;
  return false;
}

/* What every device gets: room, its own tensor again, or zeros. */
static pjrt_error *make_all(speech *self) {
  const pjrt_step *step = self->step;
  pjrt_error *failed = NULL;
  for (size_t i = 0; i < step->group_count && !failed; ++i) {
    const pjrt_group *group = &step->groups[i];
    if (step->kind == STEP_PERMUTE) {
      if (group->devices[0] == group->devices[1] && self->given[group->devices[0]])
        self->made[group->devices[0]] = edgert_tensor_retain(self->given[group->devices[0]]);
      continue;
    }
    for (size_t j = 0; j < group->count && !failed; ++j) {
      size_t device = group->devices[j];
      if (!self->given[device]) continue;
      if (group->count == 1)
        self->made[device] = edgert_tensor_retain(self->given[device]);
      else
        failed = make_room(self, device, group->count);
    }
  }
  for (size_t i = 0; i < self->count && !failed; ++i) {
    if (!self->given[i] || self->made[i] || step->kind != STEP_PERMUTE) continue;
    if (is_of_another(step, i))
      failed = make_room(self, i, 1);
    else
      failed = pjrt_zeros_like(self->given[i], self->devices[i]->device, &self->made[i]);
  }
  return failed ? failed : find_places(self);
}

static int exchange(const speech *self, const pjrt_group *group, size_t place, nccl_comm comm) {
  size_t device = group->devices[place];
  size_t piece = (size_t)edgert_tensor_size(self->given[device]) / group->count;
  int status = NCCL_SUCCESS;
  for (size_t i = 0; i < group->count && status == NCCL_SUCCESS; ++i) {
    status = self->nccl->library.Send(source(self, device, i * piece), piece, NCCL_BYTES, (int)i,
                                      comm, self->streams[device]);
    if (status == NCCL_SUCCESS)
      status = self->nccl->library.Recv(target(self, device, i * piece), piece, NCCL_BYTES, (int)i,
                                        comm, self->streams[device]);
  }
  return status;
}

/* One member's part of what its group does. */
static int speak(const speech *self, const pjrt_group *group, size_t place, nccl_comm comm) {
  size_t device = group->devices[place];
  size_t bytes = (size_t)edgert_tensor_size(self->given[device]);
  const void *from = source(self, device, 0);
  void *to = target(self, device, 0), *stream = self->streams[device];
  nccl_kind kind = kind_of(self->step);
  switch (self->step->kind) {
    case STEP_ALL_REDUCE:
      return self->nccl->library.AllReduce(from, to, bytes / kind.bytes, kind.type, kind.operation,
                                           comm, stream);
    case STEP_REDUCE_SCATTER:
      return self->nccl->library.ReduceScatter(from, to, bytes / group->count / kind.bytes,
                                               kind.type, kind.operation, comm, stream);
    case STEP_ALL_GATHER:
      return self->nccl->library.AllGather(from, to, bytes, NCCL_BYTES, comm, stream);
    case STEP_BROADCAST:
      return self->nccl->library.Broadcast(from, to, bytes, NCCL_BYTES, 0, comm, stream);
    default:
      return exchange(self, group, place, comm);
  }
}

/* All that a permutation moves from one device to another. */
static int permute(const speech *self) {
  const nccl_comm *comms = self->step->members->comms;
  int status = NCCL_SUCCESS;
  for (size_t i = 0; i < self->step->group_count && status == NCCL_SUCCESS; ++i) {
    size_t from = self->step->groups[i].devices[0], to = self->step->groups[i].devices[1];
    if (from == to || !self->given[from]) continue;
    size_t bytes = (size_t)edgert_tensor_size(self->given[from]);
    status = self->nccl->library.Send(source(self, from, 0), bytes, NCCL_BYTES, (int)to,
                                      comms[from], self->streams[from]);
    if (status == NCCL_SUCCESS)
      status = self->nccl->library.Recv(target(self, to, 0), bytes, NCCL_BYTES, (int)from,
                                        comms[to], self->streams[to]);
  }
  return status;
}

/* Give every device its part. */
static pjrt_error *speak_all(const speech *self) {
  const pjrt_step *step = self->step;
  int status = self->nccl->library.GroupStart();
  if (status == NCCL_SUCCESS && step->kind == STEP_PERMUTE) status = permute(self);
  for (size_t i = 0; i < step->group_count && step->kind != STEP_PERMUTE; ++i) {
    const pjrt_group *group = &step->groups[i];
    if (group->count == 1 || !self->given[group->devices[0]]) continue;
    for (size_t j = 0; j < group->count && status == NCCL_SUCCESS; ++j)
      status = speak(self, group, j, group->members->comms[j]);
  }
  int ended = self->nccl->library.GroupEnd();
  if (status == NCCL_SUCCESS && ended != NCCL_IN_PROGRESS) status = ended;
  return status == NCCL_SUCCESS ? NULL : nccl_fail(self->nccl, "giving GPUs a collective", status);
}

/* Say to each device what uses its memory. */
static pjrt_error *note_all(const speech *self) {
  edgert_error error;
  for (size_t i = 0; i < self->count; ++i) {
    if (!self->given[i]) continue;
    edgert_tensor *used[] = {self->given[i], self->made[i]};
    if (edgert_device_enqueued(self->devices[i]->device, used, 2, &error))
      return pjrt_fail_edgert(&error);
  }
  return NULL;
}

/* Speak while nobody takes memory of the devices or gives it back. */
static pjrt_error *speak_alone(const speech *self) {
  edgert_error error;
  pjrt_error *failed = NULL;
  size_t held = 0;
  for (; held < self->count && !failed; ++held)
    if (edgert_device_hold(self->devices[held]->device, &error)) {
      failed = pjrt_fail_edgert(&error);
      break;
    }
  if (!failed) failed = speak_all(self);
  while (held) edgert_device_let_go(self->devices[--held]->device);
  return failed;
}

pjrt_error *pjrt_nccl_collect(pjrt_client *client, const pjrt_step *step,
                              pjrt_device *const *devices, size_t count,
                              edgert_tensor *const *given, edgert_tensor **made) {
  speech self = {.nccl = client->nccl,
                 .step = step,
                 .devices = devices,
                 .count = count,
                 .given = given,
                 .made = made};
  bool is_empty = true;
  memset(made, 0, count * sizeof *made);
  pjrt_error *failed = make_all(&self);
  for (size_t i = 0; i < count; ++i)
    is_empty = is_empty && (!given[i] || !edgert_tensor_size(given[i]));
  if (!failed && !is_empty) {
    pthread_mutex_lock(&client->speaking);
    failed = client->nccl->is_over
                 ? pjrt_fail(PJRT_UNAVAILABLE, "a GPU of the mesh has failed; begin a new process")
                 : speak_alone(&self);
    pthread_mutex_unlock(&client->speaking);
    if (!failed) failed = note_all(&self);
    if (failed) pjrt_nccl_abort(client);
  }
  for (size_t i = 0; i < count && failed; ++i) {
    edgert_tensor_release(made[i]);
    made[i] = NULL;
  }
  return failed;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void part(pjrt_nccl *self, int (*how)(nccl_comm)) {
  for (nccl_members *each = self->members; each;) {
    nccl_members *next = each->next;
    for (size_t i = 0; i < each->count; ++i) (void)how(each->comms[i]);
    free(each);
    each = next;
  }
  self->members = NULL;
}

void pjrt_nccl_abort(pjrt_client *client) {
  pthread_mutex_lock(&client->speaking);
  if (client->nccl) {
    client->nccl->is_over = true;
    part(client->nccl, client->nccl->library.CommAbort);
  }
  pthread_mutex_unlock(&client->speaking);
}

void pjrt_nccl_stop(pjrt_client *client) {
  if (!client->nccl) return;
  part(client->nccl, client->nccl->library.CommDestroy);
  free(client->nccl);
  client->nccl = NULL;
}
