/* `hal.command_buffer`: transfers and dispatches, recorded once and executed many times. */
#ifndef EDGERT_COMMANDS_H
#define EDGERT_COMMANDS_H

#include "driver.h"

typedef enum edgert_command_kind {
  EDGERT_COMMAND_BARRIER, /* all before ends before anything behind begins */
  EDGERT_COMMAND_FILL,
  EDGERT_COMMAND_COPY,
  EDGERT_COMMAND_UPDATE,
  EDGERT_COMMAND_DISPATCH
} edgert_command_kind;

typedef struct edgert_command {
  edgert_command_kind kind;
  edgert_range target; /* of transfers; of a dispatch: where its size is read, if `is_indirect` */
  union {
    struct {
      uint64_t pattern;
      uint32_t width; /* bytes of the pattern: 1, 2, 4 or 8 */
    } fill;
    struct {
      edgert_range source;
    } copy;
    struct {
      size_t first; /* in `bytes` */
    } update;
    struct {
      edgert_executable *executable;
      uint32_t kernel;
      uint32_t workgroups[3];
      uint32_t is_indirect;
      uint32_t constant_count;
      uint32_t binding_count;
      size_t first_constant; /* in `constants` */
      size_t first_binding;  /* in `bindings` */
    } dispatch;
  } as;
} edgert_command;

struct edgert_commands {
  edgert_object object;
  edgert_device *device;
  int finished;
  void *translation; /* the driver's own, of finished commands */
  edgert_command *commands;
  size_t count, capacity;
  edgert_range *bindings;
  size_t binding_count, binding_capacity;
  uint32_t *constants;
  size_t constant_count, constant_capacity;
  uint8_t *bytes;
  size_t byte_count, byte_capacity;
  edgert_object **kept; /* buffers and executables that the commands use */
  size_t kept_count, kept_capacity;
};

edgert_status edgert_commands_create(edgert_device *device, const edgert_allocator *allocator,
                                     edgert_commands **out, edgert_error *error);
edgert_status edgert_commands_barrier(edgert_commands *self, edgert_error *error);
edgert_status edgert_commands_fill(edgert_commands *self, edgert_range target, uint64_t pattern,
                                   uint32_t width, edgert_error *error);
edgert_status edgert_commands_copy(edgert_commands *self, edgert_range source, edgert_range target,
                                   edgert_error *error);
edgert_status edgert_commands_update(edgert_commands *self, const uint8_t *data,
                                     edgert_range target, edgert_error *error);

/* A dispatch without constants and bindings, which are added right after it. `size` is where the
 * workgroup counts are read, or NULL. */
edgert_status edgert_commands_dispatch(edgert_commands *self, edgert_executable *executable,
                                       uint32_t kernel, const uint32_t workgroups[3],
                                       const edgert_range *size, edgert_error *error);
edgert_status edgert_commands_add_constant(edgert_commands *self, uint32_t value,
                                           edgert_error *error);
edgert_status edgert_commands_add_binding(edgert_commands *self, edgert_range range,
                                          edgert_error *error);

/* The last dispatch has all it gets: let the driver check it. What is refused must be taken back. */
edgert_status edgert_commands_end_dispatch(edgert_commands *self, edgert_error *error);

/* As if the last dispatch had never been recorded. */
void edgert_commands_undo_dispatch(edgert_commands *self);

/* For drivers whose buffers the host sees: do a fill, copy or update now. */
edgert_status edgert_commands_transfer(const edgert_commands *self, const edgert_command *command,
                                       const edgert_range *slots, size_t slot_count,
                                       edgert_error *error);

#endif
