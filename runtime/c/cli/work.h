/* What every verb of the command does: read options, open a session, bind inputs, call. */
#ifndef EDGERT_CLI_WORK_H
#define EDGERT_CLI_WORK_H

#include "array.h"

#define MAX_INPUTS 1024

typedef struct options {
  const char *verb;
  const char *module;
  const char *function;
  const char *inputs[MAX_INPUTS];
  size_t input_count;
  const char *output;
  const char *weights;
  const char *device;
  unsigned long threads;
  unsigned long times;
  unsigned long iterations;
  unsigned long long max_steps;
  double seconds;
  int each;
  int json;
} options;

/* What a verb holds while it works. */
typedef struct work {
  options options;
  edgert_timed timed; /* set before `open_session`, for what wants to know */
  void *timed_user;
  edgert_device *device;
  edgert_module *module;
  edgert_weights *weights;
  edgert_session *session;
  size_t function;
  edgert_value arguments[MAX_INPUTS];
  size_t argument_count;
  array *rows; /* of each argument: with --each what holds a row a call, else without data */
  size_t row_count;
  int has_rows;
  edgert_value *results;
  size_t result_count;
  edgert_error error;
} work;

/* Print a problem; 1, as all of these return where they fail. */
int fail(const char *problem);

/* Seconds of a clock that nobody sets. */
double now(void);

/* The most memory this process ever had, in bytes; 0 where it cannot be known. */
double peak_memory(void);

/* How many threads compute; 0 where the device does not say. */
unsigned long thread_count(work *self);

int open_session(work *self);

/* Bind what the options give; what they do not is an error, or with `with_zeros` zeros. */
int bind_inputs(work *self, int with_zeros);

/* With --each: put a row of the inputs that have rows into the arguments. */
int take_row(work *self, size_t row);

/* Call the function; its results replace those of the call before. */
int call(work *self);

void close_session(work *self);

int verb_bench(work *self);
int verb_profile(work *self);

#endif
