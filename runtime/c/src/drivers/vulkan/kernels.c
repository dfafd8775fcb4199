/* Executables to pipelines: a FlatBuffer of SPIR-V and of what is bound to it. */
#include "../../drivers.h"

#if EDGERT_WITH_VULKAN

#include "../../flatbuffer.h"
#include "vulkan.h"

/* The file's header, and its fields by their numbers. */
#define KERNELS_HEADER 64
enum { KERNELS_PIPELINES, KERNELS_SETS, KERNELS_LAYOUTS, KERNELS_MODULES };
enum { PIPELINE_MODULE, PIPELINE_NAME, PIPELINE_LAYOUT, PIPELINE_SUBGROUP, PIPELINE_DEBUG, PIPELINE_ABI };
enum { BINDING_NUMBER, BINDING_TYPE, BINDING_COUNT };
enum { LAYOUT_SETS, LAYOUT_CONSTANTS };

/* Behind the file: kernels that do the same with words where others have bytes. Their mark, how many
 * there are, and of each the module that it stands for, and where its words lie from the mark on. */
#define KERNELS_WORDS "EDW1"
enum { WORDS_MODULE, WORDS_FIRST, WORDS_COUNT, WORDS_FIELDS };

/* What is being loaded. */
typedef struct kernels_file {
  vulkan_device *device;
  vulkan_executable *out;
  edgert_flatbuffer data;
  edgert_vector pipelines, sets, layouts, modules;
  const uint32_t *behind; /* from the mark on; NULL: there is nothing */
  size_t behind_count;
} kernels_file;

static edgert_status kernels_damaged(edgert_error *error) {
  return EDGERT_FAIL(error, EDGERT_DAMAGED, "an executable for Vulkan breaks its own format");
}

void vulkan_unload(edgert_executable *executable) {
  vulkan_executable *self = (vulkan_executable *)executable;
  vulkan_device *device = (vulkan_device *)executable->device;
  const edgert_allocator *allocator = &executable->object.allocator;
  vulkan_wait_all(device); /* commands may still run that use them */
  for (uint32_t i = 0; self->kernels && i < self->kernel_count; ++i)
    vulkan_pipelines_drop(device, &self->kernels[i]);
  for (uint32_t i = 0; self->layouts && i < self->layout_count; ++i) {
    const vulkan_layout *layout = &self->layouts[i];
    if (layout->pipeline) device->DestroyPipelineLayout(device->handle, layout->pipeline, NULL);
    if (layout->set) device->DestroyDescriptorSetLayout(device->handle, layout->set, NULL);
    edgert_deallocate(allocator, layout->bindings);
  }
  edgert_deallocate(allocator, self->kernels);
  edgert_deallocate(allocator, self->layouts);
  edgert_deallocate(allocator, self->names);
  edgert_deallocate(allocator, (void *)(uintptr_t)self->constants.pMapEntries);
}

/* --- layouts ---------------------------------------------------------------------------------- */

/* The bindings of a layout's one set, if it has any. */
static edgert_status kernels_read_set(kernels_file *file, edgert_table table, vulkan_layout *out,
                                      edgert_error *error) {
  edgert_flatbuffer *data = &file->data;
  edgert_vector sets = edgert_table_vector(data, table, LAYOUT_SETS, 4);
  if (!sets.count) return EDGERT_OK;
  uint32_t number = edgert_load_u32(data->data + sets.at);
  if (sets.count > 1)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "a kernel has %u descriptor sets",
                       (unsigned)sets.count);
  if (number >= file->sets.count) return kernels_damaged(error);
  edgert_vector bindings =
      edgert_table_vector(data, edgert_vector_table(data, file->sets, number), 0, 4);
  void *memory;
  edgert_status status = edgert_allocate_array(&file->out->executable.object.allocator,
                                               VULKAN_MOST_BINDINGS, 1, &memory, error);
  if (status != EDGERT_OK) return status;
  out->bindings = memory;
  for (uint32_t i = 0; i < bindings.count; ++i) {
    edgert_table binding = edgert_vector_table(data, bindings, i);
    uint64_t at = edgert_table_number(data, binding, BINDING_NUMBER, 4, 0);
    uint64_t type = edgert_table_number(data, binding, BINDING_TYPE, 4, 0);
    uint64_t count = edgert_table_number(data, binding, BINDING_COUNT, 4, 0);
    if (data->broken || at >= VULKAN_MOST_BINDINGS || count != 1 || out->bindings[at] ||
        (type != VK_DESCRIPTOR_TYPE_STORAGE_BUFFER && type != VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER))
      return kernels_damaged(error);
    out->bindings[at] = (uint8_t)type;
    if (at >= out->binding_count) out->binding_count = (uint32_t)at + 1;
  }
  return EDGERT_OK;
}

