/* As much of Vulkan as the driver uses, in Vulkan's own names: what the specification says of 1.0,
 * 1.1 and a few extensions. No header of an SDK is needed; a test compares this one with Khronos'
 * where that is installed. */
#ifndef EDGERT_VULKAN_API_H
#define EDGERT_VULKAN_API_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define VKAPI_PTR __stdcall
#elif defined(__ANDROID__) && defined(__ARM_ARCH) && __ARM_ARCH == 7 && defined(__arm__)
#define VKAPI_PTR __attribute__((pcs("aapcs-vfp")))
#else
#define VKAPI_PTR
#endif

#define VK_API_1_1 (1u << 22 | 1u << 12)
#define VK_API_1_2 (1u << 22 | 2u << 12)
#define VK_API_1_3 (1u << 22 | 3u << 12)
#define VK_API_PARTS 0xFFFFF000u /* without the patch's number */

typedef struct VkInstance_T *VkInstance;
typedef struct VkPhysicalDevice_T *VkPhysicalDevice;
typedef struct VkDevice_T *VkDevice;
typedef struct VkQueue_T *VkQueue;
typedef struct VkCommandBuffer_T *VkCommandBuffer;
/* These are pointers on some machines and numbers on others, of 64 bits wherever that shows. */
typedef uint64_t VkBuffer, VkDeviceMemory, VkFence, VkCommandPool, VkShaderModule, VkPipeline,
    VkPipelineCache, VkPipelineLayout, VkDescriptorPool, VkDescriptorSet, VkDescriptorSetLayout,
    VkQueryPool;
typedef uint32_t VkFlags, VkBool32;
typedef uint64_t VkDeviceSize;

typedef int32_t VkResult;
enum {
  VK_SUCCESS = 0,
  VK_NOT_READY = 1,
  VK_TIMEOUT = 2,
  VK_INCOMPLETE = 5,
  VK_ERROR_OUT_OF_HOST_MEMORY = -1,
  VK_ERROR_OUT_OF_DEVICE_MEMORY = -2,
  VK_ERROR_DEVICE_LOST = -4,
  VK_ERROR_TOO_MANY_OBJECTS = -10,
  VK_ERROR_OUT_OF_POOL_MEMORY = -1000069000
};

enum { VK_QUERY_TYPE_TIMESTAMP = 2, VK_QUERY_RESULT_64_BIT = 1, VK_QUERY_RESULT_WAIT_BIT = 2 };

typedef uint32_t VkStructureType;
enum {
  VK_STRUCTURE_TYPE_APPLICATION_INFO = 0,
  VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO = 1,
  VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO = 2,
  VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO = 3,
  VK_STRUCTURE_TYPE_SUBMIT_INFO = 4,
  VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO = 5,
  VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE = 6,
  VK_STRUCTURE_TYPE_FENCE_CREATE_INFO = 8,
  VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO = 11,
  VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO = 12,
  VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO = 16,
  VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO = 17,
  VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO = 18,
  VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO = 29,
  VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO = 30,
  VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO = 32,
  VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO = 33,
  VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO = 34,
  VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET = 35,
  VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO = 39,
  VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO = 40,
  VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO = 42,
  VK_STRUCTURE_TYPE_MEMORY_BARRIER = 46,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2 = 1000059000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 = 1000059001,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES = 1000082000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES = 1000083000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES = 1000094000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VARIABLE_POINTERS_FEATURES = 1000120000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES = 1000168000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES = 1000175000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES = 1000177000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES = 1000211000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES = 1000225000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES = 1000197000,
  VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO = 1000225001,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES = 1000225002,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES = 1000280000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR = 1000506000
};

