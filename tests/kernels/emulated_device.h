/* What `device.h` gives a kernel in CUDA C++, on a processor; its threads are fibres of `threads.c`.
 *
 * An instruction is known by its text, as a GPU knows it. What a GPU's tables give is rounded right
 * here, so these are as far off as the tables are, not more.
 */
extern "C" unsigned emulated_place(int kind, int axis);
extern "C" void emulated_block_meets();
extern "C" void emulated_warp_meets();
extern "C" unsigned emulated_lane();
extern "C" void emulated_give(unsigned word);
extern "C" unsigned emulated_given(unsigned lane, int *living);

#define EMULATED_TOLD(register, kind)                                            \
  EDGEC_SHORT unsigned edgec_told_##register##_x() { return emulated_place(kind, 0); } \
  EDGEC_SHORT unsigned edgec_told_##register##_y() { return emulated_place(kind, 1); } \
  EDGEC_SHORT unsigned edgec_told_##register##_z() { return emulated_place(kind, 2); }
EMULATED_TOLD(tid, 0)
EMULATED_TOLD(ntid, 1)
EMULATED_TOLD(ctaid, 2)
EMULATED_TOLD(nctaid, 3)

/* What fits best into T of a number that has more bits, by the rounding that a text names. */
template <class T> T emulated_rounded(long double exact, const char *text) {
  while (*text++ != '.') {}
  char mode = text[1];
  T near = (T)exact;
  T step = sizeof(T) == 4 ? (T)__builtin_nextafterf((float)near, near > exact ? -__builtin_inff() : __builtin_inff())
                          : (T)__builtin_nextafter((double)near, near > exact ? -__builtin_inff() : __builtin_inff());
  bool away = mode == 'p' ? near < exact : mode == 'm' ? near > exact
              : mode == 'z' ? (exact < 0 ? near < exact : near > exact) : false;
  return away ? step : near;
}
template <class T, class F> T emulated_1(const char *text, F a) {
  long double value = a;
  if (text[0] == 'c') { /* cvt */
    if constexpr ((T)0.5 == (T)0) {
      char mode = text[5];
      bool is_signed = (T)-1 < (T)0;
      long double top = __builtin_ldexpl(1, sizeof(T) * 8 - is_signed) - 1, low = is_signed ? -top - 1 : 0;
      value = mode == 'n' ? __builtin_rintl(value) : mode == 'z' ? __builtin_truncl(value)
              : mode == 'p' ? __builtin_ceill(value) : __builtin_floorl(value);
      return (T)(value != value ? 0 : value < low ? low : value > top ? top : value);
    }
    return emulated_rounded<T>(value, text);
  }
  if (text[0] == 'r' && text[1] == 'c') return emulated_rounded<T>(1 / value, text);
  if (text[0] == 's' && text[1] == 'q') return emulated_rounded<T>(__builtin_sqrtl(value), text);
  double near = text[0] == 'e' ? __builtin_exp2(a) : text[0] == 'l' ? __builtin_log2(a)
                : text[0] == 's' ? __builtin_sin(a) : text[0] == 'c' ? __builtin_cos(a)
                : text[0] == 't' ? __builtin_tanh(a) : 1 / __builtin_sqrt(a);
  return (T)near;
}
template <class T> T emulated_2(const char *text, T a, T b) {
  long double x = a, y = b;
  long double exact = text[0] == 'a' ? x + y : text[0] == 's' ? x - y : text[0] == 'm' ? x * y : x / y;
  return emulated_rounded<T>(exact, text);
}
#define EDGEC_OF_1(name, to, from, text, out, in) \
  EDGEC_SHORT to name(from a) { return emulated_1<to, from>(text, a); }
#define EDGEC_OF_2(name, type, text, letter) \
  EDGEC_SHORT type name(type a, type b) { return emulated_2<type>(text, a, b); }
#define EDGEC_OF_3(name, type, text, letter) \
  EDGEC_SHORT type name(type a, type b, type c) { return emulated_rounded<type>((long double)a * b + c, text); }