static edgert_status kernels_read_constants(kernels_file *file, edgert_table table,
                                            vulkan_layout *out, edgert_error *error) {
  const VkPhysicalDeviceLimits *limits = &file->device->facts.properties.limits;
  edgert_vector ranges = edgert_table_vector(&file->data, table, LAYOUT_CONSTANTS,
                                             sizeof(VkPushConstantRange));
  if (file->data.broken || ranges.count > 1) return kernels_damaged(error);
  if (!ranges.count) return EDGERT_OK;
  VkPushConstantRange range;
  memcpy(&range, file->data.data + ranges.at, sizeof range);
  if (range.offset || range.size % 4 || range.size > UINT16_MAX) return kernels_damaged(error);
  if (range.size > limits->maxPushConstantsSize)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "a kernel takes %u bytes of constants, %s %u",
                       (unsigned)range.size, file->device->device.name,
                       (unsigned)limits->maxPushConstantsSize);
  out->constant_count = range.size / 4;
  return EDGERT_OK;
}

static edgert_status kernels_make_layout(kernels_file *file, edgert_table table,
                                         vulkan_layout *out, edgert_error *error) {
  vulkan_device *self = file->device;
  VkDescriptorSetLayoutBinding bindings[VULKAN_MOST_BINDINGS];
  edgert_status status = kernels_read_set(file, table, out, error);
  if (status == EDGERT_OK) status = kernels_read_constants(file, table, out, error);
  if (status != EDGERT_OK) return status;
  VkDescriptorSetLayoutCreateInfo set = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .pBindings = bindings};
  for (uint32_t i = 0; i < out->binding_count; ++i)
    if (out->bindings[i])
      bindings[set.bindingCount++] =
          (VkDescriptorSetLayoutBinding){.binding = i,
                                         .descriptorType = out->bindings[i],
                                         .descriptorCount = 1,
                                         .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
  if (set.bindingCount > self->facts.properties.limits.maxPerStageDescriptorStorageBuffers)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "a kernel has %u bindings, %s %u",
                       (unsigned)set.bindingCount, self->device.name,
                       (unsigned)
                           self->facts.properties.limits.maxPerStageDescriptorStorageBuffers);
  VkResult result = self->CreateDescriptorSetLayout(self->handle, &set, NULL, &out->set);
  if (result == VK_SUCCESS) {
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 4 * out->constant_count};
    const VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &out->set,
        .pushConstantRangeCount = out->constant_count != 0,
        .pPushConstantRanges = &range};
    result = self->CreatePipelineLayout(self->handle, &info, NULL, &out->pipeline);
  }
  return result == VK_SUCCESS ? EDGERT_OK
                              : vulkan_fail(self, result, "making a kernel's layout", error);
}

/* --- pipelines -------------------------------------------------------------------------------- */

