/* What this processor can do, by the names that LLVM gives features. */
#include "cpu.h"

/* Where a feature is looked up; `word` is architecture's own. */
typedef struct feature_entry {
  char name[19]; /* in place: a pointer would be one more thing to relocate */
  uint8_t word;
  uint8_t bit;
  uint8_t needs; /* x86: what the system must save, see below */
} feature_entry;

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>

/* Words that cpuid gives, and the registers that the system saves. Under a hypervisor each cpuid
 * takes many microseconds. */
enum { LEAF_1_C, LEAF_7_B, LEAF_7_C, LEAF_7_D, LEAF_7_1_A, LEAF_7_1_D, LEAF_EXTENDED_C, SAVED };
/* Registers that the system must save for a feature to be of use. */
enum { SAVES_NOTHING, SAVES_AVX, SAVES_AVX512, SAVES_AMX };

static const feature_entry feature_table[] = {
    {"sse3", LEAF_1_C, 0, 0},
    {"pclmul", LEAF_1_C, 1, 0},
    {"ssse3", LEAF_1_C, 9, 0},
    {"fma", LEAF_1_C, 12, SAVES_AVX},
    {"sse4.1", LEAF_1_C, 19, 0},
    {"sse4.2", LEAF_1_C, 20, 0},
    {"movbe", LEAF_1_C, 22, 0},
    {"popcnt", LEAF_1_C, 23, 0},
    {"aes", LEAF_1_C, 25, 0},
    {"avx", LEAF_1_C, 28, SAVES_AVX},
    {"f16c", LEAF_1_C, 29, SAVES_AVX},
    {"bmi", LEAF_7_B, 3, 0},
    {"avx2", LEAF_7_B, 5, SAVES_AVX},
    {"bmi2", LEAF_7_B, 8, 0},
    {"avx512f", LEAF_7_B, 16, SAVES_AVX512},
    {"avx512dq", LEAF_7_B, 17, SAVES_AVX512},
    {"adx", LEAF_7_B, 19, 0},
    {"avx512ifma", LEAF_7_B, 21, SAVES_AVX512},
    {"avx512cd", LEAF_7_B, 28, SAVES_AVX512},
    {"sha", LEAF_7_B, 29, 0},
    {"avx512bw", LEAF_7_B, 30, SAVES_AVX512},
    {"avx512vl", LEAF_7_B, 31, SAVES_AVX512},
    {"avx512vbmi", LEAF_7_C, 1, SAVES_AVX512},
    {"avx512vbmi2", LEAF_7_C, 6, SAVES_AVX512},
    {"gfni", LEAF_7_C, 8, 0},
    {"vaes", LEAF_7_C, 9, SAVES_AVX},
    {"vpclmulqdq", LEAF_7_C, 10, SAVES_AVX},
    {"avx512vnni", LEAF_7_C, 11, SAVES_AVX512},
    {"avx512bitalg", LEAF_7_C, 12, SAVES_AVX512},
    {"avx512vpopcntdq", LEAF_7_C, 14, SAVES_AVX512},
    {"avx512vp2intersect", LEAF_7_D, 8, SAVES_AVX512},
    {"amx-bf16", LEAF_7_D, 22, SAVES_AMX},
    {"avx512fp16", LEAF_7_D, 23, SAVES_AVX512},
    {"amx-tile", LEAF_7_D, 24, SAVES_AMX},
    {"amx-int8", LEAF_7_D, 25, SAVES_AMX},
    {"sha512", LEAF_7_1_A, 0, SAVES_AVX},
    {"sm3", LEAF_7_1_A, 1, SAVES_AVX},
    {"sm4", LEAF_7_1_A, 2, SAVES_AVX},
    {"avxvnni", LEAF_7_1_A, 4, SAVES_AVX},
    {"avx512bf16", LEAF_7_1_A, 5, SAVES_AVX512},
    {"amx-fp16", LEAF_7_1_A, 21, SAVES_AMX},
    {"avxifma", LEAF_7_1_A, 23, SAVES_AVX},
    {"avxvnniint8", LEAF_7_1_D, 4, SAVES_AVX},
    {"avxneconvert", LEAF_7_1_D, 5, SAVES_AVX},
    {"amx-complex", LEAF_7_1_D, 8, SAVES_AMX},
    {"avxvnniint16", LEAF_7_1_D, 10, SAVES_AVX},
    {"lzcnt", LEAF_EXTENDED_C, 5, 0},
    {"sse4a", LEAF_EXTENDED_C, 6, 0},
    {"xop", LEAF_EXTENDED_C, 11, SAVES_AVX},
    {"fma4", LEAF_EXTENDED_C, 16, SAVES_AVX},
    {"tbm", LEAF_EXTENDED_C, 21, 0},
};

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

