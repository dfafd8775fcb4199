/* Loads the shared object that an executable is: no system loader, no dependencies, W^X. */
#include "cpu.h"

#if EDGERT_WITH_ELF

#define ELF_QUERY "iree_hal_executable_library_query"
#define ELF_MAX_SEGMENTS 32
#define ELF_MAX_SPAN ((uint64_t)1 << 30)

enum { ELF_SHARED = 3, ELF_LOAD = 1, ELF_DYNAMIC = 2, ELF_RELRO = 0x6474E552 };
enum { ELF_EXECUTE = 1, ELF_WRITE = 2 };
/* Tags of the dynamic section. */
enum { ELF_NEEDED = 1, ELF_PLT_SIZE = 2, ELF_HASH = 4, ELF_STRINGS = 5, ELF_SYMBOLS = 6 };
enum { ELF_RELA = 7, ELF_RELA_SIZE = 8, ELF_STRINGS_SIZE = 10, ELF_INIT = 12, ELF_REL = 17 };
enum { ELF_REL_SIZE = 18, ELF_PLT = 23, ELF_INIT_ARRAY = 25, ELF_TAGS = 32 };

/* What relocations of each architecture do. */
typedef enum elf_action {
  ELF_REFUSE = 0,
  ELF_BASE_ADDEND,    /* the image's base + addend */
  ELF_SYMBOL_ADDEND,  /* symbol + addend */
  ELF_SYMBOL,         /* symbol */
  ELF_SYMBOL_RELATIVE /* symbol + addend - place */
} elf_action;

#if defined(__x86_64__)
#define ELF_ARCHITECTURE "x86_64"
#define ELF_MACHINE 62
static elf_action elf_action_of(uint32_t type) {
  if (type == 8) return ELF_BASE_ADDEND;
  if (type == 1) return ELF_SYMBOL_ADDEND;
  if (type == 6 || type == 7) return ELF_SYMBOL_ADDEND;
  return ELF_REFUSE;
}
#elif defined(__aarch64__)
#define ELF_ARCHITECTURE "arm_64"
#define ELF_MACHINE 183
static elf_action elf_action_of(uint32_t type) {
  if (type == 1027) return ELF_BASE_ADDEND;
  if (type == 257 || type == 1025 || type == 1026) return ELF_SYMBOL_ADDEND;
  return ELF_REFUSE;
}
#elif defined(__arm__)
#define ELF_ARCHITECTURE "arm_32"
#define ELF_MACHINE 40
static elf_action elf_action_of(uint32_t type) {
  if (type == 23) return ELF_BASE_ADDEND;
  if (type == 2) return ELF_SYMBOL_ADDEND;
  if (type == 3) return ELF_SYMBOL_RELATIVE;
  if (type == 21 || type == 22) return ELF_SYMBOL;
  return ELF_REFUSE;
}
#elif defined(__riscv) && __riscv_xlen == 64
#define ELF_ARCHITECTURE "riscv_64"
#define ELF_MACHINE 243
static elf_action elf_action_of(uint32_t type) {
  if (type == 3) return ELF_BASE_ADDEND;
  if (type == 2 || type == 5) return ELF_SYMBOL_ADDEND;
  return ELF_REFUSE;
}
#else
#undef EDGERT_WITH_ELF
#define EDGERT_WITH_ELF 0
#endif

#endif

#if EDGERT_WITH_ELF

/* The layout of this machine's class: a word is a pointer's width. */
#if UINTPTR_MAX > 0xFFFFFFFFu
enum { ELF_CLASS = 2, ELF_WORD = 8, ELF_HEADER_SIZE = 64, ELF_SEGMENT_SIZE = 56 };
enum { ELF_AT_SEGMENTS = 32, ELF_AT_SEGMENT_SIZE = 54, ELF_AT_SEGMENT_COUNT = 56 };
enum { ELF_AT_FLAGS = 4, ELF_AT_OFFSET = 8, ELF_AT_ADDRESS = 16, ELF_AT_FILE = 32 };
enum { ELF_AT_MEMORY = 40, ELF_SYMBOL_SIZE = 24, ELF_AT_VALUE = 8, ELF_AT_SECTION = 6 };
#else
enum { ELF_CLASS = 1, ELF_WORD = 4, ELF_HEADER_SIZE = 52, ELF_SEGMENT_SIZE = 32 };
enum { ELF_AT_SEGMENTS = 28, ELF_AT_SEGMENT_SIZE = 42, ELF_AT_SEGMENT_COUNT = 44 };
enum { ELF_AT_FLAGS = 24, ELF_AT_OFFSET = 4, ELF_AT_ADDRESS = 8, ELF_AT_FILE = 16 };
enum { ELF_AT_MEMORY = 20, ELF_SYMBOL_SIZE = 16, ELF_AT_VALUE = 4, ELF_AT_SECTION = 14 };
#endif

