/* Vulkan's library, found at run time; its devices and what they have. */
#include "../../drivers.h"

#if EDGERT_WITH_VULKAN

#include "vulkan.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

static void *loader_open(const char *name) { return LoadLibraryA(name); }
static void loader_close(void *library) { (void)FreeLibrary(library); }
static void *loader_find(void *library, const char *name) {
  FARPROC found = GetProcAddress(library, name);
  void *symbol;
  memcpy(&symbol, &found, sizeof symbol);
  return symbol;
}
static const char *const loader_names[] = {"vulkan-1.dll"};
#else
#include <dlfcn.h>

static void *loader_open(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
static void loader_close(void *library) { (void)dlclose(library); }
static void *loader_find(void *library, const char *name) { return dlsym(library, name); }
#if defined(__APPLE__)
static const char *const loader_names[] = {"libvulkan.1.dylib", "libvulkan.dylib",
                                           "libMoltenVK.dylib"};
#else
static const char *const loader_names[] = {"libvulkan.so.1", "libvulkan.so"};
#endif
#endif

/* --- instances -------------------------------------------------------------------------------- */

int vulkan_find_functions(const vulkan_instance *self, VkDevice device, const char *names,
                          PFN_vkVoidFunction *out) {
  char whole[64] = "vk";
  for (; *names; names += strlen(names) + 1) {
    strncpy(whole + 2, names, sizeof whole - 3);
    *out = device ? self->GetDeviceProcAddr(device, whole)
                  : self->GetInstanceProcAddr(self->handle, whole);
    if (!*out++) return 0;
  }
  return 1;
}

/* GPUs before processors that do as if, each in the loader's order. */
static edgert_status loader_list(vulkan_instance *self, edgert_error *error) {
  VkPhysicalDevice found[sizeof self->devices / sizeof *self->devices];
  uint32_t count = sizeof found / sizeof *found;
  VkResult result = self->EnumeratePhysicalDevices(self->handle, &count, found);
  if (result != VK_SUCCESS && result != VK_INCOMPLETE)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "Vulkan lists no devices: error %d", (int)result);
  for (int is_cpu = 0; is_cpu < 2; ++is_cpu)
    for (uint32_t i = 0; i < count; ++i) {
      VkPhysicalDeviceProperties properties;
      self->GetPhysicalDeviceProperties(found[i], &properties);
      if ((properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) == is_cpu)
        self->devices[self->device_count++] = found[i];
    }
  return EDGERT_OK;
}

edgert_status vulkan_instance_open(vulkan_instance *self, edgert_error *error) {
  memset(self, 0, sizeof *self);
  for (size_t i = 0; !self->library && i < sizeof loader_names / sizeof *loader_names; ++i)
    self->library = loader_open(loader_names[i]);
  if (!self->library)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "this system has no Vulkan: there is no %s",
                       loader_names[0]);
  void *symbol = loader_find(self->library, "vkGetInstanceProcAddr");
  memcpy(&self->GetInstanceProcAddr, &symbol, sizeof symbol);
  uint32_t version = 0;
  edgert_status status = EDGERT_OK;
  if (!symbol ||
      !vulkan_find_functions(self, NULL, VULKAN_GLOBAL(VULKAN_NAME), self->global_functions) ||
      self->EnumerateInstanceVersion(&version) != VK_SUCCESS || version < VK_API_1_1)
    status = EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "this system's Vulkan is older than 1.1");
  if (status == EDGERT_OK) {
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pEngineName = "edgert",
        .apiVersion = version < VK_API_1_3 ? version & VK_API_PARTS : VK_API_1_3};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &application};
    VkResult result = self->CreateInstance(&info, NULL, &self->handle);
    if (result != VK_SUCCESS ||
        !vulkan_find_functions(self, NULL, VULKAN_INSTANCE(VULKAN_NAME),
                               self->instance_functions))
      status = EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "Vulkan does not start: error %d",
                           (int)result);
  }
  if (status == EDGERT_OK) status = loader_list(self, error);
  if (status != EDGERT_OK) vulkan_instance_close(self);
  return status;
}

void vulkan_instance_close(vulkan_instance *self) {
  if (self->handle && self->DestroyInstance) self->DestroyInstance(self->handle, NULL);
  if (self->library) loader_close(self->library);
  memset(self, 0, sizeof *self);
}

/* --- facts ------------------------------------------------------------------------------------ */

/* By number as in vulkan.h: the structure of its features, the version from which it belongs to
 * Vulkan, and the extension that it was before. */
static const struct {
  VkStructureType type;
  uint32_t version;
  const char *extension;
} loader_features[VULKAN_EXTENSIONS] = {
    [VULKAN_HAS_16BIT_STORAGE] = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
                                  VK_API_1_1, NULL},
    [VULKAN_HAS_VARIABLE_POINTERS] = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VARIABLE_POINTERS_FEATURES,
                                      VK_API_1_1, NULL},
    [VULKAN_HAS_8BIT_STORAGE] = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES,
                                 VK_API_1_2, "VK_KHR_8bit_storage"},
    [VULKAN_HAS_FLOAT16_INT8] = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
                                 VK_API_1_2, "VK_KHR_shader_float16_int8"},
    [VULKAN_HAS_MEMORY_MODEL] = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
                                 VK_API_1_2, "VK_KHR_vulkan_memory_model"},
    [VULKAN_HAS_SUBGROUP_TYPES] =
        {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES, VK_API_1_2,
         "VK_KHR_shader_subgroup_extended_types"},
    [VULKAN_HAS_SUBGROUP_SIZE] = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
                                  VK_API_1_3, "VK_EXT_subgroup_size_control"},
    [VULKAN_HAS_DOT_PRODUCT] =
        {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES, VK_API_1_3,
         "VK_KHR_shader_integer_dot_product"},
    [VULKAN_HAS_COOPERATIVE_MATRIX] =
        {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR, UINT32_MAX,
         "VK_KHR_cooperative_matrix"},
    [VULKAN_HAS_FLOAT_CONTROLS] = {0, VK_API_1_2, "VK_KHR_shader_float_controls"},
    [VULKAN_HAS_SPIRV_1_4] = {0, VK_API_1_2, "VK_KHR_spirv_1_4"},
    [VULKAN_HAS_PORTABILITY] = {0, UINT32_MAX, "VK_KHR_portability_subset"},
};

