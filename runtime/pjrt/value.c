/* Values: what buffers hold, which is there or comes once the call that gives it has ended. */
#include <stdlib.h>

#include "plugin.h"

struct pjrt_value {
  atomic_size_t references;
  edgert_tensor *tensor; /* NULL until `made` is over, and where what makes it has failed */
  pjrt_event *made;      /* NULL: it was there from the start */
};

pjrt_value *pjrt_value_make(edgert_tensor *tensor, pjrt_event *made) {
  pjrt_value *value = malloc(sizeof *value);
  if (!value) {
    edgert_tensor_release(tensor);
    return NULL;
  }
  atomic_init(&value->references, 1);
  value->tensor = tensor;
  value->made = made ? pjrt_event_retain(made) : NULL;
  return value;
}

pjrt_value *pjrt_value_retain(pjrt_value *value) {
  atomic_fetch_add(&value->references, 1);
  return value;
}

void pjrt_value_release(pjrt_value *value) {
  if (!value || atomic_fetch_sub(&value->references, 1) != 1) return;
  edgert_tensor_release(value->tensor);
  pjrt_event_release(value->made);
  free(value);
}

void pjrt_value_fill(pjrt_value *value, edgert_tensor *tensor) { value->tensor = tensor; }

bool pjrt_value_is_alone(const pjrt_value *value) { return atomic_load(&value->references) == 1; }

bool pjrt_value_is_there(const pjrt_value *value) {
  return !value->made || pjrt_event_is_over(value->made);
}

pjrt_error *pjrt_value_wait(pjrt_value *value, edgert_tensor **out_tensor) {
  pjrt_error *failed = value->made ? pjrt_event_wait(value->made) : NULL;
  *out_tensor = failed ? NULL : value->tensor;
  return failed;
}

pjrt_event *pjrt_value_made(pjrt_value *value) {
  return value->made ? value->made : pjrt_event_ready();
}
