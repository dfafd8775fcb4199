/* Executables to kernels: a FlatBuffer of PTX and of how it is called. */
#include "../../drivers.h"

#if EDGERT_WITH_CUDA

#include "../../flatbuffer.h"
#include "cuda.h"

/* The file's header, and its fields by their numbers. */
#define PTX_HEADER 64
enum { PTX_EXPORTS, PTX_MODULES };
enum { EXPORT_MODULE, EXPORT_NAME, EXPORT_BLOCK, EXPORT_SHARED, EXPORT_CONSTANTS, EXPORT_BINDINGS };

#define PTX_LOG 2048 /* bytes of what CUDA's compiler says */

/* What is being loaded. */
typedef struct ptx_file {
  cuda_device *device;
  cuda_executable *out;
  edgert_flatbuffer data;
  edgert_vector exports, modules;
  edgert_text looked_at; /* the last text that was looked through for kernels that wait */
  int has_waits;         /* whether there is any in it */
} ptx_file;

static edgert_status ptx_damaged(edgert_error *error) {
  return EDGERT_FAIL(error, EDGERT_DAMAGED, "an executable for CUDA breaks its own format");
}

void cuda_unload(edgert_executable *executable) {
  cuda_executable *self = (cuda_executable *)executable;
  cuda_device *device = (cuda_device *)executable->device;
  const edgert_allocator *allocator = &executable->object.allocator;
  if (self->modules && cuda_enter(device, NULL) == EDGERT_OK) {
    (void)device->cuda.StreamSynchronize(device->stream); /* what runs may use them */
    for (uint32_t i = 0; i < self->module_count; ++i)
      if (self->modules[i]) (void)device->cuda.ModuleUnload(self->modules[i]);
    cuda_leave(device);
  }
  edgert_deallocate(allocator, self->modules);
  edgert_deallocate(allocator, self->kernels);
  edgert_deallocate(allocator, self->names);
}

/* --- modules ---------------------------------------------------------------------------------- */

/* CUDA is told where code begins and not where it ends. Text it reads up to the zero that is there;
 * of other forms it believes the sizes that are inside. */
static int ptx_is_text(edgert_text code) {
  for (size_t i = 0; i < code.size; ++i) {
    unsigned char c = (unsigned char)code.data[i];
    if ((c < ' ' && c != '\n' && c != '\r' && c != '\t') || c >= 127) return 0;
  }
  return code.size > 0;
}

static edgert_status ptx_compile(cuda_device *self, edgert_text code, CUmodule *out,
                                     edgert_error *error) {
  char log[PTX_LOG] = "";
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)sizeof log};
  if (!ptx_is_text(code))
    return EDGERT_FAIL(error, EDGERT_DAMAGED, "an executable for CUDA holds no PTX");
  CUresult result = self->cuda.ModuleLoadDataEx(out, code.data, 2, options, values);
  if (result == CUDA_SUCCESS) return EDGERT_OK;
  log[sizeof log - 1] = 0;
  if (result != CUDA_ERROR_NO_BINARY_FOR_GPU && result != CUDA_ERROR_INVALID_PTX &&
      result != CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    return cuda_fail(self, result, "compiling kernels", error);
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                     "%s (compute capability %d.%d, driver %d) refuses the module's kernels with "
                     "error %d: %s",
                     self->device.name, self->facts.major, self->facts.minor, self->facts.driver,
                     (int)result, log);
}

static edgert_status ptx_read_modules(ptx_file *file, edgert_error *error) {
  void *memory;
  edgert_status status =
      edgert_allocate_array(&file->out->executable.object.allocator, file->modules.count,
                            sizeof *file->out->modules, &memory, error);
  if (status != EDGERT_OK) return status;
  file->out->modules = memory;
  file->out->module_count = file->modules.count;
  for (uint32_t i = 0; i < file->modules.count && status == EDGERT_OK; ++i) {
    edgert_text code = edgert_table_text(
        &file->data, edgert_vector_table(&file->data, file->modules, i), 0);
    status = file->data.broken || !code.data
                 ? ptx_damaged(error)
                 : ptx_compile(file->device, code, &file->out->modules[i], error);
  }
  return status;
}

/* --- kernels ---------------------------------------------------------------------------------- */

