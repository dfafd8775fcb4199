/* Executables for Vulkan: their tables and SPIR-V read, layouts and pipelines asked of a device that
 * only looks at what it is given. */
#define EDGERT_WITH_VULKAN 1
#include "../../runtime/c/src/drivers.h"
#include "../../runtime/c/src/drivers/vulkan/vulkan.h"

#include <stdlib.h>

#include "fuzz.h"

static volatile uint32_t seen;

static VkResult make_set(VkDevice device, const VkDescriptorSetLayoutCreateInfo *info,
                         const void *allocator, VkDescriptorSetLayout *out) {
  (void)device, (void)allocator;
  for (uint32_t i = 0; i < info->bindingCount; ++i) seen += info->pBindings[i].binding;
  memset(out, 1, sizeof *out);
  return VK_SUCCESS;
}

static VkResult make_layout(VkDevice device, const VkPipelineLayoutCreateInfo *info,
                            const void *allocator, VkPipelineLayout *out) {
  (void)device, (void)allocator;
  seen += info->pushConstantRangeCount ? info->pPushConstantRanges->size : 0;
  memset(out, 1, sizeof *out);
  return VK_SUCCESS;
}

static VkResult make_shader(VkDevice device, const VkShaderModuleCreateInfo *info,
                            const void *allocator, VkShaderModule *out) {
  (void)device, (void)allocator;
  for (size_t i = 0; i < info->codeSize / 4; ++i) seen += info->pCode[i];
  memset(out, 1, sizeof *out);
  return VK_SUCCESS;
}

static VkResult make_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                               const VkComputePipelineCreateInfo *infos, const void *allocator,
                               VkPipeline *out) {
  (void)device, (void)cache, (void)allocator, (void)count;
  for (const char *at = infos->stage.pName; *at; ++at) seen += (uint8_t)*at;
  memset(out, 1, sizeof *out);
  return VK_SUCCESS;
}

static void drop_set(VkDevice device, VkDescriptorSetLayout what, const void *allocator) {
  (void)device, (void)what, (void)allocator;
}
static void drop_layout(VkDevice device, VkPipelineLayout what, const void *allocator) {
  (void)device, (void)what, (void)allocator;
}
static void drop_shader(VkDevice device, VkShaderModule what, const void *allocator) {
  (void)device, (void)what, (void)allocator;
}
static void drop_pipeline(VkDevice device, VkPipeline what, const void *allocator) {
  (void)device, (void)what, (void)allocator;
}

void fuzz_vulkan(const uint8_t *data, size_t size) {
  edgert_driver driver = edgert_vulkan_driver;
  driver.destroy = NULL; /* it has nothing */
  void *made;
  if (edgert_object_create(&fuzz_allocator, EDGERT_KIND_DEVICE, sizeof(vulkan_device), &made, NULL))
    return;
  vulkan_device *self = made;
  self->device.driver = &driver;
  self->device.name = "none";
  self->facts.properties.limits.maxPushConstantsSize = 128;
  self->facts.properties.limits.maxPerStageDescriptorStorageBuffers = 8;
  self->facts.properties.limits.maxComputeWorkGroupCount[0] = 65535;
  self->facts.properties.limits.maxComputeWorkGroupInvocations = 256;
  self->facts.properties.limits.maxComputeSharedMemorySize = 32768;
  self->facts.subgroup.subgroupSize = 8;
  self->facts.floats.shaderSignedZeroInfNanPreserveFloat32 = size % 2;
  edgert_mutex_create(&self->lock);
  edgert_mutex_create(&self->making);
  edgert_condition_create(&self->made);
  self->maker_count = VULKAN_MAKERS; /* as if all were at work: who asks for a kernel compiles it */
  self->CreateDescriptorSetLayout = make_set;
  self->CreatePipelineLayout = make_layout;
  self->CreateShaderModule = make_shader;
  self->CreateComputePipelines = make_pipelines;
  self->DestroyDescriptorSetLayout = drop_set;
  self->DestroyPipelineLayout = drop_layout;
  self->DestroyShaderModule = drop_shader;
  self->DestroyPipeline = drop_pipeline;
  const uint32_t constants[2] = {1, 2};
  edgert_executable *executable = NULL;
  uint32_t kernel;
  if (vulkan_load(&self->device, (edgert_text){VULKAN_FORMAT, sizeof VULKAN_FORMAT - 1}, data, size,
                  constants, size % 3, &executable, NULL) == EDGERT_OK) {
    (void)vulkan_find(executable, (edgert_text){"main", 4}, &kernel, NULL);
    for (kernel = 0; kernel < 4; ++kernel) (void)vulkan_check(executable, kernel, 1, 3, NULL);
  }
  edgert_release(executable ? &executable->object : NULL);
  edgert_condition_destroy(&self->made);
  edgert_mutex_destroy(&self->making);
  edgert_mutex_destroy(&self->lock);
  edgert_release(&self->device.object);
}
