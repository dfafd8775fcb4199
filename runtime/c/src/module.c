#include "module.h"

#include <stdlib.h>

#define MODULE_IDENTIFIER "IREE"
#define MODULE_BYTECODE_MAJOR 17
#define MODULE_BYTECODE_MINOR 0
#define MODULE_DESCRIPTOR_SIZE 20

/* Fields of the module's tables by number. */
enum { ROOT_NAME = 0, ROOT_NEEDS = 2, ROOT_TYPES = 4, ROOT_IMPORTS = 6, ROOT_EXPORTS = 7 };
enum { ROOT_SIGNATURES = 8, ROOT_RODATA = 9, ROOT_RWDATA = 10, ROOT_STATE = 11 };
enum { ROOT_DESCRIPTORS = 12, ROOT_VERSION = 13, ROOT_BYTECODE = 14 };

void edgert_module_destroy(edgert_object *object) {
  edgert_module *self = (edgert_module *)object;
  edgert_deallocate(&object->allocator, self->types);
  edgert_deallocate(&object->allocator, self->imports);
  edgert_deallocate(&object->allocator, self->exports);
  edgert_deallocate(&object->allocator, self->functions);
  edgert_deallocate(&object->allocator, self->rodata);
  edgert_deallocate(&object->allocator, self->tables);
#if EDGERT_WITH_SIGNATURES
  edgert_deallocate(&object->allocator, self->leaves);
#endif
  if (self->mapping.mapped)
    edgert_mapping_close(&self->mapping, &object->allocator);
  else
    edgert_deallocate(&object->allocator, self->mapping.data);
  if (self->release) self->release(self->user);
}

static edgert_status module_damaged(edgert_error *error, const char *what) {
  (void)what;
  return EDGERT_FAIL(error, EDGERT_DAMAGED, "the module is damaged: %s", what);
}

/* --- types ------------------------------------------------------------------------------------ */

