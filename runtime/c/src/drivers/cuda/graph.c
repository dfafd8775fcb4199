/* Recorded commands as graphs of CUDA's: from the second time on that commands are run, they are
 * given to the GPU at once.
 *
 * A graph is what the same calls gave that launch the commands, taken down in a stream in which
 * nothing runs. It is for the places that the slots are bound to; a program that runs again gets its
 * memory in the same places. For results that the app holds for a while there are several graphs,
 * the latest first, and where there would be more, the last one gets the new places. What CUDA makes
 * no graph of is launched. */
#include "../../drivers.h"

#if EDGERT_WITH_CUDA

#include "cuda.h"

#define GRAPH_KEPT 6   /* of the same commands */
#define GRAPH_LEAST 3u /* commands: fewer are launched as quickly */

typedef struct graph_place {
  CUdeviceptr address;
  uint64_t length;
  int read_only, kind;
} graph_place;

typedef struct graph {
  struct graph *next;
  CUgraphExec exec;
  size_t slot_count;
  graph_place *places;
} graph;

/* What goes with commands. */
typedef struct graphs {
  graph *first;
  int is_again; /* they were run before */
  int is_refused;
  cuda_chunk *bytes; /* what their updates copy from, or NULL */
} graphs;

static graph_place graph_place_of(const edgert_range *slot) {
  const edgert_buffer *buffer = slot->buffer;
  if (!buffer) return (graph_place){0, 0, 0, 0};
  const cuda_chunk *chunk = (buffer->whole ? buffer->whole : buffer)->memory;
  return (graph_place){cuda_address(slot), slot->length, buffer->read_only, chunk->kind};
}

static int graph_fits(const graph *self, const edgert_range *slots, size_t slot_count) {
  if (self->slot_count != slot_count) return 0;
  for (size_t i = 0; i < slot_count; ++i) {
    const graph_place *had = &self->places[i], is = graph_place_of(&slots[i]);
    if (had->address != is.address || had->length != is.length ||
        had->read_only != is.read_only || had->kind != is.kind)
      return 0;
  }
  return 1;
}

static void graph_free(cuda_device *self, graph *made) {
  if (made->exec) (void)self->cuda.GraphExecDestroy(made->exec); /* once it has run */
  edgert_deallocate(&self->device.object.allocator, made->places);
  edgert_deallocate(&self->device.object.allocator, made);
}

/* Take down the commands; NULL where CUDA does not, or where they cannot be launched: to launch them
 * says why. */