typedef struct elf_segment {
  uint32_t kind, flags;
  uint64_t offset, address, file_size, size;
} elf_segment;

typedef struct elf_image {
  const uint8_t *data;
  size_t size;
  elf_segment segments[ELF_MAX_SEGMENTS];
  uint32_t segment_count;
  uint8_t *base;
  size_t span; /* bytes at `base` */
  uint64_t tags[ELF_TAGS];
  uint32_t symbol_count;
} elf_image;

static edgert_status elf_damaged(edgert_error *error, const char *what) {
  (void)what;
  return EDGERT_FAIL(error, EDGERT_DAMAGED, "an executable is damaged: %s", what);
}

static uint64_t elf_word(const uint8_t *at) {
  return ELF_WORD == 8 ? edgert_load_u64(at) : edgert_load_u32(at);
}

static edgert_status elf_read_header(elf_image *self, edgert_error *error) {
  const uint8_t *data = self->data;
  if (self->size < ELF_HEADER_SIZE || memcmp(data, "\177ELF", 4) != 0)
    return elf_damaged(error, "it is no ELF file");
  uint32_t machine = edgert_load_u16(data + 18);
  if (data[4] != ELF_CLASS || data[5] != 1 || machine != ELF_MACHINE)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                       "an executable is for the ELF machine %u of %u bits, not for " ELF_ARCHITECTURE
                       " (%u)",
                       (unsigned)machine, 32u * data[4], (unsigned)ELF_MACHINE);
  uint64_t at = elf_word(data + ELF_AT_SEGMENTS);
  uint32_t count = edgert_load_u16(data + ELF_AT_SEGMENT_COUNT);
  if (edgert_load_u16(data + 16) != ELF_SHARED || count > ELF_MAX_SEGMENTS ||
      edgert_load_u16(data + ELF_AT_SEGMENT_SIZE) != ELF_SEGMENT_SIZE ||
      !edgert_in_range(at, (uint64_t)count * ELF_SEGMENT_SIZE, self->size))
    return elf_damaged(error, "its header");
  self->segment_count = count;
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t *p = data + at + (size_t)i * ELF_SEGMENT_SIZE;
    elf_segment *segment = &self->segments[i];
    *segment = (elf_segment){.kind = edgert_load_u32(p),
                             .flags = edgert_load_u32(p + ELF_AT_FLAGS),
                             .offset = elf_word(p + ELF_AT_OFFSET),
                             .address = elf_word(p + ELF_AT_ADDRESS),
                             .file_size = elf_word(p + ELF_AT_FILE),
                             .size = elf_word(p + ELF_AT_MEMORY)};
    if (!edgert_in_range(segment->address, segment->size, ELF_MAX_SPAN))
      return elf_damaged(error, "a segment lies outside");
    if (segment->kind == ELF_LOAD &&
        (segment->file_size > segment->size ||
         !edgert_in_range(segment->offset, segment->file_size, self->size)))
      return elf_damaged(error, "a segment lies outside");
  }
  return EDGERT_OK;
}

static uint64_t elf_page_start(uint64_t address) {
  return address & ~(uint64_t)(edgert_code_page_size() - 1);
}

static uint64_t elf_page_end(uint64_t address) {
  return elf_page_start(address + edgert_code_page_size() - 1);
}

static edgert_status elf_copy(elf_image *self, edgert_error *error) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < self->segment_count; ++i) {
    const elf_segment *segment = &self->segments[i];
    if (segment->kind == ELF_LOAD && segment->address + segment->size > end)
      end = segment->address + segment->size;
  }
  if (end == 0) return elf_damaged(error, "it has no segments");
  self->span = (size_t)elf_page_end(end);
  edgert_status status = edgert_zeros_reserve(self->span, &self->base, error);
  if (status != EDGERT_OK) return status;
  for (uint32_t i = 0; i < self->segment_count; ++i) {
    const elf_segment *segment = &self->segments[i];
    if (segment->kind == ELF_LOAD && segment->file_size)
      memcpy(self->base + segment->address, self->data + segment->offset,
             (size_t)segment->file_size);
  }
  return EDGERT_OK;
}

