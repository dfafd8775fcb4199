/* A module on a device: its globals, its imports resolved, the interpreter's stack. */
#ifndef EDGERT_SESSION_H
#define EDGERT_SESSION_H

#include "bytes.h"
#include "call.h"
#include "driver.h"
#include "module.h"

/* A value between functions; the convention's code says which member. References that come in are
 * borrowed, references that go out are given away. A span stands as its count (`wide`), then the
 * values of its groups. */
typedef union edgert_cell {
  int32_t word;
  int64_t wide;
  float f32;
  double f64;
  edgert_object *ref;
} edgert_cell;

/* Functions of one module: a line "name convention" for each, without the convention's version,
 * and what runs the function of a line, counted from 0; `out` is zeroed before. A name that begins
 * with a dot has what the last other one has before its first. One text and one function instead
 * of many pointers are nothing to relocate.
 *
 * In these conventions a letter for the kind stands in the place of `r`; a capital may be null:
 *
 *     d device   a allocator   b B buffer   t tensor   y Y bytes   x executable   k K commands
 *     e E fence   l file   r anything
 *
 * so that functions find what they ask for, and devices are the session's own. */
#define EDGERT_IMPORT_TABLES(X) \
  X("hal", hal_memory)          \
  X("hal", hal_command)         \
  X("hal", hal_queue)           \
  X("io_parameters", io_parameters)

#define EDGERT_IMPORT_RUNS(table)                                                     \
  edgert_status edgert_##table##_run(uint32_t line, edgert_session *session,          \
                                     const edgert_cell *in, edgert_cell *out,         \
                                     edgert_error *error)
#define EDGERT_IMPORT_DECLARE(module, table)  \
  extern const char edgert_##table##_lines[]; \
  EDGERT_IMPORT_RUNS(table);
EDGERT_IMPORT_TABLES(EDGERT_IMPORT_DECLARE)

/* Defines `table`, whose functions are `list`'s. Compilers make a switch of the comparisons. */
#define EDGERT_IMPORT_TABLE(table, list)                          \
  const char edgert_##table##_lines[] = list(EDGERT_IMPORT_NAME); \
  EDGERT_IMPORT_RUNS(table) { list(EDGERT_IMPORT_RUN) return EDGERT_UNSUPPORTED; }
#define EDGERT_IMPORT_NAME(name, arguments, results, call) name " " arguments "_" results "\n"
#define EDGERT_IMPORT_RUN(name, arguments, results, call) \
  if (line-- == 0) return call(session, in, out, error);

/* A list of codes and names is the arguments' part of a convention, and a structure: neither can
 * be changed without the other. Repeated groups are text alone; their cells come behind. */
typedef int32_t edgert_code_i;
typedef int64_t edgert_code_I;
typedef edgert_object *edgert_code_r;
typedef edgert_device *edgert_code_d;
typedef edgert_object *edgert_code_a;
typedef edgert_buffer *edgert_code_b;
typedef edgert_buffer *edgert_code_B;
typedef edgert_tensor *edgert_code_t;
typedef edgert_bytes *edgert_code_y;
typedef edgert_bytes *edgert_code_Y;
typedef edgert_executable *edgert_code_x;
typedef edgert_commands *edgert_code_k;
typedef edgert_commands *edgert_code_K;
typedef struct edgert_fence *edgert_code_e;
typedef struct edgert_fence *edgert_code_E;
typedef struct edgert_file *edgert_code_l;
_Static_assert(sizeof(edgert_cell) == 8, "arguments lie as cells do");

#define EDGERT_ARGUMENT_TEXT(code, name) #code
#define EDGERT_ARGUMENT_FIELD(code, name) \
  union {                                 \
    edgert_code_##code name;              \
    edgert_cell name##_cell;              \
  };
#define EDGERT_ARGUMENTS(list) list(EDGERT_ARGUMENT_TEXT)

/* `name` is what `in` holds, by the fields of `list`; behind them are EDGERT_CELLS(name) cells. */
#define EDGERT_TAKE(list, name, in)           \
  struct { list(EDGERT_ARGUMENT_FIELD) } name; \
  memcpy(&name, in, sizeof name)
#define EDGERT_CELLS(name) (sizeof(name) / sizeof(edgert_cell))

