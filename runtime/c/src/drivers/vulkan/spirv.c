/* What a kernel's SPIR-V asks of a device, read before a driver sees it: drivers crash or compute
 * nonsense where they have not what a kernel declares. */
#include "../../drivers.h"

#if EDGERT_WITH_VULKAN

#include "vulkan.h"

#define SPIRV_MAGIC 0x07230203u
#define SPIRV_HEADER_WORDS 5
enum {
  SPIRV_OP_EXTENSION = 10,
  SPIRV_OP_ENTRY_POINT = 15,
  SPIRV_OP_EXECUTION_MODE = 16,
  SPIRV_OP_CAPABILITY = 17,
  SPIRV_OP_FUNCTION = 54,
  SPIRV_OP_DECORATE = 71,
  SPIRV_DECORATION_BUILT_IN = 11,
  SPIRV_BUILT_IN_COUNTS = 24,
  SPIRV_MODEL_COMPUTE = 5,
  SPIRV_MODE_LOCAL_SIZE = 17,
  SPIRV_MODE_KEEPS = 4461, /* SignedZeroInfNanPreserve */
  SPIRV_CAPABILITY_KEEPS = 4466
};

/* A capability is there if a feature is: in the structure of a feature by its place, or (SUBGROUP) by
 * a bit of what subgroups do, or (PLAIN) among those of 64-bit and 16-bit types; or always. */
enum { SPIRV_ALWAYS = 100, SPIRV_SUBGROUP, SPIRV_PLAIN };

static const struct {
  uint16_t number;
  uint8_t feature;
  uint8_t place;
} spirv_capabilities[] = {
    {0, SPIRV_ALWAYS, 0}, /* Matrix */
    {1, SPIRV_ALWAYS, 0}, /* Shader */
    {9, VULKAN_HAS_FLOAT16_INT8, 0},
    {10, SPIRV_PLAIN, 0}, /* Float64 */
    {11, SPIRV_PLAIN, 1}, /* Int64 */
    {22, SPIRV_PLAIN, 2}, /* Int16 */
    {39, VULKAN_HAS_FLOAT16_INT8, 1},
    {61, SPIRV_SUBGROUP, 0}, /* GroupNonUniform, Vote, Arithmetic, Ballot, Shuffle, ... */
    {62, SPIRV_SUBGROUP, 1},
    {63, SPIRV_SUBGROUP, 2},
    {64, SPIRV_SUBGROUP, 3},
    {65, SPIRV_SUBGROUP, 4},
    {66, SPIRV_SUBGROUP, 5},
    {67, SPIRV_SUBGROUP, 6},
    {68, SPIRV_SUBGROUP, 7},
    {4433, VULKAN_HAS_16BIT_STORAGE, 0},
    {4434, VULKAN_HAS_16BIT_STORAGE, 1},
    {4435, VULKAN_HAS_16BIT_STORAGE, 2},
    {4441, VULKAN_HAS_VARIABLE_POINTERS, 0},
    {4442, VULKAN_HAS_VARIABLE_POINTERS, 1},
    {SPIRV_CAPABILITY_KEEPS, SPIRV_ALWAYS, 0}, /* or done without */
    {4448, VULKAN_HAS_8BIT_STORAGE, 0},
    {4449, VULKAN_HAS_8BIT_STORAGE, 1},
    {4450, VULKAN_HAS_8BIT_STORAGE, 2},
    {5345, VULKAN_HAS_MEMORY_MODEL, 0},
    {5346, VULKAN_HAS_MEMORY_MODEL, 1},
    {6016, VULKAN_HAS_DOT_PRODUCT, 0},
    {6017, VULKAN_HAS_DOT_PRODUCT, 0},
    {6018, VULKAN_HAS_DOT_PRODUCT, 0},
    {6019, VULKAN_HAS_DOT_PRODUCT, 0},
    {6022, VULKAN_HAS_COOPERATIVE_MATRIX, 0},
};