static edgert_status elf_read_dynamic(elf_image *self, edgert_error *error) {
  for (uint32_t i = 0; i < self->segment_count; ++i) {
    const elf_segment *segment = &self->segments[i];
    if (segment->kind != ELF_DYNAMIC) continue;
    if (!edgert_in_range(segment->address, segment->size, self->span))
      return elf_damaged(error, "its dynamic section");
    for (uint64_t at = 0; at + 2 * ELF_WORD <= segment->size; at += 2 * ELF_WORD) {
      const uint8_t *p = self->base + segment->address + at;
      uint64_t tag = elf_word(p);
      if (tag == 0) break;
      if (tag < ELF_TAGS) self->tags[tag] = elf_word(p + ELF_WORD);
      if (tag == ELF_NEEDED || tag == ELF_INIT || tag == ELF_INIT_ARRAY)
        return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                           "an executable needs other libraries or initialisers");
    }
  }
  uint64_t hash = self->tags[ELF_HASH];
  if (hash == 0 || !edgert_in_range(hash, 8, self->span))
    return elf_damaged(error, "it has no symbols");
  self->symbol_count = edgert_load_u32(self->base + hash + 4);
  if (!edgert_in_range(self->tags[ELF_SYMBOLS], (uint64_t)self->symbol_count * ELF_SYMBOL_SIZE,
                       self->span) ||
      !edgert_in_range(self->tags[ELF_STRINGS], self->tags[ELF_STRINGS_SIZE], self->span))
    return elf_damaged(error, "its symbols lie outside");
  return EDGERT_OK;
}

/* A defined symbol's address, or a refusal. */
static edgert_status elf_symbol(const elf_image *self, uint64_t index, uint64_t *out,
                                edgert_error *error) {
  if (index >= self->symbol_count) return elf_damaged(error, "a symbol lies outside");
  const uint8_t *symbol = self->base + self->tags[ELF_SYMBOLS] + index * ELF_SYMBOL_SIZE;
  uint64_t value = elf_word(symbol + ELF_AT_VALUE);
  if (edgert_load_u16(symbol + ELF_AT_SECTION) == 0)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "an executable needs a function from outside");
  if (value >= self->span) return elf_damaged(error, "a symbol lies outside");
  *out = (uint64_t)(uintptr_t)self->base + value;
  return EDGERT_OK;
}

static edgert_status elf_relocate_one(elf_image *self, uint64_t place, uint64_t info,
                                      const uint8_t *addend_at, edgert_error *error) {
  uint32_t type = ELF_WORD == 8 ? (uint32_t)info : (uint32_t)(info & 0xFF);
  uint64_t index = ELF_WORD == 8 ? info >> 32 : info >> 8;
  if (!edgert_in_range(place, ELF_WORD, self->span))
    return elf_damaged(error, "a relocation lies outside");
  uint64_t base = (uint64_t)(uintptr_t)self->base;
  uint64_t addend = elf_word(addend_at ? addend_at : self->base + place);
  elf_action action = elf_action_of(type);
  uint64_t value = base + addend;
  if (action == ELF_REFUSE)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "an executable has a relocation of type %u",
                       (unsigned)type);
  if (action != ELF_BASE_ADDEND) {
    edgert_status status = elf_symbol(self, index, &value, error);
    if (status != EDGERT_OK) return status;
    if (action != ELF_SYMBOL) value += addend;
    if (action == ELF_SYMBOL_RELATIVE) value -= base + place;
  }
  memcpy(self->base + place, &value, ELF_WORD);
  return EDGERT_OK;
}

static edgert_status elf_relocate_table(elf_image *self, uint64_t at, uint64_t size,
                                        int has_addends, edgert_error *error) {
  uint64_t width = (has_addends ? 3 : 2) * ELF_WORD;
  if (!edgert_in_range(at, size, self->span))
    return elf_damaged(error, "its relocations lie outside");
  for (uint64_t i = 0; i + width <= size; i += width) {
    const uint8_t *p = self->base + at + i;
    uint64_t place = elf_word(p), info = elf_word(p + ELF_WORD);
    edgert_status status =
        elf_relocate_one(self, place, info, has_addends ? p + 2 * ELF_WORD : NULL, error);
    if (status != EDGERT_OK) return status;
  }
  return EDGERT_OK;
}

static edgert_status elf_relocate(elf_image *self, edgert_error *error) {
  const uint64_t *tags = self->tags;
  edgert_status status =
      elf_relocate_table(self, tags[ELF_RELA], tags[ELF_RELA_SIZE], 1, error);
  if (status == EDGERT_OK)
    status = elf_relocate_table(self, tags[ELF_REL], tags[ELF_REL_SIZE], 0, error);
  if (status == EDGERT_OK)
    status = elf_relocate_table(self, tags[ELF_PLT], tags[ELF_PLT_SIZE], ELF_WORD == 8, error);
  return status;
}

