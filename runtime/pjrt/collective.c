/* Collectives between devices' tensors in the host's memory: what each gives, and what each gets.
 *
 * All are along the first axis, so they are pieces of memory one behind the other. What several
 * devices get alike is made once and shared. Reductions go through a group's devices in its order.
 */
#include <stdlib.h>
#include <string.h>

#include "reduce.h"
#include "route.h"

/* Memory that several tensors lie in. */
typedef struct block {
  atomic_size_t references;
  char *data;
} block;

static block *block_make(size_t size) {
  block *made = malloc(sizeof *made);
  if (!made) return NULL;
  size_t room = (size / EDGERT_ALIGNMENT + 1) * EDGERT_ALIGNMENT;
  made->data = aligned_alloc(EDGERT_ALIGNMENT, room);
  if (made->data) {
    atomic_init(&made->references, 1);
    return made;
  }
  free(made);
  return NULL;
}

static void block_release(void *user) {
  block *self = user;
  if (atomic_fetch_sub(&self->references, 1) != 1) return;
  free(self->data);
  free(self);
}

/* A device's tensor on all of a block. */
static pjrt_error *block_show(block *self, size_t size, edgert_device *device, uint32_t type,
                              size_t rank, const int64_t *shape, edgert_tensor **out) {
  edgert_error error;
  atomic_fetch_add(&self->references, 1);
  if (edgert_tensor_wrap(device, type, rank, shape, self->data, size, block_release, self,
                         out, &error))
    return pjrt_fail_edgert(&error);
  return NULL;
}

pjrt_error *pjrt_tensor_make(edgert_device *device, uint32_t type, size_t rank,
                             const int64_t *shape, const void *data, size_t size,
                             edgert_tensor **out) {
  edgert_error error;
  if (!edgert_tensor_create(device, type, rank, shape, out, &error) &&
      (!size || !edgert_tensor_write(*out, data, size, &error)))
    return NULL;
  edgert_tensor_release(*out);
  *out = NULL;
  return pjrt_fail_edgert(&error);
}

static void tensor_let_go(void *user) { edgert_tensor_release(user); }

/* Another device's tensor on the same memory. */
static pjrt_error *share(edgert_tensor *tensor, edgert_device *device, edgert_tensor **out) {
  edgert_error error;
  const void *data = edgert_tensor_data(tensor);
  size_t size = (size_t)edgert_tensor_size(tensor);
  /* A tensor of no elements has no memory to share. */
  if (!size || (uintptr_t)data % EDGERT_ALIGNMENT)
    return pjrt_tensor_make(device, edgert_tensor_type(tensor), edgert_tensor_rank(tensor),
                            edgert_tensor_shape(tensor), data, size, out);
  if (edgert_tensor_wrap(device, edgert_tensor_type(tensor), edgert_tensor_rank(tensor),
                         edgert_tensor_shape(tensor), (void *)(uintptr_t)data, size,
                         tensor_let_go, edgert_tensor_retain(tensor), out, &error))
    return pjrt_fail_edgert(&error);
  return NULL;
}

pjrt_error *pjrt_zeros_like(const edgert_tensor *tensor, edgert_device *device,
                            edgert_tensor **out) {
  size_t size = (size_t)edgert_tensor_size(tensor);
  void *data = calloc(size + 1, 1);
  if (!data) return pjrt_out_of_memory();
  pjrt_error *failed =
      pjrt_tensor_make(device, edgert_tensor_type(tensor), edgert_tensor_rank(tensor),
                       edgert_tensor_shape(tensor), data, size, out);
  free(data);
  return failed;
}