enum {
  VK_QUEUE_COMPUTE_BIT = 2,
  VK_SHADER_STAGE_COMPUTE_BIT = 32,
  VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT = 1,
  VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT = 2,
  VK_MEMORY_PROPERTY_HOST_COHERENT_BIT = 4,
  VK_MEMORY_PROPERTY_HOST_CACHED_BIT = 8,
  VK_BUFFER_USAGE_TRANSFER_SRC_BIT = 1,
  VK_BUFFER_USAGE_TRANSFER_DST_BIT = 2,
  VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT = 16,
  VK_BUFFER_USAGE_STORAGE_BUFFER_BIT = 32,
  VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT = 256,
  VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT = 2,
  VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT = 0x800,
  VK_PIPELINE_STAGE_TRANSFER_BIT = 0x1000,
  VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT = 0x2000,
  VK_PIPELINE_STAGE_HOST_BIT = 0x4000,
  VK_ACCESS_INDIRECT_COMMAND_READ_BIT = 1,
  VK_ACCESS_UNIFORM_READ_BIT = 8,
  VK_ACCESS_SHADER_READ_BIT = 0x20,
  VK_ACCESS_SHADER_WRITE_BIT = 0x40,
  VK_ACCESS_TRANSFER_READ_BIT = 0x800,
  VK_ACCESS_TRANSFER_WRITE_BIT = 0x1000,
  VK_ACCESS_HOST_READ_BIT = 0x2000,
  VK_ACCESS_MEMORY_READ_BIT = 0x8000,
  VK_ACCESS_MEMORY_WRITE_BIT = 0x10000,
  VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER = 6,
  VK_DESCRIPTOR_TYPE_STORAGE_BUFFER = 7,
  VK_PIPELINE_BIND_POINT_COMPUTE = 1,
  VK_PIPELINE_CREATE_DISPATCH_BASE_BIT = 16,
  VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU = 1,
  VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU = 2,
  VK_PHYSICAL_DEVICE_TYPE_CPU = 4
};

#define VK_WHOLE_SIZE UINT64_MAX
#define VK_UUID_SIZE 16

typedef struct VkApplicationInfo {
  VkStructureType sType;
  const void *pNext;
  const char *pApplicationName;
  uint32_t applicationVersion;
  const char *pEngineName;
  uint32_t engineVersion;
  uint32_t apiVersion;
} VkApplicationInfo;

typedef struct VkInstanceCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  const VkApplicationInfo *pApplicationInfo;
  uint32_t enabledLayerCount;
  const char *const *ppEnabledLayerNames;
  uint32_t enabledExtensionCount;
  const char *const *ppEnabledExtensionNames;
} VkInstanceCreateInfo;

typedef struct VkPhysicalDeviceLimits {
  uint32_t images_1[7];
  uint32_t maxStorageBufferRange;
  uint32_t maxPushConstantsSize;
  uint32_t maxMemoryAllocationCount;
  uint32_t maxSamplerAllocationCount;
  VkDeviceSize bufferImageGranularity;
  VkDeviceSize sparseAddressSpaceSize;
  uint32_t maxBoundDescriptorSets;
  uint32_t descriptors_1[2];
  uint32_t maxPerStageDescriptorStorageBuffers;
  uint32_t descriptors_2[12];
  uint32_t graphics_1[22];
  uint32_t maxComputeSharedMemorySize;
  uint32_t maxComputeWorkGroupCount[3];
  uint32_t maxComputeWorkGroupInvocations;
  uint32_t maxComputeWorkGroupSize[3];
  uint32_t graphics_2[13];
  size_t minMemoryMapAlignment;
  VkDeviceSize minTexelBufferOffsetAlignment;
  VkDeviceSize minUniformBufferOffsetAlignment;
  VkDeviceSize minStorageBufferOffsetAlignment;
  uint32_t graphics_3[22];
  float timestampPeriod;
  uint32_t graphics_4[12];
  VkDeviceSize optimalBufferCopyOffsetAlignment;
  VkDeviceSize optimalBufferCopyRowPitchAlignment;
  VkDeviceSize nonCoherentAtomSize;
} VkPhysicalDeviceLimits;

