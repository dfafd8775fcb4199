/* What `gpu.h` gives a kernel, on a processor: each thread is a fibre, and those of a warp, a group or
 * a cluster wait for each other where a GPU's would. Copies are there at once. */
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define GLOBAL
#define SHARED
#define ROOM(type) (*(type *)rooms[me_group])

#define MOST_THREADS 8192
#define STACK (256 * 1024)
#define ROOM_BYTES (256 * 1024)

static ucontext_t fibres[MOST_THREADS], back;
static unsigned me, me_group, threads_of_group, groups_together, ended[MOST_THREADS];
static unsigned grid[3], at[3];
static char *stacks[MOST_THREADS];
static _Alignas(16) char rooms[16][ROOM_BYTES];
static unsigned exchange[MOST_THREADS][8];

/* Of all that wait for each other the last to come frees the others: by turns, one after the other. */
static unsigned waiting[3][MOST_THREADS], turns[3][MOST_THREADS];

static void next_fibre(void) { swapcontext(&fibres[me], &back); }

static unsigned living(unsigned first, unsigned count) {
  unsigned found = 0;
  for (unsigned i = first; i < first + count; ++i) found += !ended[i];
  return found;
}

static void wait_together(unsigned kind, unsigned of, unsigned first, unsigned count) {
  unsigned turn = turns[kind][of];
  ++waiting[kind][of];
  while (turns[kind][of] == turn) {
    if (waiting[kind][of] >= living(first, count)) {
      waiting[kind][of] = 0;
      ++turns[kind][of];
      return;
    }
    next_fibre();
  }
}

static void warp_meets(void) { wait_together(0, me / 32, me / 32 * 32, 32); }

static u32 thread(void) { return me % threads_of_group; }
static u32 group_x(void) { return at[0] + me_group; }
static u32 group_y(void) { return at[1]; }
static u32 group_z(void) { return at[2]; }
static u32 groups_x(void) { return grid[0]; }
static u32 groups_y(void) { return grid[1]; }
static void meet(void) { wait_together(1, me_group, me_group * threads_of_group, threads_of_group); }
static void meet_in_warp(void) { warp_meets(); }
static void let_next_begin(void) {}
static void wait_for_earlier(void) {}
static void copies_end(void) {}
static void wait_for_copies(int but_last) { (void)but_last; }
static void expect(const void *there) { (void)there; }

static void copy(void *to, const void *from, u32 bytes) {
  if ((u64)to % bytes || (u64)from % bytes) abort(); /* as a GPU would */
  memcpy(to, from, bytes);
}

/* What each lane gives, for all of them to read until they meet again. */
static void give(const unsigned *words, unsigned count) {
  memcpy(exchange[me], words, count * sizeof *words);
  warp_meets();
}

static const unsigned *of_lane(unsigned lane) { return exchange[me / 32 * 32 + lane]; }

static float other_lanes(float value, u32 across) {
  unsigned word;
  float other;
  memcpy(&word, &value, 4);
  give(&word, 1);
  memcpy(&other, of_lane((me % 32) ^ across), 4);
  warp_meets();
  return other;
}

static u32 least_of_lanes(u32 value) {
  u32 least = value;
  give(&value, 1);
  for (unsigned i = 0; i < 32; ++i) least = *of_lane(i) < least ? *of_lane(i) : least;
  warp_meets();
  return least;
}

static u32 most_of_lanes(u32 value) {
  u32 most = value;
  give(&value, 1);
  for (unsigned i = 0; i < 32; ++i) most = *of_lane(i) > most ? *of_lane(i) : most;
  warp_meets();
  return most;
}

static u32 take_number(int *counter) { return (u32)(*counter)++; }
static u32 rank_in_cluster(void) { return me_group; }
static void arrive_in_cluster(void) {}
static void wait_for_cluster(void) {
  wait_together(2, 0, 0, groups_together * threads_of_group);
}
static void write_to_first(float *to, float value) {
  *(float *)((char *)rooms[0] + ((char *)to - (char *)rooms[me_group])) = value;
}

