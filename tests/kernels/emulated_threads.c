/* Threads of a grid as fibres, for a kernel in C++ that stands in another file. */
#include "gpu.h"

static unsigned block[3];

extern void emulated_kernel(void);
static void kernel(void) { emulated_kernel(); }

unsigned emulated_place(int kind, int axis) {
  unsigned at_thread[3] = {thread() % block[0], thread() / block[0] % block[1], thread() / block[0] / block[1]};
  unsigned at_group[3] = {group_x(), group_y(), group_z()};
  return kind == 0 ? at_thread[axis] : kind == 1 ? block[axis] : kind == 2 ? at_group[axis] : grid[axis];
}
void emulated_block_meets(void) { meet(); }
void emulated_warp_meets(void) { warp_meets(); }
unsigned emulated_lane(void) { return me % 32; }
void emulated_give(unsigned word) { give(&word, 1); }
unsigned emulated_given(unsigned lane, int *living) {
  unsigned other = me / 32 * 32 + lane;
  *living = other < threads_of_group && !ended[other];
  return *of_lane(lane);
}

void emulated_run(const unsigned sizes[3], const unsigned threads[3]) {
  memcpy(block, threads, sizeof block);
  run_grid(sizes, threads[0] * threads[1] * threads[2], 1);
}