/* Kernels are written for subgroups of one size; on a device with another they are wrong. */
static edgert_status kernels_check_subgroup(const vulkan_facts *facts, uint32_t size,
                                            int *out_is_chosen, edgert_text name,
                                            edgert_error *error) {
  const VkPhysicalDeviceSubgroupSizeControlProperties *sizes = &facts->subgroup_sizes;
  (void)name; /* only messages say it */
  *out_is_chosen = size && facts->more[VULKAN_HAS_SUBGROUP_SIZE].values[0] &&
                   (sizes->requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                   size >= sizes->minSubgroupSize && size <= sizes->maxSubgroupSize;
  if (!size || *out_is_chosen || size == facts->subgroup.subgroupSize) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                     "the kernel '%.*s' was compiled for subgroups of %u, and %s has %u: compile "
                     "it for this device, or for any (--target=vulkan)",
                     EDGERT_TEXT(name), (unsigned)size, facts->properties.deviceName,
                     (unsigned)facts->subgroup.subgroupSize);
}

/* A kernel in words instead of one that asks for bytes, if there is one and the device has not all
 * that bytes take. What the file says is checked here, what they are as for any other. */
static void kernels_choose_words(const kernels_file *file, uint64_t module, const uint32_t **words,
                                 uint32_t *count) {
  const vulkan_facts *facts = &file->device->facts;
  if (!file->behind || (facts->more[VULKAN_HAS_8BIT_STORAGE].values[0] &&
                        facts->more[VULKAN_HAS_FLOAT16_INT8].values[1]))
    return;
  uint32_t entries = file->behind[1];
  if (entries > (file->behind_count - 2) / WORDS_FIELDS) return;
  for (uint32_t i = 0; i < entries; ++i) {
    const uint32_t *entry = file->behind + 2 + (size_t)WORDS_FIELDS * i;
    if (entry[WORDS_MODULE] != module || entry[WORDS_FIRST] > file->behind_count ||
        entry[WORDS_COUNT] > file->behind_count - entry[WORDS_FIRST])
      continue;
    *words = file->behind + entry[WORDS_FIRST];
    *count = entry[WORDS_COUNT];
  }
}

static edgert_status kernels_make_shader(kernels_file *file, edgert_table table,
                                           vulkan_kernel *out, edgert_error *error) {
  vulkan_device *self = file->device;
  edgert_flatbuffer *data = &file->data;
  uint64_t module = edgert_table_number(data, table, PIPELINE_MODULE, 4, 0);
  uint64_t layout = edgert_table_number(data, table, PIPELINE_LAYOUT, 4, 0);
  uint32_t subgroup = (uint32_t)edgert_table_number(data, table, PIPELINE_SUBGROUP, 4, 0);
  edgert_text name = edgert_table_text(data, table, PIPELINE_NAME);
  if (data->broken || !name.data || module >= file->modules.count || layout >= file->out->layout_count)
    return kernels_damaged(error);
  if (edgert_table_number(data, table, PIPELINE_ABI, 1, 0))
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                       "a kernel takes its bindings by addresses: compile it without "
                       "--iree-vulkan-dispatch-abi");
  edgert_vector code = edgert_table_vector(
      data, edgert_vector_table(data, file->modules, (uint32_t)module), 0, 4);
  if (data->broken || code.at % 4 || (uintptr_t)data->data % 4) return kernels_damaged(error);
  const uint32_t *words = (const uint32_t *)(const void *)(data->data + code.at);
  uint32_t count = code.count;
  kernels_choose_words(file, module, &words, &count);
  int is_chosen = 0, counts = 0;
  edgert_status status =
      vulkan_spirv_check(&self->facts, words, count, name, &counts, error);
  if (status == EDGERT_OK)
    status = kernels_check_subgroup(&self->facts, subgroup, &is_chosen, name, error);
  if (status != EDGERT_OK) return status;
  /* Compilers count on more workgroups than some devices run in one dispatch. */
  out->may_split =
      !counts && self->facts.properties.limits.maxComputeWorkGroupCount[0] <= UINT16_MAX;
  uint32_t *reduced;
  status = vulkan_spirv_reduce(&self->facts, &self->device.object.allocator, words, &count,
                               &reduced, error);
  if (status != EDGERT_OK) return status;
  const VkShaderModuleCreateInfo source = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = (size_t)count * 4,
                                           .pCode = reduced ? reduced : words};
  VkResult result = self->CreateShaderModule(self->handle, &source, NULL, &out->shader);
  edgert_deallocate(&self->device.object.allocator, reduced);
  if (result != VK_SUCCESS) return vulkan_fail(self, result, "compiling a kernel", error);
  out->executable = file->out;
  out->layout = &file->out->layouts[layout];
  out->subgroup = is_chosen ? subgroup : 0;
  return EDGERT_OK;
}