/* What an import of a program is here. */
typedef struct edgert_imported {
  const char *codes; /* of its arguments, with kinds, up to `_`; NULL: nothing */
  uint32_t table;
  uint32_t line; /* of the table */
} edgert_imported;

/* What `module.function` with that convention is; 0 where there is no such function, or only with
 * another convention (`*out_differs`). */
int edgert_import_find(edgert_text name, edgert_text convention, edgert_imported *out,
                       int *out_differs);

/* Run an import; references that are not of the kinds that it asks for are refused. */
edgert_status edgert_import_run(const edgert_imported *imported, edgert_session *session,
                                const edgert_cell *in, edgert_cell *out, edgert_error *error);

/* Memory that is taken and given back in order: frames of functions and arguments of imports. */
typedef struct edgert_stack_chunk edgert_stack_chunk;
typedef struct edgert_stack {
  edgert_stack_chunk *top;
} edgert_stack;
typedef struct edgert_stack_mark {
  edgert_stack_chunk *chunk;
  size_t used;
} edgert_stack_mark;

edgert_stack_mark edgert_stack_save(const edgert_stack *self);
edgert_status edgert_stack_take(edgert_stack *self, const edgert_allocator *allocator, size_t size,
                                void **out, edgert_error *error);
void edgert_stack_restore(edgert_stack *self, const edgert_allocator *allocator,
                          edgert_stack_mark mark);

/* A call that has begun, for as long as its program runs or waits. */
typedef struct edgert_begun {
  edgert_stack_mark mark; /* the stack before it */
  uint32_t function;
  edgert_cell *results;
  edgert_cell *held; /* of a function that writes to arguments: all, or copies of them */
  size_t held_count;
  struct edgert_fence *signal; /* NULL: the program itself waits for all it starts */
  int is_left; /* whoever called waits for the device */
} edgert_begun;

typedef struct edgert_session_scope {
  char *name; /* NULL: any */
  edgert_weights *weights;
#if EDGERT_WITH_SIGNATURES
  struct edgert_pages *pages; /* of them, where the module's signature was asked for */
#endif
} edgert_session_scope;

struct edgert_session {
  edgert_object object;
  edgert_module *module;
  edgert_device *device;
  uint64_t number; /* among the sessions of its device, from 1 */
  edgert_object *heap; /* the device's allocator, as programs see it */
  edgert_mutex lock;
  edgert_runner runner;
  uint8_t *globals;
  edgert_object **global_refs;
  edgert_object **rodata; /* made when first used */
  edgert_imported *imports;
  edgert_session_scope *scopes;
  size_t scope_count;
  edgert_stack stack;
  struct edgert_frame *frame; /* the uppermost of a program that runs or waits */
  edgert_begun begun;
  edgert_lists lists;
  int is_ready; /* `__init` has run, so `__deinit` will */
  edgert_object *refused; /* the first device or format that `__init` asked for in vain */
  edgert_budget *budget;
  edgert_watch watch;
  uint64_t max_milliseconds;
  uint64_t max_steps;
  uint64_t steps;
  uint32_t depth;
};

/* A new buffer for the program, counted; `size` is what the program says. */
edgert_status edgert_session_buffer(edgert_session *self, edgert_memory memory, int64_t size,
                                    edgert_buffer **out, edgert_error *error);

/* Wait for a fence, on this session's device and within its time; EDGERT_TIMED_OUT where that takes
 * longer than so many milliseconds. */
edgert_status edgert_session_wait(edgert_session *self, const struct edgert_fence *fence,
                                  uint64_t milliseconds, edgert_error *error);

/* The interpreter: call a function of the module by its number. References in `arguments` are
 * borrowed; those in `results`, which is zeroed before, belong to the caller, and there are none
 * after a failure. Where a device has no answer yet it is EDGERT_PENDING, and the program waits:
 * `edgert_session_go_on` goes on with it, and `edgert_session_give_up` ends it, where there is one. */
edgert_status edgert_session_run(edgert_session *self, uint32_t function,
                                 const edgert_cell *arguments, edgert_cell *results,
                                 edgert_error *error);
edgert_status edgert_session_go_on(edgert_session *self, edgert_cell *results,
                                   edgert_error *error);
void edgert_session_give_up(edgert_session *self);

#endif
