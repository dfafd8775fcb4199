/* A `libvulkan.so.1` that passes everything on to the real one, but for what the environment says:
 *
 *     SHIM_FAIL=vkQueueSubmit SHIM_AFTER=2 SHIM_RESULT=-4   the third call of that fails so
 *     SHIM_VERSION=1.1   devices say they have no more, and need extensions for the rest
 *     SHIM_FEATURES=0    devices say they have no optional features
 *     SHIM_MEMORY=0      memory that the host sees is not coherent
 *     SHIM_ALIGNMENT=256 bindings begin at multiples of that alone
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan_core.h>

static PFN_vkGetInstanceProcAddr real_instance;
static PFN_vkGetDeviceProcAddr real_device;
static PFN_vkGetPhysicalDeviceProperties real_properties;
static PFN_vkGetPhysicalDeviceProperties2 real_properties_2;
static PFN_vkGetPhysicalDeviceFeatures2 real_features;
static PFN_vkGetPhysicalDeviceMemoryProperties real_memory;
static int calls;

static int is_set(const char *name, const char *value) {
  const char *found = getenv(name);
  return found && strcmp(found, value) == 0;
}

/* Whether this call of the function is the one that fails. */
static int fails(const char *name) {
  return is_set("SHIM_FAIL", name) && calls++ == atoi(getenv("SHIM_AFTER"));
}

/* Writes a kernel's SPIR-V into the folder that the test reads. */
static void show(const VkShaderModuleCreateInfo *kernel) {
  static int count;
  const char *folder = getenv("SHIM_KERNELS");
  char path[1024];
  if (!folder) return;
  snprintf(path, sizeof path, "%s/%d.spv", folder, count++);
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(kernel->pCode, 1, kernel->codeSize, file) != kernel->codeSize) exit(98);
  fclose(file);
}