/* Of pairs of from and to; whom nobody gives something has zeros. */
static pjrt_error *permute(const pjrt_step *step, edgert_device *const *devices, size_t device_count,
                           edgert_tensor *const *given, edgert_tensor **made) {
  pjrt_error *failed = NULL;
  for (size_t i = 0; i < step->group_count && !failed; ++i) {
    size_t from = step->groups[i].devices[0], to = step->groups[i].devices[1];
    if (!given[from]) continue;
    if (from == to)
      made[to] = edgert_tensor_retain(given[from]);
    else
      failed = share(given[from], devices[to], &made[to]);
  }
  for (size_t i = 0; i < device_count && !failed; ++i)
    if (!made[i] && given[i]) failed = pjrt_zeros_like(given[i], devices[i], &made[i]);
  return failed;
}

/* What a group's devices give, and what its `place`th gets, of `size` bytes, written to `out`. */
typedef struct speech {
  const pjrt_step *step;
  const void *given[PJRT_MAX_DEVICES];
  size_t count;
  uint32_t type;
  size_t bytes; /* that each gives */
} speech;

static size_t part_begins(const speech *self, size_t place) {
  return self->bytes / self->count * place;
}

static bool write_part(const speech *self, size_t place, size_t size, char *out) {
  switch (self->step->kind) {
    case STEP_ALL_REDUCE:
      return pjrt_reduce(self->step->reduction, self->type, self->given, self->count, 0, size, out);
    case STEP_REDUCE_SCATTER:
      return pjrt_reduce(self->step->reduction, self->type, self->given, self->count,
                         part_begins(self, place), size, out);
    case STEP_ALL_GATHER:
      for (size_t i = 0; i < self->count; ++i)
        memcpy(out + i * self->bytes, self->given[i], self->bytes);
      return true;
    case STEP_ALL_TO_ALL:
      for (size_t i = 0; i < self->count; ++i)
        memcpy(out + part_begins(self, i), (const char *)self->given[i] + part_begins(self, place),
               part_begins(self, 1));
      return true;
    default:
      return false;
  }
}

/* Whether all devices of a group get the same. */
static bool is_alike(pjrt_step_kind kind) {
  return kind == STEP_ALL_REDUCE || kind == STEP_ALL_GATHER;
}

bool pjrt_shape_after(const pjrt_step *step, size_t count, size_t rank, int64_t *shape) {
  if (step->kind == STEP_ALL_REDUCE) return true;
  if (!rank) return false;
  if (step->kind == STEP_ALL_GATHER) {
    shape[0] *= (int64_t)count;
    return true;
  }
  if (shape[0] % (int64_t)count) return false;
  if (step->kind == STEP_REDUCE_SCATTER) shape[0] /= (int64_t)count;
  return true;
}

static pjrt_error *speak(const pjrt_step *step, const pjrt_group *group,
                         edgert_device *const *devices, edgert_tensor *const *given,
                         edgert_tensor **made) {
  edgert_tensor *first = given[group->devices[0]];
  size_t rank = edgert_tensor_rank(first);
  int64_t shape[EDGERT_MAX_RANK];
  memcpy(shape, edgert_tensor_shape(first), rank * sizeof *shape);
  speech self = {.step = step,
                 .count = group->count,
                 .type = step->type,
                 .bytes = (size_t)edgert_tensor_size(first)};
  bool is_even = pjrt_shape_after(step, group->count, rank, shape);
  for (size_t i = 0; i < group->count; ++i) {
    edgert_tensor *tensor = given[group->devices[i]];
    self.given[i] = edgert_tensor_data(tensor);
    is_even = is_even && edgert_tensor_size(tensor) == self.bytes &&
              (edgert_tensor_type(tensor) & 0xffu) == (step->type & 0xffu);
  }
  if (!is_even)
    return pjrt_fail(PJRT_INTERNAL, "what devices give each other does not fit together");
  size_t size = self.bytes;
  if (step->kind == STEP_ALL_GATHER) size *= group->count;
  if (step->kind == STEP_REDUCE_SCATTER) size /= group->count;
  block *shared = NULL;
  pjrt_error *failed = NULL;
  for (size_t i = 0; i < group->count && !failed; ++i) {
    if (!shared) {
      shared = block_make(size);
      if (!shared) return pjrt_out_of_memory();
      if (size && !write_part(&self, i, size, shared->data))
        failed = pjrt_fail(PJRT_UNIMPLEMENTED,
                           "edgec reduces no elements of type %s by this operation",
                           edgert_type_name(self.type));
    }
    size_t device = group->devices[i];
    if (!failed)
      failed = block_show(shared, size, devices[device], self.type, rank, shape, &made[device]);
    if (!is_alike(step->kind) || failed || i + 1 == group->count) {
      block_release(shared);
      shared = NULL;
    }
  }
  return failed;
}