/* How large the blocks of a kernel are, and what they share. */
static edgert_status ptx_read_block(ptx_file *file, edgert_table table, cuda_kernel *out,
                                        edgert_error *error) {
  const cuda_facts *facts = &file->device->facts;
  const uint8_t *block =
      edgert_table_bytes(&file->data, table, EXPORT_BLOCK, sizeof out->block);
  if (!block) return ptx_damaged(error);
  memcpy(out->block, block, sizeof out->block);
  out->shared = (uint32_t)edgert_table_number(&file->data, table, EXPORT_SHARED, 4, 0);
  uint64_t threads = 1;
  int fits = out->shared <= facts->most_shared;
  for (size_t i = 0; i < 3; ++i) {
    if (!out->block[i]) return ptx_damaged(error);
    fits &= out->block[i] <= facts->most_block[i];
    threads *= out->block[i] < 1u << 16 ? out->block[i] : 1u << 16;
  }
  if (fits && threads <= facts->most_threads) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                     "the kernel '%s' wants blocks of %u x %u x %u threads with %u bytes, and %s "
                     "has %u threads and %u bytes",
                     out->name.data, (unsigned)out->block[0], (unsigned)out->block[1],
                     (unsigned)out->block[2], (unsigned)out->shared, facts->name,
                     (unsigned)facts->most_threads, (unsigned)facts->most_shared);
}

/* Where one text is in another, or NULL. */
static const char *ptx_find(edgert_text in, const char *wanted) {
  size_t size = strlen(wanted);
  for (size_t i = 0; i + size <= in.size; ++i)
    if (memcmp(in.data + i, wanted, size) == 0) return in.data + i;
  return NULL;
}

static edgert_text ptx_from(edgert_text text, const char *at) {
  return (edgert_text){at, text.size - (size_t)(at - text.data)};
}

/* Whether a kernel's own code waits until what was launched before it has ended. Many may be in one
 * text, each behind its `.entry`; most texts have none that waits, and are looked through once. */
static int ptx_waits(ptx_file *file, edgert_text code, edgert_text name) {
  static const char entry[] = ".entry ", wait[] = "griddepcontrol.wait";
  const char *at;
  if (code.data != file->looked_at.data) {
    file->looked_at = code;
    file->has_waits = ptx_find(code, wait) != NULL;
  }
  if (!file->has_waits) return 0;
  while ((at = ptx_find(code, entry)) != NULL) {
    code = ptx_from(code, at + sizeof entry - 1);
    if (code.size <= name.size || memcmp(code.data, name.data, name.size) != 0 ||
        code.data[name.size] != '(')
      continue;
    const char *end = ptx_find(code, entry);
    if (end) code.size = (size_t)(end - code.data);
    return ptx_find(code, wait) != NULL;
  }
  return 0;
}

static edgert_status ptx_read_export(ptx_file *file, edgert_table table, cuda_kernel *out,
                                         edgert_error *error) {
  cuda_device *self = file->device;
  uint64_t module = edgert_table_number(&file->data, table, EXPORT_MODULE, 4, 0);
  uint64_t constants = edgert_table_number(&file->data, table, EXPORT_CONSTANTS, 4, 0);
  edgert_vector bindings = edgert_table_vector(&file->data, table, EXPORT_BINDINGS, 8);
  if (file->data.broken || !out->name.size || module >= file->out->module_count ||
      constants + bindings.count > CUDA_MOST_PARAMETERS)
    return ptx_damaged(error);
  edgert_status status = ptx_read_block(file, table, out, error);
  if (status != EDGERT_OK) return status;
  out->constant_count = (uint32_t)constants;
  out->binding_count = bindings.count;
  out->waits = ptx_waits(
      file,
      edgert_table_text(&file->data,
                        edgert_vector_table(&file->data, file->modules, (uint32_t)module), 0),
      out->name);
  CUresult result =
      self->cuda.ModuleGetFunction(&out->function, file->out->modules[module], out->name.data);
  if (result == CUDA_SUCCESS && out->shared)
    result = self->cuda.FuncSetAttribute(
        out->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)out->shared);
  return result == CUDA_SUCCESS ? EDGERT_OK : cuda_fail(self, result, out->name.data, error);
}

/* The kernels' names, each with a zero behind it, which outlive the file. */
static edgert_status ptx_copy_names(ptx_file *file, edgert_error *error) {
  edgert_flatbuffer *data = &file->data;
  size_t size = 0;
  for (uint32_t i = 0; i < file->exports.count; ++i)
    size += edgert_table_text(data, edgert_vector_table(data, file->exports, i), EXPORT_NAME).size +
            1;
  void *memory;
  edgert_status status = edgert_allocate_array(&file->out->executable.object.allocator, size, 1,
                                               &memory, error);
  if (status != EDGERT_OK) return status;
  char *at = file->out->names = memory;
  for (uint32_t i = 0; i < file->exports.count; ++i) {
    edgert_text name =
        edgert_table_text(data, edgert_vector_table(data, file->exports, i), EXPORT_NAME);
    if (name.size) memcpy(at, name.data, name.size);
    file->out->kernels[i].name = (edgert_text){at, name.size};
    at += name.size + 1;
  }
  return EDGERT_OK;
}

