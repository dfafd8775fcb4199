/* What the devices of a program do, one step after the other: calls of the module's functions,
 * collectives between the devices, and loops and branches in which there are such.
 *
 * Values are numbered: a device's arguments first, then what its steps make. All devices go through
 * the same steps, each with values of its own; a loop or a branch has routes of its own, each with
 * values of its own, too.
 */
#ifndef EDGEC_PJRT_ROUTE_H
#define EDGEC_PJRT_ROUTE_H

#include "plugin.h"

/* Steps as the compiler's process numbers them (`edgec/plugins/pjrt/route.py`). */
typedef enum pjrt_step_kind {
  STEP_CALL,
  STEP_ALL_REDUCE,
  STEP_ALL_GATHER,
  STEP_REDUCE_SCATTER,
  STEP_ALL_TO_ALL,
  STEP_PERMUTE,
  STEP_BROADCAST,
  STEP_WHILE, /* two routes: whether to go on, and what is repeated */
  STEP_CASE,  /* a route for each number; any other number takes the last */
  STEP_IF,    /* a route for true, and one for false */
  STEP_PYTHON,
  STEP_KIND_COUNT
} pjrt_step_kind;

/* What a reduction applies, numbered likewise. */
typedef enum pjrt_reduction {
  REDUCE_ADD,
  REDUCE_MULTIPLY,
  REDUCE_MAXIMUM,
  REDUCE_MINIMUM,
  REDUCE_AND,
  REDUCE_OR,
  REDUCE_XOR,
  REDUCTION_COUNT
} pjrt_reduction;

/* Devices that speak to each other; of a permutation a pair of from and to. */
typedef struct pjrt_group {
  size_t count;
  size_t devices[PJRT_MAX_DEVICES];
  const struct nccl_members *members; /* GPUs that speak by NCCL; of a permutation its step's */
} pjrt_group;

/* An array that Python gives: edgert's type, and its sizes. */
typedef struct pjrt_array {
  uint32_t type;
  size_t rank;
  int64_t shape[EDGERT_MAX_RANK];
} pjrt_array;

typedef struct pjrt_step {
  pjrt_step_kind kind;
  size_t input_count, output_count; /* of a collective one each */
  size_t *inputs, *outputs;         /* values */
  size_t gone_count;
  size_t *gone; /* values that nothing needs after this step */
  /* of a call: */
  size_t function;  /* of the module */
  bool is_numbered; /* its last argument is the device's number, a u32 without axes */
  /* of a collective, which is along the first axis: */
  uint32_t type; /* edgert's, of the elements: a module's results do not tell signs of integers */
  pjrt_reduction reduction;
  size_t group_count;
  pjrt_group groups[PJRT_MAX_DEVICES];
  bool is_native; /* GPUs carry it out among themselves (`nccl.h`) */
  const struct nccl_members *members; /* of a permutation: all devices */
  /* of a loop or branch: a loop's routes take all inputs, of which the first `output_count` are what
   * it carries; a branch's take all but the first, which says which. */
  size_t way_count;
  pjrt_route **ways;
  /* of Python: */
  int64_t number;
  bool is_each;       /* every device calls it; else the first does, for all */
  pjrt_array *arrays; /* that it gives, `output_count` of them */
} pjrt_step;

struct pjrt_route {
  size_t device_count, value_count, input_count;
  size_t result_count;
  size_t *results; /* the value that is each result */
  size_t step_count;
  pjrt_step *steps;
  size_t most_cells; /* arguments and results that a call has at most */
  size_t *numbers;   /* what all the lists above lie in */
};

/* Carry out a collective in the host's memory: the tensor of every device, before and after, in the
 * devices' order; the latter are the caller's. All or none. Devices that are not there, whose tensor
 * is NULL, get none: a group has all or none of its devices. */
pjrt_error *pjrt_collect(const pjrt_step *step, edgert_device *const *devices, size_t device_count,
                         edgert_tensor *const *given, edgert_tensor **made);

/* The same for devices whose memory the host does not see: there and back, over a processor's. */
pjrt_error *pjrt_collect_copies(const pjrt_step *step, edgert_device *host,
                                pjrt_device *const *devices, size_t device_count,
                                edgert_tensor *const *given, edgert_tensor **made);

/* The shape that each of a group of so many gets; false: the first axis has no such parts. */
bool pjrt_shape_after(const pjrt_step *step, size_t count, size_t rank, int64_t *shape);

/* A device's tensor of a copy of these bytes; NULL where it fails. */
pjrt_error *pjrt_tensor_make(edgert_device *device, uint32_t type, size_t rank,
                             const int64_t *shape, const void *data, size_t size,
                             edgert_tensor **out);

/* Zeros as many as another tensor has elements. */
pjrt_error *pjrt_zeros_like(const edgert_tensor *tensor, edgert_device *device,
                            edgert_tensor **out);

/* Have Python called with a device's tensors. What it gives each of `count` devices gets, one behind the
 * other; it belongs to the caller, all or none. */
pjrt_error *pjrt_call_python(const pjrt_client *client, const pjrt_step *step,
                             edgert_tensor *const *given, pjrt_device *const *devices, size_t count,
                             edgert_tensor **made);

#endif
