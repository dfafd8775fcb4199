/* A `libvulkan.so.1` that passes everything on to the real one, which `PARTS_REAL` names, and notes
 * of a call when it submits, when it waits, and when the GPU begins and ends, on the host's clock.
 *
 *     cc -O2 -shared -fPIC benchmarks/vulkan/call_parts.c -ldl -o FOLDER/libvulkan.so.1
 *
 * `call_parts.py` asks it. For one thread and one device, which is all that it measures. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../runtime/c/src/drivers/vulkan/api.h"

#define PARTS_MOST 16u /* submissions of a call that get time stamps */
#define PARTS_CALIBRATED "VK_EXT_calibrated_timestamps"

enum { PARTS_DOMAIN_DEVICE, PARTS_DOMAIN_MONOTONIC };

typedef struct parts_domain {
  VkStructureType sType;
  const void *pNext;
  uint32_t domain;
} parts_domain;

#define PARTS_FUNCTIONS(X) \
  VULKAN_INSTANCE(X)       \
  VULKAN_DEVICE(X)         \
  X(VkResult, GetCalibratedTimestampsEXT, \
    (VkDevice, uint32_t, const parts_domain *, uint64_t *, uint64_t *))
#define PARTS_POINTER(result, name, arguments) result(VKAPI_PTR *name) arguments;
#define PARTS_NAME(result, name, arguments) "vk" #name,
#define PARTS_COUNT(result, name, arguments) +1

/* The real functions by their names, and in the order of their list. */
static union {
  struct {
    PARTS_FUNCTIONS(PARTS_POINTER)
  };
  PFN_vkVoidFunction in_order[0 PARTS_FUNCTIONS(PARTS_COUNT)];
} real;
static const char *const parts_names[] = {PARTS_FUNCTIONS(PARTS_NAME)};
static PFN_vkGetInstanceProcAddr parts_get;

static VkInstance parts_instance;
static VkDevice parts_device;
static VkQueryPool parts_stamps;
static VkCommandBuffer parts_before[PARTS_MOST], parts_behind[PARTS_MOST];
static double parts_period; /* ns of a tick */

/* Of a call, in ns on the monotonic clock; `call_parts.py` has the same. */
typedef struct parts_call {
  double submit_begin, submit_end; /* the first submission begins, the last has returned */
  double submit_time;              /* in all of them */
  double wait_end, wait_time;
  double gpu_begin, gpu_end; /* 0: not known */
  double gpu_time;           /* between the stamps of each submission */
  double submissions, waits, recordings, allocations;
} parts_call;

static parts_call parts;
static int parts_is_stamped;

static double parts_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* --- what is noted ---------------------------------------------------------------------------- */

static VkResult VKAPI_PTR parts_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *info,
                                       VkFence fence) {
  double begin = parts_now();
  uint32_t at = (uint32_t)parts.submissions;
  VkResult result;
  if (parts_is_stamped && at < PARTS_MOST && count == 1 && info->commandBufferCount == 1) {
    const VkCommandBuffer all[] = {parts_before[at], info->pCommandBuffers[0], parts_behind[at]};
    VkSubmitInfo with = *info;
    with.commandBufferCount = 3;
    with.pCommandBuffers = all;
    result = real.QueueSubmit(queue, 1, &with, fence);
  } else {
    result = real.QueueSubmit(queue, count, info, fence);
  }
  if (!at) parts.submit_begin = begin;
  parts.submit_end = parts_now();
  parts.submit_time += parts.submit_end - begin;
  parts.submissions += 1;
  return result;
}

static VkResult VKAPI_PTR parts_wait(VkDevice device, uint32_t count, const VkFence *fences,
                                     VkBool32 all, uint64_t timeout) {
  double begin = parts_now();
  VkResult result = real.WaitForFences(device, count, fences, all, timeout);
  parts.wait_end = parts_now();
  parts.wait_time += parts.wait_end - begin;
  parts.waits += 1;
  return result;
}

static VkResult VKAPI_PTR parts_record(VkCommandBuffer commands,
                                       const VkCommandBufferBeginInfo *info) {
  parts.recordings += 1;
  return real.BeginCommandBuffer(commands, info);
}

static VkResult VKAPI_PTR parts_allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                         const void *callbacks, VkDeviceMemory *out) {
  parts.allocations += 1;
  return real.AllocateMemory(device, info, callbacks, out);
}

/* --- time stamps ------------------------------------------------------------------------------ */