static pjrt_error *give_all(const pjrt_group *group, edgert_device *const *devices,
                            edgert_tensor *const *given, edgert_tensor **made) {
  pjrt_error *failed = NULL;
  edgert_tensor *first = given[group->devices[0]];
  made[group->devices[0]] = edgert_tensor_retain(first);
  for (size_t i = 1; i < group->count && !failed; ++i)
    failed = share(first, devices[group->devices[i]], &made[group->devices[i]]);
  return failed;
}

pjrt_error *pjrt_collect(const pjrt_step *step, edgert_device *const *devices, size_t device_count,
                         edgert_tensor *const *given, edgert_tensor **made) {
  pjrt_error *failed = NULL;
  for (size_t i = 0; i < device_count; ++i) made[i] = NULL;
  if (step->kind == STEP_PERMUTE) failed = permute(step, devices, device_count, given, made);
  for (size_t i = 0; i < step->group_count && !failed && step->kind != STEP_PERMUTE; ++i) {
    const pjrt_group *group = &step->groups[i];
    if (!given[group->devices[0]]) continue;
    bool is_first = step->kind == STEP_BROADCAST || group->count == 1;
    failed = is_first ? give_all(group, devices, given, made)
                      : speak(step, group, devices, given, made);
  }
  for (size_t i = 0; i < device_count && failed; ++i) {
    edgert_tensor_release(made[i]);
    made[i] = NULL;
  }
  return failed;
}

/* --- devices that the host does not see into -------------------------------------------------- */

/* Another device's copy of a tensor. */
static pjrt_error *copy_to(const edgert_tensor *tensor, edgert_device *device,
                           edgert_tensor **out) {
  size_t size = (size_t)edgert_tensor_size(tensor);
  block *bytes = block_make(size);
  edgert_error error;
  if (!bytes) return pjrt_out_of_memory();
  pjrt_error *failed = NULL;
  if (size && edgert_tensor_read(tensor, bytes->data, size, &error))
    failed = pjrt_fail_edgert(&error);
  else
    failed = block_show(bytes, size, device, edgert_tensor_type(tensor),
                        edgert_tensor_rank(tensor), edgert_tensor_shape(tensor), out);
  block_release(bytes);
  return failed;
}

pjrt_error *pjrt_collect_copies(const pjrt_step *step, edgert_device *host,
                                pjrt_device *const *devices, size_t device_count,
                                edgert_tensor *const *given, edgert_tensor **made) {
  edgert_device *hosts[PJRT_MAX_DEVICES] = {0};
  edgert_tensor *brought[PJRT_MAX_DEVICES] = {0}, *answers[PJRT_MAX_DEVICES] = {0};
  pjrt_error *failed = NULL;
  for (size_t i = 0; i < device_count && !failed; ++i) {
    hosts[i] = host;
    made[i] = NULL;
    if (given[i]) failed = copy_to(given[i], host, &brought[i]);
  }
  if (!failed) failed = pjrt_collect(step, hosts, device_count, brought, answers);
  for (size_t i = 0; i < device_count && !failed; ++i)
    if (answers[i]) failed = copy_to(answers[i], devices[i]->device, &made[i]);
  for (size_t i = 0; i < device_count; ++i) {
    edgert_tensor_release(brought[i]);
    edgert_tensor_release(answers[i]);
    if (!failed) continue;
    edgert_tensor_release(made[i]);
    made[i] = NULL;
  }
  return failed;
}