static edgert_type module_type(edgert_text text) {
  static const struct {
    char name[4];
    uint8_t slot;
  } numbers[] = {
      {"i8", EDGERT_SLOT_I8},   {"i16", EDGERT_SLOT_I16}, {"i32", EDGERT_SLOT_I32},
      {"i64", EDGERT_SLOT_I64}, {"f32", EDGERT_SLOT_F32}, {"f64", EDGERT_SLOT_F64},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
    if (edgert_text_equal(text, numbers[i].name))
      return (edgert_type){.slot = numbers[i].slot, .known = 1};
  edgert_type type = {.slot = EDGERT_SLOT_REF};
  if (text.size == 0 || text.data[0] != '!') return type;
  const edgert_text name = {text.data + 1, text.size - 1};
  const char list[] = "vm.list<";
  if (edgert_text_equal(name, "vm.opaque")) return (edgert_type){.known = 1};
  if (name.size > sizeof list && memcmp(name.data, list, sizeof list - 1) == 0) {
    type.kind = EDGERT_KIND_LIST;
    type.known = 1;
  }
  const edgert_kind kind = edgert_kind_of(name);
  if (kind != EDGERT_KIND_ANY && kind < EDGERT_KIND_LIST) {
    type.kind = kind;
    type.known = 1;
  }
  return type;
}

static edgert_status module_read_types(edgert_module *self, edgert_table root,
                                       edgert_error *error) {
  edgert_flatbuffer *buffer = &self->flatbuffer;
  edgert_vector vector = edgert_table_vector(buffer, root, ROOT_TYPES, 4);
  void *types;
  edgert_status status = edgert_allocate_array(&self->object.allocator, vector.count,
                                               sizeof *self->types, &types, error);
  self->types = types;
  if (status != EDGERT_OK) return status;
  self->type_count = vector.count;
  for (uint32_t i = 0; i < vector.count; ++i)
    self->types[i] =
        module_type(edgert_table_text(buffer, edgert_vector_table(buffer, vector, i), 0));
  return EDGERT_OK;
}

/* --- imports ---------------------------------------------------------------------------------- */

static edgert_status module_read_imports(edgert_module *self, edgert_table root,
                                         edgert_error *error) {
  edgert_flatbuffer *buffer = &self->flatbuffer;
  edgert_vector vector = edgert_table_vector(buffer, root, ROOT_IMPORTS, 4);
  void *imports;
  edgert_status status = edgert_allocate_array(&self->object.allocator, vector.count,
                                               sizeof *self->imports, &imports, error);
  self->imports = imports;
  if (status != EDGERT_OK) return status;
  self->import_count = vector.count;
  for (uint32_t i = 0; i < vector.count; ++i) {
    edgert_import *import = &self->imports[i];
    edgert_table table = edgert_vector_table(buffer, vector, i);
    import->name = edgert_table_text(buffer, table, 0);
    import->text = edgert_table_text(buffer, edgert_table_table(buffer, table, 1), 0);
    import->optional = (edgert_table_number(buffer, table, 2, 4, 1) & 2) != 0;
    if (buffer->broken || !import->name.data || !import->text.data ||
        !edgert_convention_parse(import->text, &import->convention))
      return module_damaged(error, "an import has no name or calling convention");
  }
  return EDGERT_OK;
}

/* --- constants -------------------------------------------------------------------------------- */

static edgert_status module_read_rodata(edgert_module *self, edgert_table root, const uint8_t *data,
                                        size_t size, uint64_t base, edgert_error *error) {
  edgert_flatbuffer *buffer = &self->flatbuffer;
  edgert_vector vector = edgert_table_vector(buffer, root, ROOT_RODATA, 4);
  void *rodata;
  edgert_status status = edgert_allocate_array(&self->object.allocator, vector.count,
                                               sizeof *self->rodata, &rodata, error);
  self->rodata = rodata;
  if (status != EDGERT_OK) return status;
  self->rodata_count = vector.count;
  for (uint32_t i = 0; i < vector.count; ++i) {
    edgert_table table = edgert_vector_table(buffer, vector, i);
    if (edgert_table_number(buffer, table, 0, 1, 0) != 0)
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "the module's constants are compressed");
    edgert_vector inline_bytes = edgert_table_vector(buffer, table, 2, 1);
    uint64_t offset = edgert_table_number(buffer, table, 3, 8, 0);
    uint64_t length = edgert_table_number(buffer, table, 4, 8, 0);
    if (inline_bytes.at) {
      self->rodata[i].data = buffer->data + inline_bytes.at;
      self->rodata[i].size = inline_bytes.count;
    } else if (length == 0) {
      self->rodata[i].data = buffer->data;
    } else if (base > size || !edgert_in_range(offset, length, size - base)) {
      return module_damaged(error, "a constant lies outside");
    } else {
      self->rodata[i].data = data + base + offset;
      self->rodata[i].size = (size_t)length;
    }
  }
  return EDGERT_OK;
}

/* --- functions -------------------------------------------------------------------------------- */

static edgert_status module_read_function(edgert_module *self, const uint8_t *descriptor,
                                          uint32_t index, edgert_error *error) {
  edgert_function *function = &self->functions[index];
  int32_t offset = (int32_t)edgert_load_u32(descriptor);
  int32_t length = (int32_t)edgert_load_u32(descriptor + 4);
  uint32_t needs = edgert_load_u32(descriptor + 8);
  int16_t blocks = (int16_t)edgert_load_u16(descriptor + 14);
  int16_t words = (int16_t)edgert_load_u16(descriptor + 16);
  int16_t refs = (int16_t)edgert_load_u16(descriptor + 18);
  if (offset < 0 || length <= 0 ||
      !edgert_in_range((uint64_t)offset, (uint64_t)length, self->bytecode.size))
    return module_damaged(error, "a function's code lies outside");
  if (blocks <= 0 || words < 0 || refs < 0 || refs > 0x3FFF)
    return module_damaged(error, "a function's counts are impossible");
  if (needs & ~(uint32_t)EDGERT_NEEDS_KNOWN)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "a function needs features 0x%x",
                       (unsigned)needs);
  function->code = (const uint8_t *)self->bytecode.data + offset;
  function->size = (uint32_t)length;
  function->block_count = (uint32_t)blocks;
  function->word_count = (uint32_t)words;
  function->ref_count = (uint32_t)refs;
  edgert_flatbuffer *buffer = &self->flatbuffer;
  edgert_text text =
      edgert_table_text(buffer, edgert_vector_table(buffer, self->signatures, index), 0);
  if (buffer->broken || (text.size && !text.data) ||
      !edgert_convention_parse(text, &function->convention) || function->convention.has_spans)
    return module_damaged(error, "a function's calling convention is none");
  uint32_t taken_words, taken_refs;
  edgert_codes_registers(function->convention.arguments, &taken_words, &taken_refs);
  if (taken_words > function->word_count || taken_refs > function->ref_count)
    return module_damaged(error, "a function has fewer registers than arguments");
  return EDGERT_OK;
}