/* --- executables ------------------------------------------------------------------------------ */

static edgert_status kernels_open(kernels_file *file, const uint8_t *data, size_t size,
                                  edgert_error *error) {
  if (size < KERNELS_HEADER || memcmp(data, "VKE1", 4) != 0 || edgert_load_u32(data + 4))
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "an executable for Vulkan is of another version");
  uint64_t content = edgert_load_u64(data + 8);
  if (content > size - KERNELS_HEADER || content > UINT32_MAX) return kernels_damaged(error);
  file->data = (edgert_flatbuffer){data + KERNELS_HEADER, (uint32_t)content, 0};
  edgert_table root = edgert_flatbuffer_root(&file->data);
  file->pipelines = edgert_table_vector(&file->data, root, KERNELS_PIPELINES, 4);
  file->sets = edgert_table_vector(&file->data, root, KERNELS_SETS, 4);
  file->layouts = edgert_table_vector(&file->data, root, KERNELS_LAYOUTS, 4);
  file->modules = edgert_table_vector(&file->data, root, KERNELS_MODULES, 4);
  size_t mark = ((size_t)content + KERNELS_HEADER + 3) / 4 * 4;
  if (mark < size && size - mark >= 8 && (uintptr_t)data % 4 == 0 &&
      memcmp(data + mark, KERNELS_WORDS, 4) == 0) {
    file->behind = (const uint32_t *)(const void *)(data + mark);
    file->behind_count = (size - mark) / 4;
  }
  return file->data.broken ? kernels_damaged(error) : EDGERT_OK;
}

/* The kernels' names, each with a zero behind it, which outlive the file. */
static edgert_status kernels_copy_names(kernels_file *file, edgert_error *error) {
  size_t size = 0;
  for (uint32_t i = 0; i < file->pipelines.count; ++i)
    size += edgert_table_text(&file->data, edgert_vector_table(&file->data, file->pipelines, i),
                              PIPELINE_NAME)
                .size +
            1;
  void *memory;
  edgert_status status = edgert_allocate_array(&file->out->executable.object.allocator, size, 1,
                                               &memory, error);
  if (status != EDGERT_OK) return status;
  char *at = file->out->names = memory;
  for (uint32_t i = 0; i < file->pipelines.count; ++i) {
    edgert_text name = edgert_table_text(
        &file->data, edgert_vector_table(&file->data, file->pipelines, i), PIPELINE_NAME);
    if (name.size) memcpy(at, name.data, name.size);
    at[name.size] = 0;
    file->out->kernels[i].name = (edgert_text){at, name.size};
    at += name.size + 1;
  }
  return EDGERT_OK;
}

static edgert_status kernels_read(kernels_file *file, edgert_error *error) {
  vulkan_executable *out = file->out;
  const edgert_allocator *allocator = &out->executable.object.allocator;
  void *memory;
  edgert_status status = edgert_allocate_array(allocator, file->layouts.count,
                                               sizeof *out->layouts, &memory, error);
  if (status != EDGERT_OK) return status;
  out->layouts = memory;
  out->layout_count = file->layouts.count;
  status = edgert_allocate_array(allocator, file->pipelines.count, sizeof *out->kernels, &memory,
                                 error);
  if (status != EDGERT_OK) return status;
  out->kernels = memory;
  out->kernel_count = file->pipelines.count;
  for (uint32_t i = 0; i < out->layout_count && status == EDGERT_OK; ++i)
    status = kernels_make_layout(file, edgert_vector_table(&file->data, file->layouts, i),
                                 &out->layouts[i], error);
  if (status == EDGERT_OK) status = kernels_copy_names(file, error);
  for (uint32_t i = 0; i < out->kernel_count && status == EDGERT_OK; ++i)
    status = kernels_make_shader(file, edgert_vector_table(&file->data, file->pipelines, i),
                                 &out->kernels[i], error);
  for (uint32_t i = 0; i < out->kernel_count && status == EDGERT_OK; ++i)
    vulkan_pipelines_begin(file->device, &out->kernels[i]);
  return status;
}