EDGEC_SHORT unsigned emulated_all(unsigned lanes, int condition, unsigned *living) {
  unsigned found = 0;
  *living = 0;
  emulated_give((unsigned)(condition != 0));
  for (unsigned i = 0; i < 32; ++i) {
    int lives = 0;
    unsigned word = emulated_given(i, &lives);
    *living |= (unsigned)lives << i;
    found |= (lives && word && (lanes >> i & 1)) << i;
  }
  emulated_warp_meets();
  return found;
}
EDGEC_SHORT void __syncthreads() { emulated_block_meets(); }
EDGEC_SHORT void __syncwarp(unsigned = 0xFFFFFFFFu) { emulated_warp_meets(); }
EDGEC_SHORT unsigned __ballot_sync(unsigned lanes, int condition) {
  unsigned living;
  return emulated_all(lanes, condition, &living);
}
EDGEC_SHORT unsigned __activemask() {
  unsigned living;
  emulated_all(0, 0, &living);
  return living;
}
EDGEC_SHORT int __syncthreads_count(int condition) {
  static int count;
  emulated_block_meets();
  count = 0;
  emulated_block_meets();
  count += condition != 0;
  emulated_block_meets();
  return count;
}
EDGEC_SHORT void __threadfence() {}
EDGEC_SHORT void __threadfence_block() {}
EDGEC_SHORT void __threadfence_system() {}

/* As the manual of PTX has shfl. */
EDGEC_SHORT unsigned emulated_shuffle(unsigned word, unsigned which, unsigned limit, int kind) {
  unsigned lane = emulated_lane(), segment = limit >> 8 & 31, bound = limit & 31;
  unsigned most = (lane & segment) | (bound & ~segment), least = lane & segment;
  int from = kind == 0 ? (int)(least | (which & 31 & ~segment))
             : kind == 1 ? (int)lane - (int)which : kind == 2 ? (int)(lane + which) : (int)(lane ^ which);
  bool inside = kind == 1 ? from >= (int)most : from <= (int)most;
  int lives;
  emulated_give(word);
  unsigned found = emulated_given(inside ? (unsigned)from : lane, &lives);
  emulated_warp_meets();
  return found;
}
EDGEC_SHORT unsigned edgec_of_lane(unsigned, unsigned word, unsigned which, unsigned limit) {
  return emulated_shuffle(word, which, limit, 0);
}
EDGEC_SHORT unsigned edgec_of_lane_before(unsigned, unsigned word, unsigned which, unsigned limit) {
  return emulated_shuffle(word, which, limit, 1);
}
EDGEC_SHORT unsigned edgec_of_lane_behind(unsigned, unsigned word, unsigned which, unsigned limit) {
  return emulated_shuffle(word, which, limit, 2);
}
EDGEC_SHORT unsigned edgec_of_lane_across(unsigned, unsigned word, unsigned which, unsigned limit) {
  return emulated_shuffle(word, which, limit, 3);
}
EDGEC_SHORT unsigned edgec_lanes_alike(unsigned lanes, unsigned word) {
  unsigned alike = 0;
  emulated_give(word);
  for (unsigned i = 0; i < 32; ++i) {
    int lives = 0;
    alike |= (unsigned)(emulated_given(i, &lives) == word && lives && (lanes >> i & 1)) << i;
  }
  emulated_warp_meets();
  return alike;
}
EDGEC_SHORT unsigned edgec_lanes_alike(unsigned lanes, unsigned long long word) {
  return edgec_lanes_alike(lanes, (unsigned)word) & edgec_lanes_alike(lanes, (unsigned)(word >> 32));
}

template <class T> T edgec_put_if(T *at, T expected, T value) {
  T found = *at;
  if (found == expected) *at = value;
  return found;
}
EDGEC_SHORT unsigned atomicInc(unsigned *at, unsigned limit) {
  unsigned found = *at;
  *at = found >= limit ? 0 : found + 1;
  return found;
}
EDGEC_SHORT unsigned atomicDec(unsigned *at, unsigned limit) {
  unsigned found = *at;
  *at = found == 0 || found > limit ? limit : found - 1;
  return found;
}
template <class N> unsigned short emulated_add(void *at, unsigned short value) {
  N *there = (N *)at, found = *there;
  *there = (N)((float)found + (float)__builtin_bit_cast(N, value));
  return __builtin_bit_cast(unsigned short, found);
}
EDGEC_SHORT unsigned short edgec_add_f16(void *at, unsigned short value) { return emulated_add<_Float16>(at, value); }
EDGEC_SHORT unsigned short edgec_add_bf16(void *at, unsigned short value) { return emulated_add<__bf16>(at, value); }
EDGEC_SHORT unsigned edgec_add_f16x2(void *at, unsigned value) {
  unsigned low = edgec_add_f16(at, (unsigned short)value);
  return low | (unsigned)edgec_add_f16((char *)at + 2, (unsigned short)(value >> 16)) << 16;
}
EDGEC_SHORT unsigned edgec_add_bf16x2(void *at, unsigned value) {
  unsigned low = edgec_add_bf16(at, (unsigned short)value);
  return low | (unsigned)edgec_add_bf16((char *)at + 2, (unsigned short)(value >> 16)) << 16;
}
template <class T> T __ldg(const T *at) { return *at; }
template <class T> void __stcs(T *at, T value) { *at = value; }
