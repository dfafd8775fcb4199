/* How arrays lie in memory: told by PJRT's extension for layouts. All of edgec's are row major.
 *
 * A layout is known by its rank alone, and none needs memory: it is the place of its text.
 */
#include <string.h>

#include "plugin.h"

/* Axes from the one whose elements are next to each other on, as XLA writes them. */
static const char *const layouts_texts[] = {
    "{}",
    "{0}",
    "{1,0}",
    "{2,1,0}",
    "{3,2,1,0}",
    "{4,3,2,1,0}",
    "{5,4,3,2,1,0}",
    "{6,5,4,3,2,1,0}",
    "{7,6,5,4,3,2,1,0}",
    "{8,7,6,5,4,3,2,1,0}",
    "{9,8,7,6,5,4,3,2,1,0}",
    "{10,9,8,7,6,5,4,3,2,1,0}",
    "{11,10,9,8,7,6,5,4,3,2,1,0}",
    "{12,11,10,9,8,7,6,5,4,3,2,1,0}",
    "{13,12,11,10,9,8,7,6,5,4,3,2,1,0}",
    "{14,13,12,11,10,9,8,7,6,5,4,3,2,1,0}",
    "{15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,0}",
};
_Static_assert(sizeof layouts_texts / sizeof *layouts_texts == EDGERT_MAX_RANK + 1,
               "a layout for each rank");

const pjrt_memory_layout *pjrt_layout_of_rank(size_t rank) {
  return (const pjrt_memory_layout *)&layouts_texts[rank];
}

static pjrt_error *layouts_destroy(layout_destroy_args *args) {
  (void)args;
  return NULL;
}

static void nothing_to_delete(void *serialized) { (void)serialized; }

static pjrt_error *layouts_serialize(layout_serialize_args *args) {
  args->bytes = *(const char *const *)args->layout;
  args->bytes_size = strlen(args->bytes);
  args->serialized = args;
  args->deleter = nothing_to_delete;
  return NULL;
}

static pjrt_error *layouts_of_rank(layout_default_args *args) {
  args->layout = NULL;
  if (args->num_dims > EDGERT_MAX_RANK)
    return pjrt_fail(PJRT_UNIMPLEMENTED, "%zu dimensions; edgec's buffers have %d at most",
                     args->num_dims, EDGERT_MAX_RANK);
  args->layout = pjrt_layout_of_rank(args->num_dims);
  return NULL;
}

static pjrt_error *layouts_of_buffer(layout_of_buffer_args *args) {
  args->layout = pjrt_layout_of_rank(args->buffer->rank);
  return NULL;
}

static pjrt_error *layouts_of_results(layouts_of_executable_args *args) {
  args->count = args->executable->output_count;
  args->layouts = args->executable->output_layouts;
  return NULL;
}

static pjrt_error *layouts_of_parameters(layouts_of_executable_args *args) {
  args->count = args->executable->input_count;
  args->layouts = args->executable->input_layouts;
  if (args->layouts) return NULL;
  return pjrt_fail(PJRT_UNIMPLEMENTED, "of %s only results are known", args->executable->name);
}

const pjrt_layouts pjrt_layouts_extension = {.size = sizeof(pjrt_layouts),
                                             .number = PJRT_LAYOUTS,
                                             .next = &pjrt_shardings_extension,
                                             .destroy = layouts_destroy,
                                             .serialize = layouts_serialize,
                                             .of_client = layouts_of_rank,
                                             .of_buffer = layouts_of_buffer,
                                             .of_topology = layouts_of_rank,
                                             .of_results = layouts_of_results,
                                             .of_parameters = layouts_of_parameters};
