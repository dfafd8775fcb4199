/* Kernels as WebAssembly modules beside edgert's own: the host instantiates them into the same
 * memory and table of functions. `wasm/kernels.mjs` is the host's part. */
#include "cpu.h"

#if EDGERT_WITH_WASM

#include <stdlib.h>

__attribute__((import_module("edgert"), import_name("load_kernels"))) uintptr_t
edgert_host_load_kernels(const uint8_t *data, size_t size);

__attribute__((import_module("edgert"), import_name("unload_kernels"))) void
edgert_host_unload_kernels(uintptr_t query);

/* For the host: memory of the kernels' own, and back. */
__attribute__((export_name("edgert_kernels_allocate"))) void *edgert_kernels_allocate(
    size_t size, size_t alignment) {
  if (alignment < 16) alignment = 16;
  return aligned_alloc(alignment, (size + alignment) & ~(alignment - 1));
}

__attribute__((export_name("edgert_kernels_release"))) void edgert_kernels_release(void *memory) {
  free(memory);
}

edgert_status edgert_wasm_load(const uint8_t *data, size_t size, edgert_library_query *out,
                               edgert_error *error) {
  uintptr_t query = edgert_host_load_kernels(data, size);
  if (!query)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "the host cannot instantiate a module's kernels");
  memcpy(out, &query, sizeof *out);
  return EDGERT_OK;
}

void edgert_wasm_unload(edgert_library_query query) {
  uintptr_t number;
  memcpy(&number, &query, sizeof number);
  if (number) edgert_host_unload_kernels(number);
}

#endif
