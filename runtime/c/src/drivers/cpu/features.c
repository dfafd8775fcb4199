/* What this processor can do, by the names that LLVM gives features. */
#include "cpu.h"

/* Where a feature is looked up, in the order of their names; words are the architecture's own. */
typedef struct feature_place {
  uint8_t word : 3;
  uint8_t bit : 5;
  uint8_t needs; /* x86: what the system must save, see below */
} feature_place;

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>

/* Words that cpuid gives, and the registers that the system saves. Under a hypervisor each cpuid
 * takes many microseconds. */
enum { LEAF_1_C, LEAF_7_B, LEAF_7_C, LEAF_7_D, LEAF_7_1_A, LEAF_7_1_D, LEAF_EXTENDED_C, SAVED };
/* Registers that the system must save for a feature to be of use. */
enum { SAVES_NOTHING, SAVES_AVX, SAVES_AVX512, SAVES_AMX };

#define FEATURES(X)                                  \
  X("sse3", LEAF_1_C, 0, 0)                          \
  X("pclmul", LEAF_1_C, 1, 0)                        \
  X("ssse3", LEAF_1_C, 9, 0)                         \
  X("fma", LEAF_1_C, 12, SAVES_AVX)                  \
  X("sse4.1", LEAF_1_C, 19, 0)                       \
  X("sse4.2", LEAF_1_C, 20, 0)                       \
  X("movbe", LEAF_1_C, 22, 0)                        \
  X("popcnt", LEAF_1_C, 23, 0)                       \
  X("aes", LEAF_1_C, 25, 0)                          \
  X("avx", LEAF_1_C, 28, SAVES_AVX)                  \
  X("f16c", LEAF_1_C, 29, SAVES_AVX)                 \
  X("bmi", LEAF_7_B, 3, 0)                           \
  X("avx2", LEAF_7_B, 5, SAVES_AVX)                  \
  X("bmi2", LEAF_7_B, 8, 0)                          \
  X("avx512f", LEAF_7_B, 16, SAVES_AVX512)           \
  X("avx512dq", LEAF_7_B, 17, SAVES_AVX512)          \
  X("adx", LEAF_7_B, 19, 0)                          \
  X("avx512ifma", LEAF_7_B, 21, SAVES_AVX512)        \
  X("avx512cd", LEAF_7_B, 28, SAVES_AVX512)          \
  X("sha", LEAF_7_B, 29, 0)                          \
  X("avx512bw", LEAF_7_B, 30, SAVES_AVX512)          \
  X("avx512vl", LEAF_7_B, 31, SAVES_AVX512)          \
  X("avx512vbmi", LEAF_7_C, 1, SAVES_AVX512)         \
  X("avx512vbmi2", LEAF_7_C, 6, SAVES_AVX512)        \
  X("gfni", LEAF_7_C, 8, 0)                          \
  X("vaes", LEAF_7_C, 9, SAVES_AVX)                  \
  X("vpclmulqdq", LEAF_7_C, 10, SAVES_AVX)           \
  X("avx512vnni", LEAF_7_C, 11, SAVES_AVX512)        \
  X("avx512bitalg", LEAF_7_C, 12, SAVES_AVX512)      \
  X("avx512vpopcntdq", LEAF_7_C, 14, SAVES_AVX512)   \
  X("avx512vp2intersect", LEAF_7_D, 8, SAVES_AVX512) \
  X("amx-bf16", LEAF_7_D, 22, SAVES_AMX)             \
  X("avx512fp16", LEAF_7_D, 23, SAVES_AVX512)        \
  X("amx-tile", LEAF_7_D, 24, SAVES_AMX)             \
  X("amx-int8", LEAF_7_D, 25, SAVES_AMX)             \
  X("sha512", LEAF_7_1_A, 0, SAVES_AVX)              \
  X("sm3", LEAF_7_1_A, 1, SAVES_AVX)                 \
  X("sm4", LEAF_7_1_A, 2, SAVES_AVX)                 \
  X("avxvnni", LEAF_7_1_A, 4, SAVES_AVX)             \
  X("avx512bf16", LEAF_7_1_A, 5, SAVES_AVX512)       \
  X("amx-fp16", LEAF_7_1_A, 21, SAVES_AMX)           \
  X("avxifma", LEAF_7_1_A, 23, SAVES_AVX)            \
  X("avxvnniint8", LEAF_7_1_D, 4, SAVES_AVX)         \
  X("avxneconvert", LEAF_7_1_D, 5, SAVES_AVX)        \
  X("amx-complex", LEAF_7_1_D, 8, SAVES_AMX)         \
  X("avxvnniint16", LEAF_7_1_D, 10, SAVES_AVX)       \
  X("lzcnt", LEAF_EXTENDED_C, 5, 0)                  \
  X("sse4a", LEAF_EXTENDED_C, 6, 0)                  \
  X("xop", LEAF_EXTENDED_C, 11, SAVES_AVX)           \
  X("fma4", LEAF_EXTENDED_C, 16, SAVES_AVX)          \
  X("tbm", LEAF_EXTENDED_C, 21, 0)