/* Everything readable, then what each segment asks for; no page is writable and executable. */
static edgert_status elf_protect(const elf_image *self, edgert_error *error) {
  edgert_status status = edgert_code_protect(self->base, self->span, EDGERT_CODE_READ, error);
  uint64_t last_end = 0;
  for (uint32_t i = 0; i < self->segment_count && status == EDGERT_OK; ++i) {
    const elf_segment *segment = &self->segments[i];
    if (segment->kind != ELF_LOAD || segment->size == 0) continue;
    uint64_t start = elf_page_start(segment->address);
    uint64_t end = elf_page_end(segment->address + segment->size);
    int access = segment->flags & ELF_EXECUTE ? EDGERT_CODE_EXECUTE
                 : segment->flags & ELF_WRITE ? EDGERT_CODE_WRITE
                                              : EDGERT_CODE_READ;
    if (access == EDGERT_CODE_EXECUTE && (segment->flags & ELF_WRITE))
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "an executable has writable code");
    if (start < last_end)
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                         "an executable's segments share a page of this machine");
    last_end = end;
    status = edgert_code_protect(self->base + start, (size_t)(end - start), access, error);
  }
  for (uint32_t i = 0; i < self->segment_count && status == EDGERT_OK; ++i) {
    const elf_segment *segment = &self->segments[i];
    if (segment->kind != ELF_RELRO) continue;
    uint64_t start = elf_page_start(segment->address);
    uint64_t end = elf_page_start(segment->address + segment->size);
    if (start < end && end <= self->span)
      status = edgert_code_protect(self->base + start, (size_t)(end - start), EDGERT_CODE_READ,
                                   error);
  }
  return status;
}

static edgert_status elf_find_query(const elf_image *self, edgert_library_query *out,
                                    edgert_error *error) {
  const uint64_t strings_size = self->tags[ELF_STRINGS_SIZE];
  for (uint32_t i = 1; i < self->symbol_count; ++i) {
    const uint8_t *symbol = self->base + self->tags[ELF_SYMBOLS] + (size_t)i * ELF_SYMBOL_SIZE;
    uint64_t name = edgert_load_u32(symbol);
    if (!edgert_in_range(name, sizeof ELF_QUERY, strings_size)) continue;
    if (memcmp(self->base + self->tags[ELF_STRINGS] + name, ELF_QUERY, sizeof ELF_QUERY) != 0)
      continue;
    uint64_t address = 0;
    edgert_status status = elf_symbol(self, i, &address, error);
    if (status != EDGERT_OK) return status;
    uintptr_t pointer = (uintptr_t)address;
    memcpy(out, &pointer, sizeof *out);
    return EDGERT_OK;
  }
  return elf_damaged(error, "it has no kernels");
}

const char *edgert_elf_format(void) { return "embedded-elf-" ELF_ARCHITECTURE; }

edgert_status edgert_elf_load(const uint8_t *data, size_t size, edgert_elf *out,
                              edgert_library_query *out_query, edgert_error *error) {
  *out = (edgert_elf){NULL, 0};
  elf_image image;
  memset(&image, 0, sizeof image);
  image.data = data;
  image.size = size;
  edgert_status status = elf_read_header(&image, error);
  if (status == EDGERT_OK) status = elf_copy(&image, error);
  if (status == EDGERT_OK) status = elf_read_dynamic(&image, error);
  if (status == EDGERT_OK) status = elf_relocate(&image, error);
  if (status == EDGERT_OK) status = elf_find_query(&image, out_query, error);
  if (status == EDGERT_OK) status = elf_protect(&image, error);
  if (status != EDGERT_OK)
    edgert_zeros_release(image.base, image.span);
  else
    *out = (edgert_elf){image.base, image.span};
  return status;
}

void edgert_elf_unload(edgert_elf *self) {
  edgert_zeros_release(self->base, self->size);
  *self = (edgert_elf){NULL, 0};
}

#else

const char *edgert_elf_format(void) { return NULL; }

edgert_status edgert_elf_load(const uint8_t *data, size_t size, edgert_elf *out,
                              edgert_library_query *out_query, edgert_error *error) {
  (void)data, (void)size, (void)out_query;
  *out = (edgert_elf){NULL, 0};
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "this build loads no machine code");
}

void edgert_elf_unload(edgert_elf *self) { (void)self; }

#endif
