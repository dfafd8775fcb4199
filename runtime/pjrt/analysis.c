/* What an executable says of its costs, and of the program that it was made of. */
#include <string.h>

#include "plugin.h"

/* Bytes of arrays that a list tells of. */
static int64_t bytes_of(const pjrt_output *arrays, size_t count) {
  int64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    int64_t bytes = (int64_t)pjrt_type_bytes(arrays[i].type);
    for (size_t j = 0; j < arrays[i].rank; ++j) bytes *= arrays[i].shape[j];
    total += bytes;
  }
  return total;
}

pjrt_error *pjrt_costs_read(pjrt_executable *self, const pjrt_made *made,
                            const pjrt_output *inputs) {
  const char *overwritten = NULL;
  if (self->module && !self->route)
    overwritten = edgert_module_attribute(self->module, self->function, "edgec.overwritten");
  self->output_bytes = bytes_of(self->outputs, self->output_count);
  self->input_bytes = bytes_of(inputs, self->input_count);
  for (size_t i = 0; overwritten && overwritten[i] && i < self->input_count; ++i)
    if (overwritten[i] == '1') self->alias_bytes += bytes_of(&inputs[i], 1);
  int64_t numbers[COST_COUNT];
  if (made->costs.size == sizeof numbers) {
    static const char *const names[] = {"flops", "bytes accessed"};
    memcpy(numbers, made->costs.data, sizeof numbers);
    self->held_bytes = numbers[COST_HELD];
    self->has_costs = true;
    for (int i = 0; i < COST_HELD; ++i)
      self->costs[i] = (pjrt_named_value){.size = sizeof self->costs[i],
                                          .name = names[i],
                                          .name_size = strlen(names[i]),
                                          .type = PJRT_FLOAT,
                                          .as = {.f32 = (float)numbers[i]},
                                          .value_size = 1};
  }
  pjrt_error *failed = pjrt_part_keep(&self->costs_bytes, &made->costs);
  return failed ? failed : pjrt_part_keep(&self->program, &made->program);
}

pjrt_error *pjrt_executable_memory_stats(executable_memory_stats_args *args) {
  pjrt_executable *self = args->executable;
  if (!self->has_costs)
    return pjrt_fail(PJRT_UNIMPLEMENTED, "edgec knows nothing of the memory of %s", self->name);
  size_t head = offsetof(executable_memory_stats_args, code);
  if (args->size > head) memset(&args->code, 0, args->size < sizeof *args ? args->size - head
                                                                         : sizeof *args - head);
  args->arguments = self->input_bytes;
  args->outputs = self->output_bytes;
  args->aliases = self->alias_bytes;
  args->temporary = self->held_bytes;
  int64_t all = self->input_bytes + self->output_bytes - self->alias_bytes + self->held_bytes;
  if (args->size >= offsetof(executable_memory_stats_args, peak) + sizeof args->peak)
    args->peak = all;
  if (args->size >= offsetof(executable_memory_stats_args, total) + sizeof args->total)
    args->total = all;
  return NULL;
}

pjrt_error *pjrt_executable_cost_analysis(executable_cost_analysis_args *args) {
  pjrt_executable *self = args->executable;
  args->properties = self->costs;
  args->num_properties = COST_HELD;
  if (self->has_costs) return NULL;
  return pjrt_fail(PJRT_UNIMPLEMENTED, "edgec does not know what %s computes", self->name);
}

/* Asked twice: for the size, and then for the bytes. */
pjrt_error *pjrt_executable_optimized_program(executable_optimized_program_args *args) {
  const pjrt_part *program = &args->executable->program;
  if (!program->size)
    return pjrt_fail(PJRT_UNIMPLEMENTED,
                     "edgec has no HLO of %s: it was taken from bytes, which hold its module and not "
                     "the program",
                     args->executable->name);
  args->program->format = "mlir";
  args->program->format_size = 4;
  if (args->program->code) memcpy(args->program->code, program->data, program->size);
  args->program->code_size = program->size;
  return NULL;
}