static edgert_status ptx_read_exports(ptx_file *file, edgert_error *error) {
  cuda_executable *out = file->out;
  void *memory;
  edgert_status status =
      edgert_allocate_array(&out->executable.object.allocator, file->exports.count,
                            sizeof *out->kernels, &memory, error);
  if (status != EDGERT_OK) return status;
  out->kernels = memory;
  out->kernel_count = file->exports.count;
  status = ptx_copy_names(file, error);
  for (uint32_t i = 0; i < out->kernel_count && status == EDGERT_OK; ++i)
    status = ptx_read_export(file, edgert_vector_table(&file->data, file->exports, i),
                                 &out->kernels[i], error);
  return status;
}

/* --- executables ------------------------------------------------------------------------------ */

static edgert_status ptx_open(ptx_file *file, const uint8_t *data, size_t size,
                                  edgert_error *error) {
  if (size < PTX_HEADER || memcmp(data, "CDA1", 4) != 0 || edgert_load_u32(data + 4))
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "an executable for CUDA is of another version");
  uint64_t content = edgert_load_u64(data + 8);
  if (content > size - PTX_HEADER || content > UINT32_MAX) return ptx_damaged(error);
  file->data = (edgert_flatbuffer){data + PTX_HEADER, (uint32_t)content, 0};
  edgert_table root = edgert_flatbuffer_root(&file->data);
  file->exports = edgert_table_vector(&file->data, root, PTX_EXPORTS, 4);
  file->modules = edgert_table_vector(&file->data, root, PTX_MODULES, 4);
  return file->data.broken ? ptx_damaged(error) : EDGERT_OK;
}

edgert_status cuda_load(edgert_device *device, edgert_text format, const uint8_t *data, size_t size,
                        const uint32_t *constants, size_t constant_count, edgert_executable **out,
                        edgert_error *error) {
  (void)format, (void)constants; /* there is one format */
  *out = NULL;
  ptx_file file = {.device = (cuda_device *)device};
  void *made;
  edgert_status status = ptx_open(&file, data, size, error);
  if (status == EDGERT_OK && constant_count)
    status = EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "kernels for CUDA are not specialised");
  if (status == EDGERT_OK)
    status = edgert_object_create(&device->object.allocator, EDGERT_KIND_EXECUTABLE,
                                  sizeof(cuda_executable), &made, error);
  if (status != EDGERT_OK) return status;
  file.out = made;
  file.out->executable.device = edgert_retain(device);
  status = cuda_enter(file.device, error);
  if (status == EDGERT_OK) {
    status = ptx_read_modules(&file, error);
    if (status == EDGERT_OK) status = ptx_read_exports(&file, error);
    cuda_leave(file.device);
  }
  if (status == EDGERT_OK)
    *out = &file.out->executable;
  else
    edgert_release(made);
  return status;
}

edgert_status cuda_find(edgert_executable *executable, edgert_text name, uint32_t *out,
                        edgert_error *error) {
  const cuda_executable *self = (const cuda_executable *)executable;
  for (uint32_t i = 0; i < self->kernel_count; ++i) {
    if (self->kernels[i].name.size != name.size ||
        memcmp(self->kernels[i].name.data, name.data, name.size) != 0)
      continue;
    *out = i;
    return EDGERT_OK;
  }
  return EDGERT_FAIL(error, EDGERT_NOT_FOUND, "there is no kernel '%.*s'", EDGERT_TEXT(name));
}

edgert_status cuda_check(edgert_executable *executable, uint32_t kernel, size_t constant_count,
                         size_t binding_count, edgert_error *error) {
  const cuda_executable *self = (const cuda_executable *)executable;
  if (kernel >= self->kernel_count)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "there is no kernel %u", (unsigned)kernel);
  const cuda_kernel *found = &self->kernels[kernel];
  if (constant_count == found->constant_count && binding_count == found->binding_count)
    return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT,
                     "a kernel takes %u constants and %u bindings, and was given %u and %u",
                     (unsigned)found->constant_count, (unsigned)found->binding_count,
                     (unsigned)constant_count, (unsigned)binding_count);
}

#endif