/* What kernels are specialised with, one after the other, and before them where they lie. */
static edgert_status kernels_copy_constants(vulkan_executable *out, const uint32_t *constants,
                                            size_t count, edgert_error *error) {
  void *memory;
  edgert_status status =
      edgert_allocate_array(&out->executable.object.allocator, count,
                            sizeof *constants + sizeof(VkSpecializationMapEntry), &memory, error);
  if (status != EDGERT_OK || !count) return status;
  VkSpecializationMapEntry *entries = memory; /* first: they lie at 8 bytes, whatever the count */
  uint32_t *values = (uint32_t *)(void *)(entries + count);
  memcpy(values, constants, count * sizeof *values);
  out->constants = (VkSpecializationInfo){(uint32_t)count, entries, count * sizeof *values, values};
  for (uint32_t i = 0; i < count; ++i)
    entries[i] = (VkSpecializationMapEntry){i, 4 * i, sizeof *values};
  return EDGERT_OK;
}

edgert_status vulkan_load(edgert_device *device, edgert_text format, const uint8_t *data,
                          size_t size, const uint32_t *constants, size_t constant_count,
                          edgert_executable **out, edgert_error *error) {
  const edgert_allocator *allocator = &device->object.allocator;
  (void)format; /* there is one */
  *out = NULL;
  kernels_file file = {.device = (vulkan_device *)device};
  void *made;
  edgert_status status = kernels_open(&file, data, size, error);
  if (status == EDGERT_OK)
    status = edgert_object_create(allocator, EDGERT_KIND_EXECUTABLE, sizeof(vulkan_executable),
                                  &made, error);
  if (status != EDGERT_OK) return status;
  file.out = made;
  file.out->executable.device = edgert_retain(device);
  status = kernels_copy_constants(file.out, constants, constant_count, error);
  if (status == EDGERT_OK) status = kernels_read(&file, error);
  if (status == EDGERT_OK)
    *out = &file.out->executable;
  else
    edgert_release(made);
  return status;
}

edgert_status vulkan_find(edgert_executable *executable, edgert_text name, uint32_t *out,
                          edgert_error *error) {
  const vulkan_executable *self = (const vulkan_executable *)executable;
  for (uint32_t i = 0; i < self->kernel_count; ++i) {
    if (self->kernels[i].name.size != name.size ||
        (name.size && memcmp(self->kernels[i].name.data, name.data, name.size) != 0))
      continue;
    *out = i;
    return EDGERT_OK;
  }
  return EDGERT_FAIL(error, EDGERT_NOT_FOUND, "there is no kernel '%.*s'", EDGERT_TEXT(name));
}

edgert_status vulkan_check(edgert_executable *executable, uint32_t kernel, size_t constant_count,
                           size_t binding_count, edgert_error *error) {
  const vulkan_executable *self = (const vulkan_executable *)executable;
  if (kernel >= self->kernel_count)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "there is no kernel %u", (unsigned)kernel);
  const vulkan_layout *layout = self->kernels[kernel].layout;
  if (constant_count == layout->constant_count && binding_count >= layout->binding_count)
    return vulkan_pipelines_await((vulkan_device *)executable->device, &self->kernels[kernel],
                                  error);
  return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT,
                     "a kernel takes %u constants and %u bindings, and was given %u and %u",
                     (unsigned)layout->constant_count, (unsigned)layout->binding_count,
                     (unsigned)constant_count, (unsigned)binding_count);
}

#endif