static int parts_prepare(uint32_t family) {
  const VkQueryPoolCreateInfo queries = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                         .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                         .queryCount = 2 * PARTS_MOST};
  const VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .queueFamilyIndex = family};
  VkCommandPool pool;
  if (real.CreateQueryPool(parts_device, &queries, NULL, &parts_stamps) != VK_SUCCESS) return 0;
  if (real.CreateCommandPool(parts_device, &info, NULL, &pool) != VK_SUCCESS) return 0;
  for (uint32_t i = 0; i < 2 * PARTS_MOST; ++i) {
    VkCommandBuffer *commands = i % 2 ? &parts_behind[i / 2] : &parts_before[i / 2];
    const VkCommandBufferAllocateInfo one = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = pool,
        .commandBufferCount = 1};
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    if (real.AllocateCommandBuffers(parts_device, &one, commands) != VK_SUCCESS) return 0;
    if (real.BeginCommandBuffer(*commands, &begin) != VK_SUCCESS) return 0;
    if (i % 2 == 0) real.CmdResetQueryPool(*commands, parts_stamps, i, 2);
    real.CmdWriteTimestamp(*commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, parts_stamps, i);
    if (real.EndCommandBuffer(*commands) != VK_SUCCESS) return 0;
  }
  return 1;
}

/* The device with its clock told on the host's, where it can. */
static VkResult VKAPI_PTR parts_open(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                     const void *callbacks, VkDevice *out) {
  const char *names[64];
  VkDeviceCreateInfo with = *info;
  uint32_t count = info->enabledExtensionCount;
  memcpy(names, info->ppEnabledExtensionNames, count * sizeof *names);
  names[count] = PARTS_CALIBRATED;
  with.enabledExtensionCount = count + 1;
  with.ppEnabledExtensionNames = names;
  VkResult result = real.CreateDevice(physical, &with, callbacks, out);
  if (result != VK_SUCCESS) return real.CreateDevice(physical, info, callbacks, out);
  VkPhysicalDeviceProperties properties;
  real.GetPhysicalDeviceProperties(physical, &properties);
  parts_period = (double)properties.limits.timestampPeriod;
  parts_device = *out;
  for (size_t i = 0; i < sizeof parts_names / sizeof *parts_names; ++i) {
    PFN_vkVoidFunction found = real.GetDeviceProcAddr(*out, parts_names[i]);
    if (found) real.in_order[i] = found;
  }
  if (!parts_prepare(info->pQueueCreateInfos[0].queueFamilyIndex)) parts_device = NULL;
  return result;
}

static void parts_read_stamps(void) {
  static const parts_domain domains[] = {{1000184000, NULL, PARTS_DOMAIN_DEVICE},
                                         {1000184000, NULL, PARTS_DOMAIN_MONOTONIC}};
  uint64_t now[2], deviation, stamps[2 * PARTS_MOST];
  uint32_t count = (uint32_t)parts.submissions;
  if (count > PARTS_MOST) count = PARTS_MOST;
  if (!parts_device || !parts_is_stamped || !count || !real.GetCalibratedTimestampsEXT ||
      real.GetQueryPoolResults(parts_device, parts_stamps, 0, 2 * count, sizeof stamps, stamps,
                               sizeof *stamps, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT) !=
          VK_SUCCESS ||
      real.GetCalibratedTimestampsEXT(parts_device, 2, domains, now, &deviation) != VK_SUCCESS)
    return;
  parts.gpu_begin = (double)now[1] - (double)(now[0] - stamps[0]) * parts_period;
  parts.gpu_end = (double)now[1] - (double)(now[0] - stamps[2 * count - 1]) * parts_period;
  for (uint32_t i = 0; i < count; ++i)
    parts.gpu_time += (double)(stamps[2 * i + 1] - stamps[2 * i]) * parts_period;
}

/* --- what `call_parts.py` asks ---------------------------------------------------------------- */

void parts_begin(int is_stamped) {
  memset(&parts, 0, sizeof parts);
  parts_is_stamped = is_stamped && parts_device;
}

void parts_end(parts_call *out) {
  parts_read_stamps();
  parts_is_stamped = 0;
  *out = parts;
}

/* --- the library ------------------------------------------------------------------------------ */

#define PARTS_GIVE(name, function) \
  if (strcmp(asked, name) == 0) return (PFN_vkVoidFunction)(function);

static PFN_vkVoidFunction VKAPI_PTR parts_find(VkDevice device, const char *asked) {
  PARTS_GIVE("vkQueueSubmit", parts_submit)
  PARTS_GIVE("vkWaitForFences", parts_wait)
  PARTS_GIVE("vkBeginCommandBuffer", parts_record)
  PARTS_GIVE("vkAllocateMemory", parts_allocate)
  return real.GetDeviceProcAddr(device, asked);
}

PFN_vkVoidFunction VKAPI_PTR vkGetInstanceProcAddr(VkInstance instance, const char *asked) {
  if (!parts_get) {
    void *library = dlopen(getenv("PARTS_REAL"), RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
    if (!symbol) {
      fprintf(stderr, "no Vulkan: %s\n", dlerror());
      exit(99);
    }
    memcpy(&parts_get, &symbol, sizeof symbol);
  }
  if (instance && instance != parts_instance) {
    parts_instance = instance;
    for (size_t i = 0; i < sizeof parts_names / sizeof *parts_names; ++i)
      real.in_order[i] = parts_get(instance, parts_names[i]);
  }
  PARTS_GIVE("vkCreateDevice", parts_open)
  PARTS_GIVE("vkGetDeviceProcAddr", parts_find)
  return parts_get(instance, asked);
}