static int feature_test(const edgert_cpu_features *features, const feature_entry *entry) {
  static const uint32_t masks[] = {0, 0x6, 0xE6, 0x60000};
  uint32_t mask = masks[entry->needs];
  if ((features->words[SAVED] & mask) != mask) return 0;
  return features->words[entry->word] >> entry->bit & 1;
}

#elif defined(__linux__) && (defined(__aarch64__) || defined(__arm__) || defined(__riscv))

#include <sys/auxv.h>

/* Bits of the words that the kernel hands to a program: AT_HWCAP (0) and AT_HWCAP2 (1). */
static const feature_entry feature_table[] = {
#if defined(__aarch64__)
    {"fp-armv8", 0, 0, 0}, {"neon", 0, 1, 0},      {"aes", 0, 3, 0},       {"sha2", 0, 6, 0},
    {"crc", 0, 7, 0},      {"lse", 0, 8, 0},       {"fullfp16", 0, 10, 0}, {"rdm", 0, 12, 0},
    {"jsconv", 0, 13, 0},  {"complxnum", 0, 14, 0}, {"rcpc", 0, 15, 0},    {"sha3", 0, 17, 0},
    {"dotprod", 0, 20, 0}, {"sve", 0, 22, 0},      {"fp16fml", 0, 23, 0},  {"sve2", 1, 1, 0},
    {"i8mm", 1, 13, 0},    {"bf16", 1, 14, 0},     {"sme", 1, 23, 0},
#elif defined(__arm__)
    {"neon", 0, 12, 0}, {"vfp3", 0, 13, 0}, {"vfp4", 0, 16, 0},
#else
    {"a", 0, 0, 0}, {"c", 0, 2, 0}, {"d", 0, 3, 0}, {"f", 0, 5, 0}, {"m", 0, 12, 0},
    {"v", 0, 21, 0},
#endif
};

void edgert_cpu_read_features(edgert_cpu_features *out) {
  memset(out, 0, sizeof *out);
  out->words[0] = (uint32_t)getauxval(AT_HWCAP);
  out->words[1] = (uint32_t)getauxval(AT_HWCAP2);
}

static int feature_test(const edgert_cpu_features *features, const feature_entry *entry) {
  return features->words[entry->word] >> entry->bit & 1;
}

#elif defined(__APPLE__) && defined(__aarch64__)

/* Every Apple processor for Macs, and phones since the A14, has these. */
static const feature_entry feature_table[] = {
    {"neon", 0, 0, 0}, {"fp-armv8", 0, 0, 0}, {"lse", 0, 0, 0},    {"fullfp16", 0, 0, 0},
    {"aes", 0, 0, 0},  {"fp16fml", 0, 0, 0},  {"sha2", 0, 0, 0},   {"sha3", 0, 0, 0},
    {"crc", 0, 0, 0},  {"dotprod", 0, 0, 0},  {"rdm", 0, 0, 0},    {"jsconv", 0, 0, 0},
    {"rcpc", 0, 0, 0}, {"complxnum", 0, 0, 0},
};

void edgert_cpu_read_features(edgert_cpu_features *out) { memset(out, 0, sizeof *out); }

static int feature_test(const edgert_cpu_features *features, const feature_entry *entry) {
  (void)features, (void)entry;
  return 1;
}

#else

static const feature_entry feature_table[] = {{"", 0, 0, 0}};

void edgert_cpu_read_features(edgert_cpu_features *out) { memset(out, 0, sizeof *out); }

static int feature_test(const edgert_cpu_features *features, const feature_entry *entry) {
  (void)features, (void)entry;
  return 0;
}

#endif

int edgert_cpu_feature(const edgert_cpu_features *features, edgert_text name, int64_t *out) {
  for (size_t i = 0; name.size && i < sizeof feature_table / sizeof *feature_table; ++i)
    if (edgert_text_equal(name, feature_table[i].name)) {
      *out = feature_test(features, &feature_table[i]);
      return 1;
    }
  return 0;
}
