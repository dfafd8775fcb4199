/* Kernels compiled by the driver on several threads: begun when an executable is loaded, waited for
 * when a dispatch is recorded, which programs do once they have loaded all their executables. */
#include "../../drivers.h"

#if EDGERT_WITH_VULKAN

#include "vulkan.h"

/* Compile one; without the lock, by the one thread that said so. */
static void pipelines_make(vulkan_device *self, vulkan_kernel *kernel) {
  const vulkan_executable *executable = kernel->executable;
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
      .requiredSubgroupSize = kernel->subgroup};
  const VkComputePipelineCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .flags = kernel->may_split ? VK_PIPELINE_CREATE_DISPATCH_BASE_BIT : 0,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = kernel->subgroup ? &size : NULL,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = kernel->shader,
                .pName = kernel->name.data,
                .pSpecializationInfo = &executable->constants},
      .layout = kernel->layout->pipeline,
      .basePipelineIndex = -1};
  kernel->result = self->CreateComputePipelines(self->handle, self->cache, 1, &info, NULL,
                                                &kernel->pipeline);
  self->is_cache_old = 1;
}

/* Take a kernel out of those that wait; under the lock. */
static void pipelines_take(vulkan_device *self, vulkan_kernel *kernel) {
  vulkan_kernel **place = &self->waiting;
  while (*place != kernel) place = &(*place)->next;
  *place = kernel->next;
  self->waiting_count -= 1;
}

/* Compile one that waits; the lock is held before and behind. */
static void pipelines_do(vulkan_device *self, vulkan_kernel *kernel) {
  pipelines_take(self, kernel);
  kernel->state = VULKAN_KERNEL_IN_WORK;
  edgert_mutex_unlock(&self->making);
  pipelines_make(self, kernel);
  edgert_mutex_lock(&self->making);
  kernel->state = VULKAN_KERNEL_DONE;
  edgert_condition_wake_all(&self->made);
}

static void *pipelines_main(void *argument) {
  vulkan_device *self = argument;
  edgert_mutex_lock(&self->making);
  while (!self->is_closing) {
    if (self->waiting) {
      pipelines_do(self, self->waiting);
    } else {
      self->idle_makers += 1;
      edgert_condition_wait(&self->made, &self->making);
      self->idle_makers -= 1;
    }
  }
  edgert_mutex_unlock(&self->making);
  return NULL;
}

void vulkan_pipelines_begin(vulkan_device *self, vulkan_kernel *kernel) {
  edgert_mutex_lock(&self->making);
  vulkan_kernel **last = &self->waiting;
  while (*last) last = &(*last)->next;
  *last = kernel;
  kernel->next = NULL;
  kernel->state = VULKAN_KERNEL_WAITS;
  self->waiting_count += 1;
  /* Who asks for the kernel compiles, too; without any thread it is the only one. */
  unsigned most = edgert_processor_count() - 1;
  if (most > VULKAN_MAKERS) most = VULKAN_MAKERS;
  if (self->waiting_count > self->idle_makers && self->maker_count < most &&
      edgert_thread_start(&self->makers[self->maker_count], pipelines_main, self, NULL) ==
          EDGERT_OK)
    self->maker_count += 1;
  edgert_condition_wake_all(&self->made);
  edgert_mutex_unlock(&self->making);
}

edgert_status vulkan_pipelines_await(vulkan_device *self, vulkan_kernel *kernel,
                                     edgert_error *error) {
  edgert_mutex_lock(&self->making);
  if (kernel->state == VULKAN_KERNEL_WAITS) pipelines_do(self, kernel);
  while (kernel->state == VULKAN_KERNEL_IN_WORK)
    edgert_condition_wait(&self->made, &self->making);
  edgert_mutex_unlock(&self->making);
  if (kernel->result == VK_SUCCESS) return EDGERT_OK;
  return vulkan_fail(self, kernel->result, "compiling a kernel", error);
}

void vulkan_pipelines_drop(vulkan_device *self, vulkan_kernel *kernel) {
  edgert_mutex_lock(&self->making);
  if (kernel->state == VULKAN_KERNEL_WAITS) {
    pipelines_take(self, kernel);
    kernel->state = VULKAN_KERNEL_DONE;
  }
  while (kernel->state == VULKAN_KERNEL_IN_WORK)
    edgert_condition_wait(&self->made, &self->making);
  edgert_mutex_unlock(&self->making);
  if (kernel->pipeline) self->DestroyPipeline(self->handle, kernel->pipeline, NULL);
  if (kernel->shader) self->DestroyShaderModule(self->handle, kernel->shader, NULL);
}

void vulkan_pipelines_close(vulkan_device *self) {
  edgert_mutex_lock(&self->making);
  self->is_closing = 1;
  edgert_condition_wake_all(&self->made);
  edgert_mutex_unlock(&self->making);
  for (uint32_t i = 0; i < self->maker_count; ++i) edgert_thread_join(&self->makers[i]);
}

#endif