static CUgraph graph_record(cuda_device *self, const edgert_commands *commands,
                            const edgert_range *slots, size_t slot_count, cuda_chunk **bytes) {
  CUgraph recorded = NULL;
  edgert_mutex_lock(&self->recording);
  CUresult result = CUDA_SUCCESS;
  if (!self->recorder) result = self->cuda.StreamCreate(&self->recorder, CU_STREAM_NON_BLOCKING);
  if (result == CUDA_SUCCESS)
    result = self->cuda.StreamBeginCapture(self->recorder, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (result == CUDA_SUCCESS) {
    edgert_status status =
        cuda_encode(self, commands, slots, slot_count, self->recorder, bytes, NULL);
    result = self->cuda.StreamEndCapture(self->recorder, &recorded);
    if (recorded && (status != EDGERT_OK || result != CUDA_SUCCESS)) {
      (void)self->cuda.GraphDestroy(recorded);
      recorded = NULL;
    }
  }
  edgert_mutex_unlock(&self->recording);
  return recorded;
}

/* Whether a graph now does what was recorded. */
static int graph_take(cuda_device *self, graph *made, CUgraph recorded) {
  CUgraphNode node;
  int why;
  if (made->exec) {
    if (self->cuda.GraphExecUpdate(made->exec, recorded, &node, &why) == CUDA_SUCCESS) return 1;
    (void)self->cuda.GraphExecDestroy(made->exec);
    made->exec = NULL;
  }
  return self->cuda.GraphInstantiateWithFlags(&made->exec, recorded, 0) == CUDA_SUCCESS;
}

static edgert_status graph_create(cuda_device *self, size_t slot_count, graph **out,
                                  edgert_error *error) {
  const edgert_allocator *allocator = &self->device.object.allocator;
  void *made, *places;
  edgert_status status = edgert_allocate_array(allocator, 1, sizeof **out, &made, error);
  if (status != EDGERT_OK) return status;
  status = edgert_allocate_array(allocator, slot_count, sizeof(graph_place), &places, error);
  if (status != EDGERT_OK) {
    edgert_deallocate(allocator, made);
    return status;
  }
  *out = made;
  **out = (graph){.slot_count = slot_count, .places = places};
  return EDGERT_OK;
}

static int graph_is_worth(const edgert_commands *commands) {
  uint32_t count = 0;
  for (size_t i = 0; i < commands->count && count < GRAPH_LEAST; ++i)
    count += (uint32_t)cuda_is_work(&commands->commands[i]);
  return count == GRAPH_LEAST;
}

/* Another graph for these slots, or the last one made it; where it cannot be, `*out` is NULL. */
static edgert_status graph_make(cuda_device *self, graphs *all, const edgert_commands *commands,
                                const edgert_range *slots, size_t slot_count, graph **last,
                                size_t count, graph **out, edgert_error *error) {
  graph *made = NULL;
  edgert_status status = EDGERT_OK;
  if (count == GRAPH_KEPT && (*last)->slot_count == slot_count) {
    made = *last;
    *last = NULL;
  } else {
    status = graph_create(self, slot_count, &made, error);
    if (status != EDGERT_OK) return status;
  }
  CUgraph recorded = graph_record(self, commands, slots, slot_count, &all->bytes);
  int is_made = recorded && graph_take(self, made, recorded);
  if (recorded) (void)self->cuda.GraphDestroy(recorded);
  if (!is_made) {
    graph_free(self, made);
    all->is_refused = 1;
    return self->lost ? cuda_fail(self, self->lost, "recording", error) : EDGERT_OK;
  }
  for (size_t i = 0; i < slot_count; ++i) made->places[i] = graph_place_of(&slots[i]);
  *out = made;
  return EDGERT_OK;
}

edgert_status cuda_graph_find(cuda_device *self, edgert_commands *commands,
                              const edgert_range *slots, size_t slot_count, CUgraphExec *out,
                              edgert_error *error) {
  graphs *all = commands->translation;
  size_t count = 0;
  *out = NULL;
  if (!all) {
    void *made;
    if (!self->cuda.GraphLaunch) return EDGERT_OK;
    edgert_status status = edgert_allocate_array(&self->device.object.allocator, 1, sizeof *all,
                                                 &made, error);
    if (status != EDGERT_OK) return status;
    commands->translation = all = made;
    *all = (graphs){.is_refused = !graph_is_worth(commands)};
  }
  if (all->is_refused || !all->is_again) {
    all->is_again = 1;
    return EDGERT_OK;
  }
  graph **place = &all->first, **last = place, *found = NULL;
  for (; *place && !graph_fits(*place, slots, slot_count); place = &(*place)->next, ++count)
    last = place;
  if (*place) {
    found = *place;
    *place = found->next;
  } else {
    edgert_status status = graph_make(self, all, commands, slots, slot_count, last, count, &found,
                                      error);
    if (status != EDGERT_OK || !found) return status;
  }
  found->next = all->first;
  all->first = found;
  *out = found->exec;
  return EDGERT_OK;
}

void cuda_forget(edgert_device *device, edgert_commands *commands) {
  cuda_device *self = (cuda_device *)device;
  graphs *all = commands->translation;
  int is_inside = cuda_enter(self, NULL) == EDGERT_OK;
  for (graph *next, *each = all->first; each; each = next) {
    next = each->next;
    graph_free(self, each);
  }
  if (all->bytes) {
    edgert_mutex_lock(&self->lock);
    all->bytes->point = self->submitted;
    edgert_mutex_unlock(&self->lock);
    cuda_chunk_give(self, all->bytes);
  }
  if (is_inside) cuda_leave(self);
  edgert_deallocate(&self->device.object.allocator, all);
  commands->translation = NULL;
}

#endif
