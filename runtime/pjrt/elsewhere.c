/* Programs that edgec refuses, where XLA's CPU may run them: in the compiler's process, whose pipes
 * arrays go through.
 */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* The bytes of the arguments, each with memory of its own. */
static pjrt_error *read_inputs(const pjrt_executable *self, const edgert_value *inputs,
                               pjrt_part *parts) {
  edgert_error error;
  for (size_t i = 0; i < self->input_count; ++i) {
    size_t size = (size_t)edgert_tensor_size(inputs[i].as.tensor);
    void *data = malloc(size + 1);
    parts[i] = (pjrt_part){data, size};
    if (!data) return pjrt_out_of_memory();
    if (size && edgert_tensor_read(inputs[i].as.tensor, data, size, &error))
      return pjrt_fail_edgert(&error);
  }
  return NULL;
}

static pjrt_error *write_results(const pjrt_executable *self, const pjrt_answer *answer,
                                 edgert_value *results) {
  edgert_error error;
  pjrt_error *refused = pjrt_answer_refusal(answer);
  if (refused) return refused;
  if (answer->count != self->output_count + 1)
    return pjrt_fail(PJRT_INTERNAL, "%s gave %zu results, not %zu", self->name, answer->count - 1,
                     self->output_count);
  for (size_t i = 0; i < self->output_count; ++i) {
    const pjrt_output *output = &self->outputs[i];
    const pjrt_part *part = &answer->parts[i + 1];
    edgert_tensor *tensor;
    if (edgert_tensor_create(self->device->device, pjrt_type_to_edgert(output->type), output->rank,
                             output->shape, &tensor, &error))
      return pjrt_fail_edgert(&error);
    results[i] = (edgert_value){.kind = EDGERT_TENSOR, .as = {.tensor = tensor}};
    if (part->size && edgert_tensor_write(tensor, part->data, part->size, &error))
      return pjrt_fail_edgert(&error);
  }
  return NULL;
}

static void release_results(const pjrt_executable *self, edgert_value *results) {
  for (size_t i = 0; i < self->output_count; ++i) {
    if (results[i].kind == EDGERT_TENSOR) edgert_tensor_release(results[i].as.tensor);
    results[i].kind = EDGERT_NONE;
  }
}

pjrt_error *pjrt_elsewhere_call(pjrt_executable *self, const edgert_value *inputs,
                                edgert_value *results) {
  size_t count = self->input_count + 2;
  pjrt_part *parts = calloc(count, sizeof *parts);
  if (!parts) return pjrt_out_of_memory();
  parts[0] = (pjrt_part){"run", 3};
  parts[1] = (pjrt_part){self->elsewhere, strlen(self->elsewhere)};
  pjrt_answer answer = {0};
  bool died;
  pjrt_error *failed = read_inputs(self, inputs, parts + 2);
  if (!failed)
    failed = pjrt_compiler_ask(&self->client->compiler, parts, count, &answer, &died);
  if (!failed) failed = write_results(self, &answer, results);
  if (failed) release_results(self, results);
  pjrt_answer_release(&answer);
  for (size_t i = 2; i < count; ++i) free((void *)(uintptr_t)parts[i].data);
  free(parts);
  return failed;
}
