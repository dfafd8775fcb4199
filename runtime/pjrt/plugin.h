/* What the plugin's files share: errors, events, and the objects behind PJRT's handles.
 *
 * What PJRT's functions do is done when they return, and what failed is their own error: the events
 * that they give are ready, but for those that tell when memory of the caller's is needed no more.
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

/* An event that is not yet ready, with one reference for PJRT's caller and one for who makes it
 * ready, once; NULL without memory. */
pjrt_event *pjrt_event_make(void);
void pjrt_event_set(pjrt_event *event);

/* An event that is ready from the start. */
pjrt_event *pjrt_event_ready(void);

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
  edgert_device *device;
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

struct pjrt_client {
  char version[64];
  pjrt_device devices[PJRT_MAX_DEVICES];
  pjrt_device *device_list[PJRT_MAX_DEVICES];
  pjrt_memory *memory_list[PJRT_MAX_DEVICES];
  size_t device_count;
  pjrt_compiler compiler;
  char *refused; /* what becomes of a program that edgec refuses: "error", or "xla" */
};

/* --- buffers ---------------------------------------------------------------------------------- */

struct pjrt_buffer {
  pjrt_device *device;
  pthread_mutex_t lock;  /* for what follows */
  edgert_tensor *tensor; /* NULL: deleted */
  edgert_tensor *lent;   /* the same while somebody else holds its memory */
  size_t lent_count;
  pjrt_type type;
  size_t bytes;
  size_t rank;
  int64_t shape[EDGERT_MAX_RANK];
  int64_t minor_to_major[EDGERT_MAX_RANK];
};

/* A buffer that takes the tensor over, also where there is no memory for it: then NULL. */
pjrt_buffer *pjrt_buffer_make(pjrt_device *device, edgert_tensor *tensor, pjrt_type type,
                              size_t rank, const int64_t *shape);

/* Its tensor, held for the caller; NULL: deleted. */
edgert_tensor *pjrt_buffer_hold(pjrt_buffer *buffer);

/* --- executables ------------------------------------------------------------------------------ */

typedef struct pjrt_output {
  pjrt_type type;
  size_t rank;
  int64_t shape[EDGERT_MAX_RANK];
} pjrt_output;

/* Compiled and loaded in one: handles to it are counted. */
struct pjrt_executable {
  atomic_size_t references;
  pjrt_client *client;
  pjrt_device *device;
  pjrt_device *devices[1];
  edgert_module *module;
  edgert_session *session;
  size_t function;
  char *elsewhere; /* what the compiler's process calls a program that XLA runs there, else NULL */
  atomic_bool is_deleted;
  char *name;
  char *fingerprint;
  char assignment[32];
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
};

/* Call a program that XLA runs in the compiler's process: `inputs` are tensors, and so `results`. */
pjrt_error *pjrt_elsewhere_call(pjrt_executable *self, const edgert_value *inputs,
                                edgert_value *results);

/* The error of a refusal; NULL: the answer is none. */
pjrt_error *pjrt_answer_refusal(const pjrt_answer *answer);

void pjrt_executable_release(pjrt_executable *executable);

#define PJRT_MEMORY_KIND "device"

#endif