static int spirv_is_capable(const vulkan_facts *facts, uint32_t number) {
  for (size_t i = 0; i < sizeof spirv_capabilities / sizeof *spirv_capabilities; ++i) {
    if (spirv_capabilities[i].number != number) continue;
    uint32_t feature = spirv_capabilities[i].feature, place = spirv_capabilities[i].place;
    const VkBool32 plain[] = {facts->features.shaderFloat64, facts->features.shaderInt64,
                              facts->features.shaderInt16};
    if (feature == SPIRV_ALWAYS) return 1;
    if (feature == SPIRV_PLAIN) return plain[place] != 0;
    if (feature == SPIRV_SUBGROUP)
      return (facts->subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
             facts->subgroup.supportedOperations >> place & 1;
    return facts->more[feature].values[place] != 0;
  }
  return 0;
}

static uint32_t spirv_newest(const vulkan_facts *facts) {
  uint32_t api = facts->properties.apiVersion;
  return api >= VK_API_1_3 ? 6 : api >= VK_API_1_2 ? 5 : facts->has[VULKAN_HAS_SPIRV_1_4] ? 4 : 3;
}

/* Whether the words at an instruction are that text, which ends within `count` words. */
static int spirv_is_text(const uint32_t *words, uint32_t count, edgert_text text) {
  return text.size < (size_t)count * 4 && memcmp(words, text.data, text.size) == 0 &&
         ((const char *)words)[text.size] == 0;
}

edgert_status vulkan_spirv_check(const vulkan_facts *facts, const uint32_t *words, uint32_t count,
                                 edgert_text name, int *out_counts, edgert_error *error) {
  *out_counts = 0;
  const VkPhysicalDeviceLimits *limits = &facts->properties.limits;
  const char *device = facts->properties.deviceName;
  (void)device;
  if (count < SPIRV_HEADER_WORDS || words[0] != SPIRV_MAGIC || words[1] >> 16 != 1)
    return EDGERT_FAIL(error, EDGERT_DAMAGED, "a kernel is no SPIR-V");
  if ((words[1] >> 8 & 0xFF) > spirv_newest(facts))
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                       "the kernel '%.*s' is SPIR-V 1.%u, and %s reads 1.%u at most",
                       EDGERT_TEXT(name), (unsigned)(words[1] >> 8 & 0xFF), device,
                       (unsigned)spirv_newest(facts));
  uint32_t entry = 0;
  for (uint32_t at = SPIRV_HEADER_WORDS; at < count;) {
    const uint32_t *word = words + at;
    uint32_t length = word[0] >> 16, op = word[0] & 0xFFFF;
    if (length == 0 || length > count - at)
      return EDGERT_FAIL(error, EDGERT_DAMAGED, "a kernel's SPIR-V is cut short");
    at += length;
    if (op == SPIRV_OP_FUNCTION) break;
    if (op == SPIRV_OP_DECORATE && length > 3 && word[2] == SPIRV_DECORATION_BUILT_IN &&
        word[3] == SPIRV_BUILT_IN_COUNTS)
      *out_counts = 1;
    if (op == SPIRV_OP_CAPABILITY && length > 1 && !spirv_is_capable(facts, word[1]))
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                         "the kernel '%.*s' needs SPIR-V's capability %u, which %s has not",
                         EDGERT_TEXT(name), (unsigned)word[1], device);
    if (op == SPIRV_OP_ENTRY_POINT && length > 3 && word[1] == SPIRV_MODEL_COMPUTE &&
        spirv_is_text(word + 3, length - 3, name))
      entry = word[2];
    if (op != SPIRV_OP_EXECUTION_MODE || length < 6 || word[1] != entry ||
        word[2] != SPIRV_MODE_LOCAL_SIZE)
      continue;
    uint64_t threads = 1;
    int fits = 1;
    for (size_t i = 0; i < 3; ++i) {
      fits &= word[3 + i] <= limits->maxComputeWorkGroupSize[i];
      threads *= word[3 + i] <= UINT16_MAX ? word[3 + i] : UINT16_MAX;
    }
    if (!fits || threads > limits->maxComputeWorkGroupInvocations)
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                         "the kernel '%.*s' has workgroups of %llu, and %s runs %u at most",
                         EDGERT_TEXT(name), (unsigned long long)threads, device,
                         (unsigned)limits->maxComputeWorkGroupInvocations);
  }
  if (entry) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_DAMAGED, "there is no kernel '%.*s' where it should be",
                     EDGERT_TEXT(name));
}

static int spirv_keeps(const uint32_t *word) {
  static const char extension[] = "SPV_KHR_float_controls";
  uint32_t length = word[0] >> 16, op = word[0] & 0xFFFF;
  if (op == SPIRV_OP_CAPABILITY) return length > 1 && word[1] == SPIRV_CAPABILITY_KEEPS;
  if (op == SPIRV_OP_EXECUTION_MODE) return length > 2 && word[2] == SPIRV_MODE_KEEPS;
  return op == SPIRV_OP_EXTENSION &&
         spirv_is_text(word + 1, length - 1, (edgert_text){extension, sizeof extension - 1});
}

edgert_status vulkan_spirv_reduce(const vulkan_facts *facts, const edgert_allocator *allocator,
                                  const uint32_t *words, uint32_t *count, uint32_t **out,
                                  edgert_error *error) {
  *out = NULL;
  if (facts->floats.shaderSignedZeroInfNanPreserveFloat32) return EDGERT_OK;
  void *memory;
  edgert_status status = edgert_allocate_array(allocator, *count, sizeof **out, &memory, error);
  if (status != EDGERT_OK) return status;
  *out = memory;
  uint32_t put = SPIRV_HEADER_WORDS, at = put;
  memcpy(*out, words, put * sizeof **out);
  for (; at < *count && (words[at] & 0xFFFF) != SPIRV_OP_FUNCTION; at += words[at] >> 16) {
    uint32_t length = words[at] >> 16;
    if (spirv_keeps(words + at)) continue;
    memcpy(*out + put, words + at, length * sizeof **out);
    put += length;
  }
  memcpy(*out + put, words + at, (*count - at) * sizeof **out);
  *count -= at - put;
  return EDGERT_OK;
}

#endif
