/* What the plugin's files share: errors, events, and the objects behind PJRT's handles.
 *
 * A call may return before it ends: then its buffers hold values that come later, and what fails is
 * told by the events of the call and of its buffers, and by what is asked of them. All else is done
 * when a function returns, and what failed is its own error.
 */
#ifndef EDGEC_PJRT_PLUGIN_H
#define EDGEC_PJRT_PLUGIN_H

#include <pthread.h>
#include <stdatomic.h>

#include "abi.h"
#include "edgert/edgert.h"

/* --- errors and events ------------------------------------------------------------------------ */

/* An error with a sentence; never NULL, so that it can be returned. */
pjrt_error *pjrt_fail(pjrt_code code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for what edgert said. */
pjrt_error *pjrt_fail_edgert(const edgert_error *error);

/* The same for a text that is not terminated. */
pjrt_error *pjrt_fail_text(pjrt_code code, const char *text, size_t size);

pjrt_error *pjrt_out_of_memory(void);

pjrt_error *pjrt_error_copy(const pjrt_error *error);

/* An event that is not yet over, with one reference for PJRT's caller and one for who sets it, once;
 * NULL without memory. `error` is what failed, or NULL, and the event takes it. */
pjrt_event *pjrt_event_make(void);
void pjrt_event_set(pjrt_event *event, pjrt_error *error);

/* An event that is over from the start. */
pjrt_event *pjrt_event_ready(void);

pjrt_event *pjrt_event_retain(pjrt_event *event);
void pjrt_event_release(pjrt_event *event);
bool pjrt_event_is_over(pjrt_event *event);

/* Wait; what failed, as an error of the caller's own. */
pjrt_error *pjrt_event_wait(pjrt_event *event);

/* Have `callback` told once it is over, by who sets it, or here. */
pjrt_error *pjrt_event_tell(pjrt_event *event, pjrt_on_ready callback, void *user);

/* --- work in the background ------------------------------------------------------------------- */

typedef struct pjrt_job {
  struct pjrt_job *next;
  void (*run)(struct pjrt_job *job); /* and free it */
} pjrt_job;

typedef struct pjrt_queue {
  pthread_mutex_t lock; /* for what follows */
  pthread_cond_t changed;
  pjrt_job *first, **last;
  size_t count; /* with the one that runs */
  bool has_thread, is_ending;
  pthread_t thread; /* from the first job on */
} pjrt_queue;

void pjrt_queue_start(pjrt_queue *queue);

/* Have a job run behind those that are there; waits where they are many. False: there is no thread
 * for it. */
bool pjrt_queue_add(pjrt_queue *queue, pjrt_job *job);

/* Wait for all jobs, and end the thread. */
void pjrt_queue_stop(pjrt_queue *queue);

/* --- types ------------------------------------------------------------------------------------ */

/* PJRT's type as edgert has it, 0: edgert has none; its bytes; and back, PJRT_INVALID: PJRT has none. */
uint32_t pjrt_type_to_edgert(pjrt_type type);
size_t pjrt_type_bytes(pjrt_type type);
pjrt_type pjrt_type_of_edgert(uint32_t type);

/* --- devices ---------------------------------------------------------------------------------- */

struct pjrt_memory {
  pjrt_device *device;
  char text[64];
};

struct pjrt_device {
  pjrt_client *client;
  int id;
  char driver[16]; /* "cpu" */
  char kind[128];  /* what it calls itself */
  char text[160];  /* "edgec:0 (cpu)" */
  char what[32];   /* what is compiled for: the driver, and a GPU's capability: "cuda:90" */
  edgert_device *device;
  pjrt_queue queue;
  pjrt_memory memory;
  pjrt_memory *memories[1];
};

#define PJRT_MAX_DEVICES 8

/* --- the compiler ----------------------------------------------------------------------------- */

/* A process that compiles, started when it is first needed; jobs take turns. */
typedef struct pjrt_compiler {
  pthread_mutex_t lock;
  char *command; /* its words, each on a line */
  int process;   /* 0: none */
  int jobs;      /* file numbers of its input and output */
  int answers;
} pjrt_compiler;

/* One part of a message. */
typedef struct pjrt_part {
  const void *data;
  size_t size;
} pjrt_part;

/* An answer: parts in memory of its own, each with a 0 behind it. */
typedef struct pjrt_answer {
  char *memory;
  pjrt_part *parts;
  size_t count;
} pjrt_answer;

pjrt_error *pjrt_compiler_start(pjrt_compiler *compiler);
/* Ask for an answer; `*out_died` says whether there is none because the process has ended. */
pjrt_error *pjrt_compiler_ask(pjrt_compiler *compiler, const pjrt_part *parts, size_t count,
                              pjrt_answer *out_answer, bool *out_died);
void pjrt_answer_release(pjrt_answer *answer);
void pjrt_compiler_stop(pjrt_compiler *compiler);

/* --- client ----------------------------------------------------------------------------------- */

/* Calls Python that a program names by number, with arrays in the host's memory; not 0: it failed,
 * and `said` has up to `room` bytes of text with a 0 behind them (`edgec/plugins/pjrt/callbacks.py`).
 * Without `said`, what the number names is kept for a call that comes later (`room` 1), or was (0). */
typedef int (*pjrt_python)(int64_t number, void *const *inputs, void *const *outputs,
                           char *said, size_t room);

struct pjrt_client {
  char version[64];
  pjrt_device devices[PJRT_MAX_DEVICES];
  pjrt_device *device_list[PJRT_MAX_DEVICES];
  pjrt_memory *memory_list[PJRT_MAX_DEVICES];
  size_t device_count;
  pjrt_compiler compiler;
  pjrt_python python; /* NULL: none is there */
  char *refused; /* what becomes of a program that edgec refuses: "error", or "xla" */
  /* How GPUs speak to each other (`nccl.h`): */
  char *nccl_files;         /* where NCCL may be, a line each */
  pthread_mutex_t speaking; /* for what follows, and held while devices are given a collective */
  struct pjrt_nccl *nccl;   /* NULL: not needed yet, or not here */
  bool is_told_of_host;     /* that the host's memory is in between */
  edgert_device *host;      /* a processor, where it is; NULL: not needed yet */
};

/* --- buffers ---------------------------------------------------------------------------------- */

/* What a buffer holds, also after the buffer has been deleted. */
typedef struct pjrt_value pjrt_value;

/* A value that takes the tensor over, also where there is no memory for it: then NULL. With `made` it
 * is filled before that event is set, if it is set without an error. */
pjrt_value *pjrt_value_make(edgert_tensor *tensor, pjrt_event *made);
void pjrt_value_fill(pjrt_value *value, edgert_tensor *tensor);
pjrt_value *pjrt_value_retain(pjrt_value *value);
void pjrt_value_release(pjrt_value *value);
bool pjrt_value_is_there(const pjrt_value *value);

/* Whether the caller's reference is the only one, so that it may do with the value as it likes. */
bool pjrt_value_is_alone(const pjrt_value *value);

/* The event after which it is there, the value's own. */
pjrt_event *pjrt_value_made(pjrt_value *value);

/* Wait for its tensor, which stays the value's; or what failed. */
pjrt_error *pjrt_value_wait(pjrt_value *value, edgert_tensor **out_tensor);

struct pjrt_buffer {
  pjrt_device *device;
  pthread_mutex_t lock; /* for what follows */
  pjrt_value *value;    /* NULL: deleted */
  pjrt_value *lent;     /* the same while somebody else holds its memory */
  size_t lent_count;
  pjrt_type type;
  size_t bytes;
  size_t rank;
  int64_t shape[EDGERT_MAX_RANK];
  int64_t minor_to_major[EDGERT_MAX_RANK];
};

/* A buffer that takes the value over, also where there is no memory for it: then NULL. So where the
 * value is NULL. */
pjrt_buffer *pjrt_buffer_make(pjrt_device *device, pjrt_value *value, pjrt_type type, size_t rank,
                              const int64_t *shape);

/* Its value, held for the caller; NULL: deleted. */
pjrt_value *pjrt_buffer_hold(pjrt_buffer *buffer);

/* --- executables ------------------------------------------------------------------------------ */

typedef struct pjrt_output {
  pjrt_type type;
  size_t rank;
  int64_t shape[EDGERT_MAX_RANK];
} pjrt_output;

typedef struct pjrt_made pjrt_made;

/* What a call costs on one device, counted when it was compiled. */
enum {
  COST_FLOPS, /* that it adds and multiplies */
  COST_MOVED, /* bytes that operations read and write, each on its own */
  COST_HELD,  /* bytes, beside arguments and results */
  COST_COUNT
};

/* What several devices do, one step after the other (`route.h`). */
typedef struct pjrt_route pjrt_route;

/* Compiled and loaded in one: handles to it are counted. */
struct pjrt_executable {
  atomic_size_t references;
  pjrt_client *client;
  pjrt_device *device; /* the first, behind whose work calls are put */
  pjrt_device *devices[PJRT_MAX_DEVICES];
  size_t device_count;
  edgert_module *module; /* NULL: devices only speak to each other */
  char *path;      /* the module's file, or NULL */
  pjrt_part bytes; /* where it has none, its bytes, which are the module's */
  edgert_session *sessions[PJRT_MAX_DEVICES];
  size_t function;
  char *function_name;                       /* with a route all that it calls, a name a line */
  pjrt_route *route;                         /* NULL: the function is all that is done */
  pjrt_part route_bytes, outputs_bytes;      /* as they were read */
  edgert_tensor *numbers[PJRT_MAX_DEVICES];  /* with a route: the device's, a u32 without axes */
  bool is_on_cpus;                           /* with a route: devices' memory is the host's */
  const char **shardings;                    /* of arguments, then results; NULL: it has none */
  size_t *sharding_sizes;
  char *sharding_bytes;
  size_t sharding_bytes_size;
  atomic_uint_least64_t nanoseconds; /* that the last call took; at first more than any */
  bool has_costs;
  pjrt_named_value costs[COST_HELD]; /* as PJRT's caller is told */
  int64_t input_bytes, output_bytes, held_bytes; /* on one device */
  int64_t alias_bytes;                           /* of arguments in which results lie */
  pjrt_part costs_bytes;                         /* as they were read */
  pjrt_part program; /* as it was given to be compiled, of several devices each one's; or none */
  char *elsewhere; /* what the compiler's process calls a program that XLA runs there, else NULL */
  atomic_bool is_deleted;
  char *name;
  char *fingerprint;
  char assignment[8 + 8 * PJRT_MAX_DEVICES];
  size_t assignment_size;
  size_t input_count;
  uint8_t *donated; /* by input: whether its memory is given away */
  size_t output_count;
  pjrt_output *outputs;
  pjrt_type *output_types;
  int64_t *output_dims;
  size_t *output_ranks;
  const char **output_kinds;
  size_t *output_kind_sizes;
  const pjrt_memory_layout **output_layouts;
  const pjrt_memory_layout **input_layouts; /* NULL: unknown */
};

/* Call a program that XLA runs in the compiler's process: `inputs` are tensors, and so `results`. */
pjrt_error *pjrt_elsewhere_call(pjrt_executable *self, const edgert_value *inputs,
                                edgert_value *results);

/* Call a program for several devices: `inputs` are each device's one after the other, and so
 * `results`. */
pjrt_error *pjrt_walk(pjrt_executable *executable, const edgert_value *inputs,
                      edgert_value *results);

/* A route from its numbers; `functions` are the module's, in the order of their names. */
pjrt_error *pjrt_route_read(const pjrt_part *part, const size_t *functions, size_t function_count,
                            pjrt_route **out);
size_t pjrt_route_inputs(const pjrt_route *route); /* how many */
size_t pjrt_route_results(const pjrt_route *route);
bool pjrt_route_calls_python(const pjrt_route *route);

/* Have all Python that a route names kept for a call that comes later, or let go behind it. */
void pjrt_route_keep_python(const pjrt_client *client, const pjrt_route *route, bool is_kept);
void pjrt_route_free(pjrt_route *route);

/* A copy, which is the owner's to free. */
pjrt_error *pjrt_part_keep(pjrt_part *to, const pjrt_part *from);

/* Give an executable whose module is open the route that it is made of. */
pjrt_error *pjrt_spread_load(pjrt_executable *executable, const pjrt_made *made);

/* How an executable cuts its arrays, as it tells who asks. */
pjrt_error *pjrt_shardings_read(pjrt_executable *executable, const pjrt_part *part);
extern const pjrt_shardings pjrt_shardings_extension;

/* Note what an executable costs, whose `inputs` are these. */
pjrt_error *pjrt_costs_read(pjrt_executable *executable, const pjrt_made *made,
                            const pjrt_output *inputs);

/* Rows one after the other, for arrays of so many axes. */
const pjrt_memory_layout *pjrt_layout_of_rank(size_t rank);
extern const pjrt_layouts pjrt_layouts_extension;

/* The error of a refusal; NULL: the answer is none. */
pjrt_error *pjrt_answer_refusal(const pjrt_answer *answer);

/* What an executable is loaded from; memory stays the caller's. */
struct pjrt_made {
  const char *name, *fingerprint;
  const char *function;  /* with a route, the names of all that it calls, a line each */
  const char *path;      /* the module's file, or */
  pjrt_part bytes;       /* its bytes; */
  const char *elsewhere; /* or what the compiler's process calls a program of XLA's */
  pjrt_part outputs;     /* types, ranks and sizes: of a program of XLA's its results, of a route its
                          * arguments, too, and of a module its results where it does not say them */
  pjrt_part donated;
  pjrt_part costs;     /* of a call, or none */
  pjrt_part program;   /* as it was given to be compiled, of several devices each one's; or none */
  pjrt_part route;     /* what several devices do; of one device's program none */
  pjrt_part shardings; /* how these cut arrays */
};

/* Devices of one program, in its order. */
typedef struct pjrt_place {
  pjrt_device *devices[PJRT_MAX_DEVICES];
  size_t count;
} pjrt_place;

pjrt_error *pjrt_executable_load(const pjrt_place *place, const pjrt_made *made,
                                 pjrt_executable **out);

/* The devices that serialised options name; the first ones where they name none. */
pjrt_error *pjrt_client_place(pjrt_client *client, const char *options, size_t size,
                              pjrt_place *out);

void pjrt_executable_release(pjrt_executable *executable);

#define PJRT_MEMORY_KIND "device"

#endif