static void load_matrices(u32 *found, const void *row, unsigned count) {
  unsigned words[2];
  memcpy(words, &row, 8);
  if ((u64)row % 16) abort();
  give(words, 2);
  for (unsigned m = 0; m < count; ++m) {
    const char *from;
    memcpy(&from, of_lane(m * 8 + me % 32 / 4), 8);
    memcpy(&found[m], from + me % 4 * 4, 4);
  }
  warp_meets();
}
static void load_matrices_2(u32 found[2], const void *row) { load_matrices(found, row, 2); }
static void load_matrices_4(u32 found[4], const void *row) { load_matrices(found, row, 4); }

/* Rows of 16 or 32 bytes by columns: lane 4 g + t has bytes 4 t to 4 t + 3 of rows g and g + 8 and of
 * column g, and those 16 beyond; sums of row g and g + 8 by the columns 2 t and 2 t + 1. */
static void products(int sums[4], const u32 *a, const u32 *b, unsigned halves, int is_signed) {
  unsigned words[6] = {0};
  memcpy(words, a, 8 * halves);
  memcpy(words + 4, b, 4 * halves);
  give(words, 6);
  unsigned g = me % 32 / 4, t = me % 4;
  for (unsigned out = 0; out < 4; ++out) {
    sums[out] = 0;
    for (unsigned half = 0; half < halves; ++half)
      for (unsigned byte = 0; byte < 16; ++byte) {
        unsigned left = of_lane(g * 4 + byte / 4)[half * 2 + out / 2] >> byte % 4 * 8 & 255;
        unsigned right = of_lane((2 * t + out % 2) * 4 + byte / 4)[4 + half] >> byte % 4 * 8 & 255;
        sums[out] += (is_signed ? (signed char)left : (int)left) * (signed char)right;
      }
  }
  warp_meets();
}
static void multiply_32(int sums[4], const u32 a[4], const u32 b[2], const int c[4],
                        int is_signed) {
  int more[4];
  products(more, a, b, 2, is_signed);
  for (unsigned i = 0; i < 4; ++i) sums[i] = c[i] + more[i];
}
static void multiply_16(int sums[4], const u32 a[2], u32 b) { products(sums, a, &b, 1, 1); }
static void all_on_their_way(void) {}

static u32 bytes_of(u32 low, u32 high, u32 which) {
  u64 both = low | (u64)high << 32;
  u32 found = 0;
  for (unsigned i = 0; i < 4; ++i) found |= (u32)(both >> (which >> 4 * i & 7) * 8 & 255) << 8 * i;
  return found;
}
static int to_nearest(float value) { return (int)__builtin_rintf(value); }
static float power_of_2(float value) { return __builtin_exp2f(value); }
static float one_by_root(float value) { return 1.0f / __builtin_sqrtf(value); }

static void kernel(void);

static void begin_fibre(void) {
  kernel();
  ended[me] = 1;
  next_fibre();
}

/* Runs all groups of a grid, `together` of them at a time. */
static void run_grid(const unsigned sizes[3], unsigned threads, unsigned together) {
  memcpy(grid, sizes, sizeof grid);
  threads_of_group = threads, groups_together = together;
  unsigned all = threads * together;
  for (at[2] = 0; at[2] < grid[2]; ++at[2])
    for (at[1] = 0; at[1] < grid[1]; ++at[1])
      for (at[0] = 0; at[0] < grid[0]; at[0] += together) {
        memset(rooms, 0x7F, sizeof rooms); /* nothing that a kernel may rely on */
        memset(waiting, 0, sizeof waiting);
        for (unsigned i = 0; i < all; ++i) {
          if (!stacks[i]) stacks[i] = malloc(STACK);
          ended[i] = 0;
          getcontext(&fibres[i]);
          fibres[i].uc_stack.ss_sp = stacks[i];
          fibres[i].uc_stack.ss_size = STACK;
          fibres[i].uc_link = &back;
          makecontext(&fibres[i], begin_fibre, 0);
        }
        for (unsigned left = all; left; left = living(0, all))
          for (unsigned i = 0; i < all; ++i) {
            if (ended[i]) continue;
            me = i, me_group = i / threads;
            swapcontext(&back, &fibres[i]);
          }
      }
}