static edgert_status module_read_functions(edgert_module *self, edgert_table root,
                                           edgert_error *error) {
  edgert_flatbuffer *buffer = &self->flatbuffer;
  edgert_vector bytecode = edgert_table_vector(buffer, root, ROOT_BYTECODE, 1);
  edgert_vector vector =
      edgert_table_vector(buffer, root, ROOT_DESCRIPTORS, MODULE_DESCRIPTOR_SIZE);
  self->signatures = edgert_table_vector(buffer, root, ROOT_SIGNATURES, 4);
  if (buffer->broken || self->signatures.count != vector.count)
    return module_damaged(error, "functions and signatures differ in number");
  self->bytecode = (edgert_text){(const char *)buffer->data + bytecode.at, bytecode.count};
  void *functions;
  edgert_status status = edgert_allocate_array(&self->object.allocator, vector.count,
                                               sizeof *self->functions, &functions, error);
  self->functions = functions;
  if (status != EDGERT_OK) return status;
  self->function_count = vector.count;
  uint64_t total = 0; /* so that verifying takes no longer than the file is long */
  for (uint32_t i = 0; i < vector.count && status == EDGERT_OK; ++i) {
    status = module_read_function(
        self, buffer->data + vector.at + (size_t)i * MODULE_DESCRIPTOR_SIZE, i, error);
    total += self->functions[i].size;
    if (status == EDGERT_OK && total > bytecode.count)
      status = module_damaged(error, "its functions' code overlaps");
  }
  return status;
}

static edgert_status module_read_exports(edgert_module *self, edgert_table root,
                                         edgert_error *error) {
  edgert_flatbuffer *buffer = &self->flatbuffer;
  edgert_vector vector = edgert_table_vector(buffer, root, ROOT_EXPORTS, 4);
  void *exports;
  edgert_status status = edgert_allocate_array(&self->object.allocator, vector.count,
                                               sizeof *self->exports, &exports, error);
  self->exports = exports;
  self->init = self->deinit = -1;
  for (uint32_t i = 0; status == EDGERT_OK && i < vector.count; ++i) {
    edgert_table table = edgert_vector_table(buffer, vector, i);
    edgert_text name = edgert_table_text(buffer, table, 0);
    uint64_t function = edgert_table_number(buffer, table, 1, 4, 0);
    if (buffer->broken || !name.data || strlen(name.data) != name.size ||
        function >= self->function_count)
      return module_damaged(error, "an exported function does not exist");
    if (edgert_text_equal(name, "__init"))
      self->init = (int64_t)function;
    else if (edgert_text_equal(name, "__deinit"))
      self->deinit = (int64_t)function;
    else
      self->exports[self->export_count++] = (edgert_export){name.data, (uint32_t)function, NULL};
  }
  for (uint32_t i = 0; i < self->export_count; ++i)
    self->exports[i].overwritten = edgert_module_attribute(self, i, "edgec.overwritten");
  int64_t special[2] = {self->init, self->deinit};
  for (int i = 0; i < 2; ++i) {
    if (special[i] < 0) continue;
    const edgert_convention *convention = &self->functions[special[i]].convention;
    if (convention->arguments.count || convention->results.count)
      return module_damaged(error, "its initialiser takes arguments");
  }
  return status;
}

/* --- the container ---------------------------------------------------------------------------- */