typedef struct VkPhysicalDeviceProperties {
  uint32_t apiVersion;
  uint32_t driverVersion;
  uint32_t vendorID;
  uint32_t deviceID;
  uint32_t deviceType;
  char deviceName[256];
  uint8_t pipelineCacheUUID[VK_UUID_SIZE];
  VkPhysicalDeviceLimits limits;
  VkBool32 sparse[5];
} VkPhysicalDeviceProperties;

typedef struct VkPhysicalDeviceProperties2 {
  VkStructureType sType;
  void *pNext;
  VkPhysicalDeviceProperties properties;
} VkPhysicalDeviceProperties2;

typedef struct VkPhysicalDeviceSubgroupProperties {
  VkStructureType sType;
  void *pNext;
  uint32_t subgroupSize;
  VkFlags supportedStages;
  VkFlags supportedOperations;
  VkBool32 quadOperationsInAllStages;
} VkPhysicalDeviceSubgroupProperties;

typedef struct VkPhysicalDeviceMaintenance3Properties {
  VkStructureType sType;
  void *pNext;
  uint32_t maxPerSetDescriptors;
  VkDeviceSize maxMemoryAllocationSize;
} VkPhysicalDeviceMaintenance3Properties;

typedef struct VkPhysicalDeviceSubgroupSizeControlProperties {
  VkStructureType sType;
  void *pNext;
  uint32_t minSubgroupSize;
  uint32_t maxSubgroupSize;
  uint32_t maxComputeWorkgroupSubgroups;
  VkFlags requiredSubgroupSizeStages;
} VkPhysicalDeviceSubgroupSizeControlProperties;

typedef struct VkPhysicalDeviceFloatControlsProperties {
  VkStructureType sType;
  void *pNext;
  uint32_t denormBehaviorIndependence;
  uint32_t roundingModeIndependence;
  VkBool32 shaderSignedZeroInfNanPreserveFloat16;
  VkBool32 shaderSignedZeroInfNanPreserveFloat32;
  VkBool32 shaderSignedZeroInfNanPreserveFloat64;
  VkBool32 others[12]; /* denormal numbers and rounding, by width */
} VkPhysicalDeviceFloatControlsProperties;

typedef struct VkPhysicalDeviceFeatures {
  VkBool32 graphics[39];
  VkBool32 shaderFloat64;
  VkBool32 shaderInt64;
  VkBool32 shaderInt16;
  VkBool32 others[13];
} VkPhysicalDeviceFeatures;

typedef struct VkPhysicalDeviceFeatures2 {
  VkStructureType sType;
  void *pNext;
  VkPhysicalDeviceFeatures features;
} VkPhysicalDeviceFeatures2;

/* All structures of features begin alike; none has more than four here. */
typedef struct VkFeatures {
  VkStructureType sType;
  void *pNext;
  VkBool32 values[4];
} VkFeatures;

typedef struct VkExtensionProperties {
  char extensionName[256];
  uint32_t specVersion;
} VkExtensionProperties;

typedef struct VkQueueFamilyProperties {
  VkFlags queueFlags;
  uint32_t queueCount;
  uint32_t timestampValidBits;
  uint32_t minImageTransferGranularity[3];
} VkQueueFamilyProperties;

typedef struct VkMemoryType {
  VkFlags propertyFlags;
  uint32_t heapIndex;
} VkMemoryType;

typedef struct VkMemoryHeap {
  VkDeviceSize size;
  VkFlags flags;
} VkMemoryHeap;

typedef struct VkPhysicalDeviceMemoryProperties {
  uint32_t memoryTypeCount;
  VkMemoryType memoryTypes[32];
  uint32_t memoryHeapCount;
  VkMemoryHeap memoryHeaps[16];
} VkPhysicalDeviceMemoryProperties;

typedef struct VkDeviceQueueCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t queueFamilyIndex;
  uint32_t queueCount;
  const float *pQueuePriorities;
} VkDeviceQueueCreateInfo;

