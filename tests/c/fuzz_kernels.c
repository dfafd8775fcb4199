/* Kernels linked into the fuzzer, which touch every byte that they are given. */
#include "../../runtime/c/src/drivers/cpu/cpu.h"

#include "fuzz.h"

/* Adds what it reads of the first bindings, constants and its number into the last one. */
static int touch(const edgert_library_environment *environment,
                 const edgert_library_dispatch *dispatch,
                 const edgert_library_workgroup *workgroup) {
  (void)environment;
  uint8_t sum = (uint8_t)workgroup->x;
  for (unsigned i = 0; i < dispatch->constant_count; ++i) sum += (uint8_t)dispatch->constants[i];
  for (unsigned i = 0; i < dispatch->binding_count; ++i)
    for (size_t at = 0; at < dispatch->lengths[i] && at < 4096; ++at)
      sum += ((const volatile uint8_t *)dispatch->bindings[i])[at];
  for (size_t at = 0; at < workgroup->scratch_size; ++at)
    ((volatile uint8_t *)workgroup->scratch)[at] = sum;
  if (!dispatch->binding_count || !dispatch->lengths[dispatch->binding_count - 1]) return 0;
  *(volatile uint8_t *)dispatch->bindings[dispatch->binding_count - 1] = sum;
  return sum == 77; /* and sometimes it fails */
}

const void *fuzz_library(uint32_t max_version, const void *environment) {
  (void)max_version;
  (void)environment;
  static const edgert_library_header header = {.version = 6, .name = "fuzz"};
  static const edgert_library_kernel kernels[] = {touch, touch};
  static const edgert_library_attributes attributes[] = {
      {.constant_count = 1, .binding_count = 1},
      {.flags = EDGERT_KERNEL_SEQUENTIAL, .scratch_pages = 1, .binding_count = 2}};
  static const char *const names[] = {"one", "two"};
  static const edgert_library library = {
      .header = &header,
      .exports = {.count = 2, .kernels = kernels, .attributes = attributes, .names = names}};
  return &library;
}