/* Where the module begins in a file that may be a zip archive: behind the first local header. */
static size_t module_start(const uint8_t *data, size_t size) {
  if (size < 30 || memcmp(data, "PK\3\4", 4) != 0) return 0;
  return 30 + (size_t)edgert_load_u16(data + 26) + edgert_load_u16(data + 28);
}

/* The checksum of zip archives, four bits at a time. */
static uint32_t module_checksum(const uint8_t *data, uint64_t size) {
  static const uint32_t table[16] = {
      0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
      0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
      0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
  uint32_t sum = UINT32_MAX;
  for (uint64_t i = 0; i < size; ++i) {
    sum = table[(sum ^ data[i]) & 15] ^ sum >> 4;
    sum = table[(sum ^ data[i] >> 4) & 15] ^ sum >> 4;
  }
  return ~sum;
}

/* Go through the files of an archive, one behind the other, and sum their checksums up; if it is
 * asked, compare them. A size stands in the header, or in an extra field (number 1: the size, then
 * the size in the archive). */
static edgert_status module_check(const uint8_t *data, size_t size, int is_compared, uint64_t *out,
                                  edgert_error *error) {
  size_t start;
  while ((start = module_start(data, size)) != 0) {
    uint64_t length = edgert_load_u32(data + 18);
    size_t extra = 30 + (size_t)edgert_load_u16(data + 26);
    if (start > size) return module_damaged(error, "it is cut short");
    while (length == UINT32_MAX && extra + 20 <= start && edgert_load_u16(data + extra) != 1)
      extra += 4 + (size_t)edgert_load_u16(data + extra + 2);
    if (length == UINT32_MAX && extra + 20 <= start) length = edgert_load_u64(data + extra + 12);
    if (!edgert_in_range(start, length, size)) return module_damaged(error, "it is cut short");
    uint32_t sum = edgert_load_u32(data + 14);
    *out = *out * 0x9E3779B97F4A7C15u + sum + 1;
    if (is_compared && module_checksum(data + start, length) != sum)
      return module_damaged(error, "its checksum is another");
    data += start + (size_t)length;
    size -= start + (size_t)length;
    /* A little may lie between two files. */
    for (int i = 0; i < EDGERT_ALIGNMENT && size && !module_start(data, size); ++i) ++data, --size;
  }
  return EDGERT_OK;
}

static edgert_status module_check_version(uint64_t version, edgert_error *error) {
  if (version >> 16 == MODULE_BYTECODE_MAJOR && (version & 0xFFFF) <= MODULE_BYTECODE_MINOR)
    return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                     "the module has byte code %u.%u, and this runtime runs %d.%d: "
                     "compile it again",
                     (unsigned)(version >> 16), (unsigned)(version & 0xFFFF), MODULE_BYTECODE_MAJOR,
                     MODULE_BYTECODE_MINOR);
}

/* Where the tables and the byte code are read from: of a mapped file a copy, which nobody can change
 * behind the verifier's back. It lies as the file does, for constants that are used in place. */
static edgert_status module_keep(edgert_module *self, const uint8_t *data, size_t size,
                                 const uint8_t **out, edgert_error *error) {
  *out = data;
  if (!self->mapping.mapped) return EDGERT_OK;
  size_t shift = (uintptr_t)data % EDGERT_ALIGNMENT;
  edgert_status status = edgert_allocate(&self->object.allocator, size + shift, EDGERT_ALIGNMENT,
                                         &self->tables, error);
  if (status == EDGERT_OK) *out = memcpy((uint8_t *)self->tables + shift, data, size);
  return status;
}

/* Refuse a module that the key did not sign; what is signed of it is all that counts. */
static edgert_status module_trust(edgert_module *self, const uint8_t *data, size_t *size,
                                  edgert_error *error) {
#if EDGERT_WITH_SIGNATURES
  edgert_sealed_weights *sealed = &self->sealed;
  edgert_status status = edgert_seal_open(data, *size, "module", self->key, size, sealed, error);
  if (status == EDGERT_OK)
    status = edgert_allocate(&self->object.allocator, sealed->page_count * EDGERT_LEAF_SIZE + 1, 1,
                             &self->leaves, error);
  if (status != EDGERT_OK) return status;
  sealed->leaves = memcpy(self->leaves, sealed->leaves, sealed->page_count * EDGERT_LEAF_SIZE);
  self->is_trusted = 1;
  return EDGERT_OK;
#else
  return edgert_seal_check(data, *size, "module", self->key, size, error);
#endif
}