typedef struct VkDeviceCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t queueCreateInfoCount;
  const VkDeviceQueueCreateInfo *pQueueCreateInfos;
  uint32_t enabledLayerCount;
  const char *const *ppEnabledLayerNames;
  uint32_t enabledExtensionCount;
  const char *const *ppEnabledExtensionNames;
  const VkPhysicalDeviceFeatures *pEnabledFeatures;
} VkDeviceCreateInfo;

typedef struct VkBufferCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  VkDeviceSize size;
  VkFlags usage;
  uint32_t sharingMode;
  uint32_t queueFamilyIndexCount;
  const uint32_t *pQueueFamilyIndices;
} VkBufferCreateInfo;

typedef struct VkMemoryRequirements {
  VkDeviceSize size;
  VkDeviceSize alignment;
  uint32_t memoryTypeBits;
} VkMemoryRequirements;

typedef struct VkMemoryAllocateInfo {
  VkStructureType sType;
  const void *pNext;
  VkDeviceSize allocationSize;
  uint32_t memoryTypeIndex;
} VkMemoryAllocateInfo;

typedef struct VkMappedMemoryRange {
  VkStructureType sType;
  const void *pNext;
  VkDeviceMemory memory;
  VkDeviceSize offset;
  VkDeviceSize size;
} VkMappedMemoryRange;

/* Of fences, and of command buffers and pools: a type and flags, the rest zero. */
typedef struct VkFlagsCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
} VkFlagsCreateInfo;

typedef struct VkSubmitInfo {
  VkStructureType sType;
  const void *pNext;
  uint32_t waitSemaphoreCount;
  const void *pWaitSemaphores;
  const VkFlags *pWaitDstStageMask;
  uint32_t commandBufferCount;
  const VkCommandBuffer *pCommandBuffers;
  uint32_t signalSemaphoreCount;
  const void *pSignalSemaphores;
} VkSubmitInfo;

typedef struct VkShaderModuleCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  size_t codeSize;
  const uint32_t *pCode;
} VkShaderModuleCreateInfo;

typedef struct VkPipelineCacheCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  size_t initialDataSize;
  const void *pInitialData;
} VkPipelineCacheCreateInfo;

typedef struct VkSpecializationMapEntry {
  uint32_t constantID;
  uint32_t offset;
  size_t size;
} VkSpecializationMapEntry;

typedef struct VkSpecializationInfo {
  uint32_t mapEntryCount;
  const VkSpecializationMapEntry *pMapEntries;
  size_t dataSize;
  const void *pData;
} VkSpecializationInfo;

typedef struct VkPipelineShaderStageRequiredSubgroupSizeCreateInfo {
  VkStructureType sType;
  void *pNext;
  uint32_t requiredSubgroupSize;
} VkPipelineShaderStageRequiredSubgroupSizeCreateInfo;

typedef struct VkPipelineShaderStageCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  VkFlags stage;
  VkShaderModule module;
  const char *pName;
  const VkSpecializationInfo *pSpecializationInfo;
} VkPipelineShaderStageCreateInfo;

typedef struct VkComputePipelineCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  VkPipelineShaderStageCreateInfo stage;
  VkPipelineLayout layout;
  VkPipeline basePipelineHandle;
  int32_t basePipelineIndex;
} VkComputePipelineCreateInfo;

typedef struct VkDescriptorSetLayoutBinding {
  uint32_t binding;
  uint32_t descriptorType;
  uint32_t descriptorCount;
  VkFlags stageFlags;
  const void *pImmutableSamplers;
} VkDescriptorSetLayoutBinding;

typedef struct VkDescriptorSetLayoutCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t bindingCount;
  const VkDescriptorSetLayoutBinding *pBindings;
} VkDescriptorSetLayoutCreateInfo;

typedef struct VkPushConstantRange {
  VkFlags stageFlags;
  uint32_t offset;
  uint32_t size;
} VkPushConstantRange;