/* A function of Vulkan's that may fail: `real_` what it is, and one that asks first. */
#define FAILING(name, arguments, values)                            \
  static PFN_##name real_##name;                                    \
  static VKAPI_ATTR VkResult VKAPI_CALL shim_##name arguments {     \
    if (fails(#name)) return (VkResult)atoi(getenv("SHIM_RESULT")); \
    return real_##name values;                                      \
  }
#define FAILINGS(X)                                                                              \
  X(vkQueueSubmit, (VkQueue a, uint32_t b, const VkSubmitInfo *c, VkFence d), (a, b, c, d))      \
  X(vkWaitForFences, (VkDevice a, uint32_t b, const VkFence *c, VkBool32 d, uint64_t e),         \
    (a, b, c, d, e))                                                                             \
  X(vkAllocateMemory,                                                                            \
    (VkDevice a, const VkMemoryAllocateInfo *b, const VkAllocationCallbacks *c,                  \
     VkDeviceMemory *d),                                                                         \
    (a, b, c, d))                                                                                \
  X(vkCreateBuffer,                                                                              \
    (VkDevice a, const VkBufferCreateInfo *b, const VkAllocationCallbacks *c, VkBuffer *d),      \
    (a, b, c, d))                                                                                \
  X(vkCreateFence,                                                                               \
    (VkDevice a, const VkFenceCreateInfo *b, const VkAllocationCallbacks *c, VkFence *d),        \
    (a, b, c, d))                                                                                \
  X(vkCreateCommandPool,                                                                         \
    (VkDevice a, const VkCommandPoolCreateInfo *b, const VkAllocationCallbacks *c,               \
     VkCommandPool *d),                                                                          \
    (a, b, c, d))                                                                                \
  X(vkCreateDescriptorPool,                                                                      \
    (VkDevice a, const VkDescriptorPoolCreateInfo *b, const VkAllocationCallbacks *c,            \
     VkDescriptorPool *d),                                                                       \
    (a, b, c, d))                                                                                \
  X(vkAllocateDescriptorSets,                                                                    \
    (VkDevice a, const VkDescriptorSetAllocateInfo *b, VkDescriptorSet *c), (a, b, c))           \
  X(vkCreateShaderModule,                                                                        \
    (VkDevice a, const VkShaderModuleCreateInfo *b, const VkAllocationCallbacks *c,              \
     VkShaderModule *d),                                                                         \
    (a, (show(b), b), c, d))                                                                     \
  X(vkCreateComputePipelines,                                                                    \
    (VkDevice a, VkPipelineCache b, uint32_t c, const VkComputePipelineCreateInfo *d,            \
     const VkAllocationCallbacks *e, VkPipeline *f),                                             \
    (a, b, c, d, e, f))                                                                          \
  X(vkEndCommandBuffer, (VkCommandBuffer a), (a))
FAILINGS(FAILING)

static void change_properties(VkPhysicalDeviceProperties *properties) {
  if (is_set("SHIM_VERSION", "1.1")) properties->apiVersion = VK_API_VERSION_1_1;
  const char *alignment = getenv("SHIM_ALIGNMENT");
  if (alignment) properties->limits.minStorageBufferOffsetAlignment = (VkDeviceSize)atoi(alignment);
}

static VKAPI_ATTR void VKAPI_CALL shim_properties(VkPhysicalDevice device,
                                                  VkPhysicalDeviceProperties *out) {
  real_properties(device, out);
  change_properties(out);
}

static VKAPI_ATTR void VKAPI_CALL shim_properties_2(VkPhysicalDevice device,
                                                    VkPhysicalDeviceProperties2 *out) {
  real_properties_2(device, out);
  change_properties(&out->properties);
  for (VkPhysicalDeviceFloatControlsProperties *more = out->pNext; more; more = more->pNext)
    if (more->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES &&
        is_set("SHIM_FLOATS", "0"))
      more->shaderSignedZeroInfNanPreserveFloat32 = VK_FALSE;
}

static VKAPI_ATTR void VKAPI_CALL shim_features(VkPhysicalDevice device,
                                                VkPhysicalDeviceFeatures2 *out) {
  real_features(device, out);
  if (!is_set("SHIM_FEATURES", "0")) return;
  memset(&out->features, 0, sizeof out->features);
  for (VkPhysicalDevice8BitStorageFeatures *more = out->pNext; more; more = more->pNext)
    more->storageBuffer8BitAccess = 0; /* the first of each */
}

static VKAPI_ATTR void VKAPI_CALL shim_memory(VkPhysicalDevice device,
                                              VkPhysicalDeviceMemoryProperties *out) {
  real_memory(device, out);
  for (uint32_t i = 0; is_set("SHIM_MEMORY", "0") && i < out->memoryTypeCount; ++i)
    out->memoryTypes[i].propertyFlags &= ~(VkFlags)VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
}

#define KEEP(variable, found) memcpy(&(variable), &(found), sizeof(found))
#define GIVE(function) (PFN_vkVoidFunction)(function)

#define REPLACE(name, arguments, values) \
  if (strcmp(asked, #name) == 0) {       \
    KEEP(real_##name, found);            \
    return GIVE(shim_##name);            \
  }

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL shim_device(VkDevice device, const char *asked) {
  PFN_vkVoidFunction found = real_device(device, asked);
  FAILINGS(REPLACE)
  return found;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance,
                                                               const char *asked) {
  if (!real_instance) {
    void *library = dlopen(getenv("SHIM_REAL"), RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
    if (!symbol) {
      fprintf(stderr, "the shim finds no Vulkan: %s\n", dlerror());
      exit(99);
    }
    KEEP(real_instance, symbol);
  }
  PFN_vkVoidFunction found = real_instance(instance, asked);
  if (strcmp(asked, "vkGetDeviceProcAddr") == 0) {
    KEEP(real_device, found);
    return GIVE(shim_device);
  }
  if (strcmp(asked, "vkGetPhysicalDeviceProperties") == 0) {
    KEEP(real_properties, found);
    return GIVE(shim_properties);
  }
  if (strcmp(asked, "vkGetPhysicalDeviceProperties2") == 0) {
    KEEP(real_properties_2, found);
    return GIVE(shim_properties_2);
  }
  if (strcmp(asked, "vkGetPhysicalDeviceFeatures2") == 0) {
    KEEP(real_features, found);
    return GIVE(shim_features);
  }
  if (strcmp(asked, "vkGetPhysicalDeviceMemoryProperties") == 0) {
    KEEP(real_memory, found);
    return GIVE(shim_memory);
  }
  return found;
}