static edgert_status module_read(edgert_module *self, const uint8_t *data, size_t size,
                                 edgert_error *error) {
  edgert_status status = EDGERT_OK;
  if (self->max_bytes && size > self->max_bytes)
    return EDGERT_FAIL(error, EDGERT_LIMIT, "the module has %llu bytes, more than it may",
                       (unsigned long long)size);
  if (self->key) status = module_trust(self, data, &size, error);
  self->key = NULL;
  if (status != EDGERT_OK) return status;
  size_t start = module_start(data, size);
  if (!edgert_in_range(start, 12, size) ||
      memcmp(data + start + 8, MODULE_IDENTIFIER, 4) != 0)
    return EDGERT_FAIL(error, EDGERT_DAMAGED, "this is no module: give a .vmfb of edgec compile");
  uint32_t length = edgert_load_u32(data + start);
  if (!edgert_in_range(start + 4, length, size) || length > INT32_MAX)
    return module_damaged(error, "it is cut short");
  if (self->accept && !self->accept(self->accept_user, data, size))
    return EDGERT_FAIL(error, EDGERT_DAMAGED, "the app does not accept the module's bytes");
  const uint8_t *tables;
  if (self->check || EDGERT_WITH_PROVE)
    status = module_check(data, size, self->check != 0, &self->checksums, self->check ? error : NULL);
  if (self->check && status != EDGERT_OK) return status;
  status = module_keep(self, data + start + 4, length, &tables, error);
  if (status != EDGERT_OK) return status;
  self->flatbuffer = (edgert_flatbuffer){tables, length, 0};
  uint64_t base = ((uint64_t)start + 4 + length + 63) & ~(uint64_t)63;
  edgert_flatbuffer *buffer = &self->flatbuffer;
  edgert_table root = edgert_flatbuffer_root(buffer);
  status =
      module_check_version(edgert_table_number(buffer, root, ROOT_VERSION, 4, 0), error);
  if (status != EDGERT_OK) return status;
  uint32_t needs = (uint32_t)edgert_table_number(buffer, root, ROOT_NEEDS, 4, 0);
  if (needs & ~(uint32_t)EDGERT_NEEDS_KNOWN)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "the module needs features 0x%x",
                       (unsigned)needs);
  edgert_text name = edgert_table_text(buffer, root, ROOT_NAME);
  self->name = name.data ? name.data : "";
  edgert_table state = edgert_table_table(buffer, root, ROOT_STATE);
  self->global_bytes = (uint32_t)edgert_table_number(buffer, state, 0, 4, 0);
  self->global_refs = (uint32_t)edgert_table_number(buffer, state, 1, 4, 0);
  if (buffer->broken) return module_damaged(error, "its tables contradict each other");
  if (self->global_bytes > INT32_MAX || self->global_refs > 0xFFFFFF)
    return module_damaged(error, "it asks for impossible amounts of state");
  if (edgert_table_vector(buffer, root, ROOT_RWDATA, 4).count)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "the module has writable data");
  status = module_read_types(self, root, error);
  if (status == EDGERT_OK) status = module_read_imports(self, root, error);
  if (status == EDGERT_OK) status = module_read_rodata(self, root, data, size, base, error);
  if (status == EDGERT_OK) status = module_read_functions(self, root, error);
  if (status == EDGERT_OK) status = module_read_exports(self, root, error);
  if (status == EDGERT_OK && buffer->broken)
    status = module_damaged(error, "its tables contradict each other");
  if (status == EDGERT_OK) status = edgert_module_verify(self, error);
  return status;
}