/* Which of these the device has, by its version or by its extensions, of which there are many. */
static edgert_status loader_read_extensions(const vulkan_instance *instance,
                                            VkPhysicalDevice device, vulkan_facts *out,
                                            edgert_error *error) {
  const edgert_allocator allocator = edgert_allocator_or_default(NULL);
  uint32_t count = 0;
  void *memory = NULL;
  VkResult result = instance->EnumerateDeviceExtensionProperties(device, NULL, &count, NULL);
  edgert_status status = edgert_allocate_array(&allocator, result == VK_SUCCESS ? count : 0,
                                               sizeof(VkExtensionProperties), &memory, error);
  if (status != EDGERT_OK) return status;
  VkExtensionProperties *found = memory;
  if (found) result = instance->EnumerateDeviceExtensionProperties(device, NULL, &count, found);
  for (size_t k = 0; k < VULKAN_EXTENSIONS; ++k) {
    if (out->properties.apiVersion >= loader_features[k].version) out->has[k] = 1;
    for (uint32_t i = 0; found && result >= 0 && i < count && !out->has[k]; ++i)
      if (loader_features[k].extension &&
          strcmp(found[i].extensionName, loader_features[k].extension) == 0)
        out->has[k] = 2;
  }
  edgert_deallocate(&allocator, memory);
  return EDGERT_OK;
}

/* All structures of features that the device has, one behind the other. */
static void loader_chain(vulkan_facts *facts, VkPhysicalDeviceFeatures2 *first) {
  *first = (VkPhysicalDeviceFeatures2){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  void **next = &first->pNext;
  for (size_t i = 0; i < VULKAN_FEATURES; ++i) {
    if (!facts->has[i]) continue;
    facts->more[i].sType = loader_features[i].type;
    facts->more[i].pNext = NULL;
    *next = &facts->more[i];
    next = &facts->more[i].pNext;
  }
}

edgert_status vulkan_facts_read(const vulkan_instance *instance, VkPhysicalDevice device,
                                vulkan_facts *out, edgert_error *error) {
  memset(out, 0, sizeof *out);
  instance->GetPhysicalDeviceProperties(device, &out->properties);
  if (out->properties.apiVersion < VK_API_1_1)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "%s has a Vulkan older than 1.1",
                       out->properties.deviceName);
  VkQueueFamilyProperties families[16];
  uint32_t count = sizeof families / sizeof *families;
  instance->GetPhysicalDeviceQueueFamilyProperties(device, &count, families);
  while (out->family < count && !(families[out->family].queueFlags & VK_QUEUE_COMPUTE_BIT))
    ++out->family;
  if (out->family < count) out->timestamp_bits = families[out->family].timestampValidBits;
  if (out->family == count)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "%s computes nothing",
                       out->properties.deviceName);
  edgert_status status = loader_read_extensions(instance, device, out, error);
  if (status != EDGERT_OK) return status;
  VkPhysicalDeviceFeatures2 features;
  loader_chain(out, &features);
  instance->GetPhysicalDeviceFeatures2(device, &features);
  out->features.shaderFloat64 = features.features.shaderFloat64;
  out->features.shaderInt64 = features.features.shaderInt64;
  out->features.shaderInt16 = features.features.shaderInt16;
  VkPhysicalDeviceMaintenance3Properties sizes = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
  out->subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  out->subgroup.pNext = &sizes;
  out->subgroup_sizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
  if (out->has[VULKAN_HAS_SUBGROUP_SIZE]) sizes.pNext = &out->subgroup_sizes;
  out->floats.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
  out->floats.pNext = &out->subgroup;
  VkPhysicalDeviceProperties2 properties = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, 
      .pNext = out->has[VULKAN_HAS_FLOAT_CONTROLS] ? (void *)&out->floats : (void *)&out->subgroup};
  instance->GetPhysicalDeviceProperties2(device, &properties);
  out->largest_allocation = sizes.maxMemoryAllocationSize;
  return EDGERT_OK;
}

edgert_status vulkan_facts_open(const vulkan_instance *instance, VkPhysicalDevice device,
                                vulkan_facts *facts, VkDevice *out, edgert_error *error) {
  const float priority = 1;
  const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                         .queueFamilyIndex = facts->family,
                                         .queueCount = 1,
                                         .pQueuePriorities = &priority};
  const char *extensions[VULKAN_EXTENSIONS];
  uint32_t extension_count = 0;
  for (size_t i = 0; i < VULKAN_EXTENSIONS; ++i)
    if (facts->has[i] == 2) extensions[extension_count++] = loader_features[i].extension;
  VkPhysicalDeviceFeatures2 features;
  loader_chain(facts, &features);
  features.features = facts->features;
  const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                   .pNext = &features,
                                   .queueCreateInfoCount = 1,
                                   .pQueueCreateInfos = &queue,
                                   .enabledExtensionCount = extension_count,
                                   .ppEnabledExtensionNames = extensions};
  VkResult result = instance->CreateDevice(device, &info, NULL, out);
  if (result == VK_SUCCESS) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_DEVICE_FAILED, "%s does not open: error %d",
                     facts->properties.deviceName, (int)result);
}

#endif