typedef struct VkPipelineLayoutCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t setLayoutCount;
  const VkDescriptorSetLayout *pSetLayouts;
  uint32_t pushConstantRangeCount;
  const VkPushConstantRange *pPushConstantRanges;
} VkPipelineLayoutCreateInfo;

typedef struct VkDescriptorPoolSize {
  uint32_t type;
  uint32_t descriptorCount;
} VkDescriptorPoolSize;

typedef struct VkDescriptorPoolCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t maxSets;
  uint32_t poolSizeCount;
  const VkDescriptorPoolSize *pPoolSizes;
} VkDescriptorPoolCreateInfo;

typedef struct VkDescriptorSetAllocateInfo {
  VkStructureType sType;
  const void *pNext;
  VkDescriptorPool descriptorPool;
  uint32_t descriptorSetCount;
  const VkDescriptorSetLayout *pSetLayouts;
} VkDescriptorSetAllocateInfo;

typedef struct VkDescriptorBufferInfo {
  VkBuffer buffer;
  VkDeviceSize offset;
  VkDeviceSize range;
} VkDescriptorBufferInfo;

typedef struct VkWriteDescriptorSet {
  VkStructureType sType;
  const void *pNext;
  VkDescriptorSet dstSet;
  uint32_t dstBinding;
  uint32_t dstArrayElement;
  uint32_t descriptorCount;
  uint32_t descriptorType;
  const void *pImageInfo;
  const VkDescriptorBufferInfo *pBufferInfo;
  const void *pTexelBufferView;
} VkWriteDescriptorSet;

typedef struct VkCommandPoolCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t queueFamilyIndex;
} VkCommandPoolCreateInfo;

typedef struct VkCommandBufferAllocateInfo {
  VkStructureType sType;
  const void *pNext;
  VkCommandPool commandPool;
  uint32_t level;
  uint32_t commandBufferCount;
} VkCommandBufferAllocateInfo;

typedef struct VkCommandBufferBeginInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  const void *pInheritanceInfo;
} VkCommandBufferBeginInfo;

typedef struct VkQueryPoolCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t queryType;
  uint32_t queryCount;
  VkFlags pipelineStatistics;
} VkQueryPoolCreateInfo;

typedef struct VkMemoryBarrier {
  VkStructureType sType;
  const void *pNext;
  VkFlags srcAccessMask;
  VkFlags dstAccessMask;
} VkMemoryBarrier;

typedef struct VkBufferCopy {
  VkDeviceSize srcOffset;
  VkDeviceSize dstOffset;
  VkDeviceSize size;
} VkBufferCopy;

typedef void(VKAPI_PTR *PFN_vkVoidFunction)(void);
typedef PFN_vkVoidFunction(VKAPI_PTR *PFN_vkGetInstanceProcAddr)(VkInstance, const char *);

/* The functions, once: X(result, name, arguments). Those without an instance, of instances, and of
 * devices; `const void *` ahead of the result are callbacks, which are always NULL. */
#define VULKAN_GLOBAL(X)                                                                          \
  X(VkResult, EnumerateInstanceVersion, (uint32_t *))                                             \
  X(VkResult, CreateInstance, (const VkInstanceCreateInfo *, const void *, VkInstance *))

#define VULKAN_INSTANCE(X)                                                                        \
  X(void, DestroyInstance, (VkInstance, const void *))                                            \
  X(VkResult, EnumeratePhysicalDevices, (VkInstance, uint32_t *, VkPhysicalDevice *))             \
  X(void, GetPhysicalDeviceProperties, (VkPhysicalDevice, VkPhysicalDeviceProperties *))          \
  X(void, GetPhysicalDeviceProperties2, (VkPhysicalDevice, VkPhysicalDeviceProperties2 *))        \
  X(void, GetPhysicalDeviceFeatures2, (VkPhysicalDevice, VkPhysicalDeviceFeatures2 *))            \
  X(void, GetPhysicalDeviceMemoryProperties,                                                      \
    (VkPhysicalDevice, VkPhysicalDeviceMemoryProperties *))                                       \
  X(void, GetPhysicalDeviceQueueFamilyProperties,                                                 \
    (VkPhysicalDevice, uint32_t *, VkQueueFamilyProperties *))                                    \
  X(VkResult, EnumerateDeviceExtensionProperties,                                                 \
    (VkPhysicalDevice, const char *, uint32_t *, VkExtensionProperties *))                        \
  X(VkResult, CreateDevice,                                                                       \
    (VkPhysicalDevice, const VkDeviceCreateInfo *, const void *, VkDevice *))                     \
  X(PFN_vkVoidFunction, GetDeviceProcAddr, (VkDevice, const char *))