static edgert_status module_create(const edgert_module_options *options, edgert_module **out,
                                   edgert_error *error) {
  edgert_module_options full;
  memset(&full, 0, sizeof full);
  edgert_status status = edgert_options_read(&full, sizeof full, options, error);
  *out = NULL;
  if (status != EDGERT_OK) return status;
  edgert_allocator allocator = edgert_allocator_or_default(&full.allocator);
  void *made;
  status = edgert_object_create(&allocator, EDGERT_KIND_MODULE, sizeof **out, &made, error);
  *out = status == EDGERT_OK ? made : NULL;
  if (status != EDGERT_OK) return status;
  (*out)->check = full.check;
  (*out)->max_bytes = full.max_bytes;
  (*out)->accept = full.accept;
  (*out)->accept_user = full.accept_user;
  (*out)->key = full.key;
  return status;
}

edgert_status edgert_module_open(const char *path, const edgert_module_options *options,
                                 edgert_module **out_module, edgert_error *error) {
  *out_module = NULL;
  edgert_error_clear(error);
  edgert_module *self;
  edgert_status status = module_create(options, &self, error);
  if (status != EDGERT_OK) return status;
  status = edgert_mapping_open(path, &self->object.allocator, &self->mapping, error);
  if (status == EDGERT_OK)
    status = module_read(self, self->mapping.data, self->mapping.size, error);
  if (status != EDGERT_OK)
    edgert_release(self);
  else
    *out_module = self;
  return status;
}

/* The bytes of a reader in memory of the module's own, or a copy of `data`. */
static edgert_status module_load(edgert_module *self, const void *data, size_t size,
                                 const edgert_reader *reader, edgert_error *error) {
  void *copy;
  edgert_status status =
      edgert_allocate(&self->object.allocator, size + 1, EDGERT_ALIGNMENT, &copy, error);
  if (status != EDGERT_OK) return status;
  self->mapping = (edgert_mapping){copy, size, 0};
  if (data)
    memcpy(copy, data, size);
  else if (!reader->read(reader->user, 0, copy, size))
    return EDGERT_FAIL(error, EDGERT_IO, "the module cannot be read");
  return EDGERT_OK;
}

edgert_status edgert_module_wrap(const void *data, size_t data_size, void (*release)(void *user),
                                 void *user, const edgert_module_options *options,
                                 edgert_module **out_module, edgert_error *error) {
  *out_module = NULL;
  edgert_error_clear(error);
  edgert_module *self;
  edgert_status status = module_create(options, &self, error);
  if (status != EDGERT_OK) {
    if (release) release(user);
    return status;
  }
  self->release = release;
  self->user = user;
  int is_copied = (uintptr_t)data % EDGERT_ALIGNMENT != 0;
  if (is_copied) status = module_load(self, data, data_size, NULL, error);
  if (status == EDGERT_OK)
    status = module_read(self, is_copied ? self->mapping.data : data, data_size, error);
  if (status != EDGERT_OK)
    edgert_release(self);
  else
    *out_module = self;
  return status;
}

edgert_status edgert_module_read(const edgert_reader *reader, const edgert_module_options *options,
                                 edgert_module **out_module, edgert_error *error) {
  *out_module = NULL;
  edgert_error_clear(error);
  edgert_module *self;
  edgert_status status = module_create(options, &self, error);
  if (status == EDGERT_OK &&
      reader->size > (self->max_bytes ? self->max_bytes : (uint64_t)SIZE_MAX / 2))
    status = EDGERT_FAIL(error, EDGERT_LIMIT, "the module has %llu bytes, more than it may",
                         (unsigned long long)reader->size);
  if (status == EDGERT_OK)
    status = module_load(self, NULL, (size_t)reader->size, reader, error);
  if (reader->release) reader->release(reader->user);
  if (status == EDGERT_OK)
    status = module_read(self, self->mapping.data, self->mapping.size, error);
  if (status != EDGERT_OK)
    edgert_release(self);
  else
    *out_module = self;
  return status;
}

edgert_module *edgert_module_retain(edgert_module *module) { return edgert_retain(module); }
void edgert_module_release(edgert_module *module) { edgert_release(module); }
const char *edgert_module_name(const edgert_module *module) { return module->name; }