static uint32_t feature_saved_registers(uint32_t leaf_1_c) {
  if (!(leaf_1_c >> 27 & 1)) return 0; /* no xgetbv */
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

void edgert_cpu_read_features(edgert_cpu_features *out) {
  uint32_t *words = out->words;
  unsigned a = 0, b = 0, c = 0, d = 0;
  unsigned most = __get_cpuid_max(0, NULL);
  memset(out, 0, sizeof *out);
  if (most >= 1) {
    __cpuid(1, a, b, c, d);
    words[LEAF_1_C] = c;
  }
  if (most >= 7) {
    __cpuid_count(7, 0, a, b, c, d);
    unsigned leaves = a;
    words[LEAF_7_B] = b;
    words[LEAF_7_C] = c;
    words[LEAF_7_D] = d;
    if (leaves >= 1) {
      __cpuid_count(7, 1, a, b, c, d);
      words[LEAF_7_1_A] = a;
      words[LEAF_7_1_D] = d;
    }
  }
  if (__get_cpuid(0x80000001u, &a, &b, &c, &d)) words[LEAF_EXTENDED_C] = c;
  words[SAVED] = feature_saved_registers(words[LEAF_1_C]);
}

static int feature_test(const edgert_cpu_features *features, const feature_place *place) {
  static const uint32_t masks[] = {0, 0x6, 0xE6, 0x60000};
  uint32_t mask = masks[place->needs];
  if ((features->words[SAVED] & mask) != mask) return 0;
  return features->words[place->word] >> place->bit & 1;
}

#elif defined(__linux__) && (defined(__aarch64__) || defined(__arm__) || defined(__riscv))

#include <sys/auxv.h>

/* Bits of the words that the kernel hands to a program: AT_HWCAP (0) and AT_HWCAP2 (1). */
#if defined(__aarch64__)
#define FEATURES(X)                                                \
  X("fp-armv8", 0, 0, 0) X("neon", 0, 1, 0) X("aes", 0, 3, 0)      \
  X("sha2", 0, 6, 0) X("crc", 0, 7, 0) X("lse", 0, 8, 0)           \
  X("fullfp16", 0, 10, 0) X("rdm", 0, 12, 0) X("jsconv", 0, 13, 0) \
  X("complxnum", 0, 14, 0) X("rcpc", 0, 15, 0) X("sha3", 0, 17, 0) \
  X("dotprod", 0, 20, 0) X("sve", 0, 22, 0) X("fp16fml", 0, 23, 0) \
  X("sve2", 1, 1, 0) X("i8mm", 1, 13, 0) X("bf16", 1, 14, 0)       \
  X("sme", 1, 23, 0)
#elif defined(__arm__)
#define FEATURES(X)                                           \
  X("neon", 0, 12, 0) X("vfp3", 0, 13, 0) X("vfp4", 0, 16, 0)
#else
#define FEATURES(X)                                 \
  X("a", 0, 0, 0) X("c", 0, 2, 0) X("d", 0, 3, 0)   \
  X("f", 0, 5, 0) X("m", 0, 12, 0) X("v", 0, 21, 0)
#endif

void edgert_cpu_read_features(edgert_cpu_features *out) {
  memset(out, 0, sizeof *out);
  out->words[0] = (uint32_t)getauxval(AT_HWCAP);
  out->words[1] = (uint32_t)getauxval(AT_HWCAP2);
}

static int feature_test(const edgert_cpu_features *features, const feature_place *place) {
  return features->words[place->word] >> place->bit & 1;
}

#elif defined(__APPLE__) && defined(__aarch64__)

/* Every Apple processor for Macs, and phones since the A14, has these. */
#define FEATURES(X)                                              \
  X("neon", 0, 0, 0) X("fp-armv8", 0, 0, 0) X("lse", 0, 0, 0)    \
  X("fullfp16", 0, 0, 0) X("aes", 0, 0, 0) X("fp16fml", 0, 0, 0) \
  X("sha2", 0, 0, 0) X("sha3", 0, 0, 0) X("crc", 0, 0, 0)        \
  X("dotprod", 0, 0, 0) X("rdm", 0, 0, 0) X("jsconv", 0, 0, 0)   \
  X("rcpc", 0, 0, 0) X("complxnum", 0, 0, 0)

void edgert_cpu_read_features(edgert_cpu_features *out) { memset(out, 0, sizeof *out); }

static int feature_test(const edgert_cpu_features *features, const feature_place *place) {
  (void)features, (void)place;
  return 1;
}

#else

#define FEATURES(X) \
  X("", 0, 0, 0)

void edgert_cpu_read_features(edgert_cpu_features *out) { memset(out, 0, sizeof *out); }

static int feature_test(const edgert_cpu_features *features, const feature_place *place) {
  (void)features, (void)place;
  return 0;
}

#endif

#define FEATURE_NAME(name, word, bit, needs) name "\0"
#define FEATURE_PLACE(name, word, bit, needs) {word, bit, needs},

int edgert_cpu_feature(const edgert_cpu_features *features, edgert_text name, int64_t *out) {
  static const feature_place places[] = {FEATURES(FEATURE_PLACE)};
  size_t index = edgert_name_index(FEATURES(FEATURE_NAME), name);
  if (index >= sizeof places / sizeof *places) return 0;
  *out = feature_test(features, &places[index]);
  return 1;
}