#define VULKAN_DEVICE(X)                                                                          \
  X(void, DestroyDevice, (VkDevice, const void *))                                                \
  X(void, GetDeviceQueue, (VkDevice, uint32_t, uint32_t, VkQueue *))                              \
  X(VkResult, QueueSubmit, (VkQueue, uint32_t, const VkSubmitInfo *, VkFence))                    \
  X(VkResult, DeviceWaitIdle, (VkDevice))                                                         \
  X(VkResult, CreateFence, (VkDevice, const VkFlagsCreateInfo *, const void *, VkFence *))        \
  X(void, DestroyFence, (VkDevice, VkFence, const void *))                                        \
  X(VkResult, ResetFences, (VkDevice, uint32_t, const VkFence *))                                 \
  X(VkResult, WaitForFences, (VkDevice, uint32_t, const VkFence *, VkBool32, uint64_t))           \
  X(VkResult, CreateBuffer, (VkDevice, const VkBufferCreateInfo *, const void *, VkBuffer *))     \
  X(void, DestroyBuffer, (VkDevice, VkBuffer, const void *))                                      \
  X(void, GetBufferMemoryRequirements, (VkDevice, VkBuffer, VkMemoryRequirements *))              \
  X(VkResult, BindBufferMemory, (VkDevice, VkBuffer, VkDeviceMemory, VkDeviceSize))               \
  X(VkResult, AllocateMemory,                                                                     \
    (VkDevice, const VkMemoryAllocateInfo *, const void *, VkDeviceMemory *))                     \
  X(void, FreeMemory, (VkDevice, VkDeviceMemory, const void *))                                   \
  X(VkResult, MapMemory,                                                                          \
    (VkDevice, VkDeviceMemory, VkDeviceSize, VkDeviceSize, VkFlags, void **))                     \
  X(VkResult, FlushMappedMemoryRanges, (VkDevice, uint32_t, const VkMappedMemoryRange *))         \
  X(VkResult, InvalidateMappedMemoryRanges, (VkDevice, uint32_t, const VkMappedMemoryRange *))    \
  X(VkResult, CreateShaderModule,                                                                 \
    (VkDevice, const VkShaderModuleCreateInfo *, const void *, VkShaderModule *))                 \
  X(void, DestroyShaderModule, (VkDevice, VkShaderModule, const void *))                          \
  X(VkResult, CreatePipelineCache,                                                                \
    (VkDevice, const VkPipelineCacheCreateInfo *, const void *, VkPipelineCache *))               \
  X(void, DestroyPipelineCache, (VkDevice, VkPipelineCache, const void *))                        \
  X(VkResult, GetPipelineCacheData, (VkDevice, VkPipelineCache, size_t *, void *))                \
  X(VkResult, CreateComputePipelines,                                                             \
    (VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo *, const void *,      \
     VkPipeline *))                                                                               \
  X(void, DestroyPipeline, (VkDevice, VkPipeline, const void *))                                  \
  X(VkResult, CreatePipelineLayout,                                                               \
    (VkDevice, const VkPipelineLayoutCreateInfo *, const void *, VkPipelineLayout *))             \
  X(void, DestroyPipelineLayout, (VkDevice, VkPipelineLayout, const void *))                      \
  X(VkResult, CreateDescriptorSetLayout,                                                          \
    (VkDevice, const VkDescriptorSetLayoutCreateInfo *, const void *, VkDescriptorSetLayout *))   \
  X(void, DestroyDescriptorSetLayout, (VkDevice, VkDescriptorSetLayout, const void *))            \
  X(VkResult, CreateDescriptorPool,                                                               \
    (VkDevice, const VkDescriptorPoolCreateInfo *, const void *, VkDescriptorPool *))             \
  X(void, DestroyDescriptorPool, (VkDevice, VkDescriptorPool, const void *))                      \
  X(VkResult, ResetDescriptorPool, (VkDevice, VkDescriptorPool, VkFlags))                         \
  X(VkResult, AllocateDescriptorSets,                                                             \
    (VkDevice, const VkDescriptorSetAllocateInfo *, VkDescriptorSet *))                           \
  X(void, UpdateDescriptorSets,                                                                   \
    (VkDevice, uint32_t, const VkWriteDescriptorSet *, uint32_t, const void *))                   \
  X(VkResult, CreateCommandPool,                                                                  \
    (VkDevice, const VkCommandPoolCreateInfo *, const void *, VkCommandPool *))                   \
  X(void, DestroyCommandPool, (VkDevice, VkCommandPool, const void *))                            \
  X(VkResult, ResetCommandPool, (VkDevice, VkCommandPool, VkFlags))                               \
  X(VkResult, AllocateCommandBuffers,                                                             \
    (VkDevice, const VkCommandBufferAllocateInfo *, VkCommandBuffer *))                           \
  X(VkResult, BeginCommandBuffer, (VkCommandBuffer, const VkCommandBufferBeginInfo *))            \
  X(VkResult, EndCommandBuffer, (VkCommandBuffer))                                                \
  X(void, CmdBindPipeline, (VkCommandBuffer, uint32_t, VkPipeline))                               \
  X(void, CmdBindDescriptorSets,                                                                  \
    (VkCommandBuffer, uint32_t, VkPipelineLayout, uint32_t, uint32_t, const VkDescriptorSet *,    \
     uint32_t, const uint32_t *))                                                                 \
  X(void, CmdPushConstants,                                                                       \
    (VkCommandBuffer, VkPipelineLayout, VkFlags, uint32_t, uint32_t, const void *))               \
  X(void, CmdDispatch, (VkCommandBuffer, uint32_t, uint32_t, uint32_t))                           \
  X(void, CmdDispatchBase,                                                                        \
    (VkCommandBuffer, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t))                \
  X(void, CmdDispatchIndirect, (VkCommandBuffer, VkBuffer, VkDeviceSize))                         \
  X(void, CmdFillBuffer, (VkCommandBuffer, VkBuffer, VkDeviceSize, VkDeviceSize, uint32_t))       \
  X(void, CmdCopyBuffer, (VkCommandBuffer, VkBuffer, VkBuffer, uint32_t, const VkBufferCopy *))   \
  X(VkResult, CreateQueryPool,                                                                    \
    (VkDevice, const VkQueryPoolCreateInfo *, const void *, VkQueryPool *))                       \
  X(void, DestroyQueryPool, (VkDevice, VkQueryPool, const void *))                                \
  X(VkResult, GetQueryPoolResults,                                                                \
    (VkDevice, VkQueryPool, uint32_t, uint32_t, size_t, void *, VkDeviceSize, VkFlags))           \
  X(void, CmdResetQueryPool, (VkCommandBuffer, VkQueryPool, uint32_t, uint32_t))                  \
  X(void, CmdWriteTimestamp, (VkCommandBuffer, VkFlags, VkQueryPool, uint32_t))                   \
  X(void, CmdPipelineBarrier,                                                                     \
    (VkCommandBuffer, VkFlags, VkFlags, VkFlags, uint32_t, const VkMemoryBarrier *, uint32_t,     \
     const void *, uint32_t, const void *))

#endif
