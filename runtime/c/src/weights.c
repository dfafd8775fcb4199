#include "weights.h"

#include <stdlib.h>

#include "json.h"

#define WEIGHTS_IRPA 0x41505249u
#define WEIGHTS_IRPA_HEADER 88
#define WEIGHTS_IRPA_ENTRY 60
enum { WEIGHTS_SKIP = 0, WEIGHTS_SPLAT = 1, WEIGHTS_DATA = 2 };

void edgert_weights_destroy(edgert_object *object) {
  edgert_weights *self = (edgert_weights *)object;
  for (size_t i = 0; i < self->count; ++i)
    edgert_deallocate(&object->allocator, self->entries[i].name);
  edgert_deallocate(&object->allocator, self->entries);
  edgert_mapping_close(&self->mapping, &object->allocator);
  edgert_deallocate(&object->allocator, self->head);
  if (self->reader.release) self->reader.release(self->reader.user);
}

static edgert_status weights_damaged(edgert_error *error, const char *what) {
  (void)what;
  return EDGERT_FAIL(error, EDGERT_DAMAGED, "the weights file is damaged: %s", what);
}

/* A copy of `entry` with a name of its own. */
static edgert_status weights_add(edgert_weights *self, edgert_text name, int has_escapes,
                                 edgert_weight entry, edgert_error *error) {
  void *array = self->entries, *memory;
  edgert_status status = edgert_grow(&self->object.allocator, &array, self->count, &self->capacity,
                                     self->count + 1, sizeof *self->entries, error);
  self->entries = array;
  if (status == EDGERT_OK)
    status = edgert_allocate(&self->object.allocator, name.size + 1, 1, &memory, error);
  if (status != EDGERT_OK) return status;
  entry.name = memory;
  entry.name_size = name.size;
  if (has_escapes) {
    entry.name_size = edgert_json_decode(name, entry.name, name.size + 1);
  } else {
    memcpy(entry.name, name.data, name.size);
    entry.name[name.size] = 0;
  }
  self->entries[self->count++] = entry;
  return EDGERT_OK;
}

/* An entry for bytes of the file. */
static edgert_weight weights_at(const edgert_weights *self, uint64_t place, uint64_t size) {
  edgert_weight entry = {.place = place, .size = size};
  if (!edgert_weights_are_read(self)) entry.data = (const uint8_t *)self->bytes.data + place;
  return entry;
}

/* See to it that the first bytes of the file can be looked at. */
static edgert_status weights_need(edgert_weights *self, uint64_t size, edgert_error *error) {
  if (size > self->bytes.size) return weights_damaged(error, "it is cut short");
  if (size > self->head_size) self->head_size = (size_t)size;
  if (!edgert_weights_are_read(self)) return EDGERT_OK;
  const edgert_allocator *allocator = &self->object.allocator;
  void *head;
  edgert_status status = edgert_allocate(allocator, (size_t)size, EDGERT_ALIGNMENT, &head, error);
  if (status != EDGERT_OK) return status;
  edgert_deallocate(allocator, self->head);
  self->head = head;
  self->bytes.data = head;
  if (self->reader.read(self->reader.user, 0, head, (size_t)size)) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_IO, "the weights cannot be read");
}

/* --- safetensors ------------------------------------------------------------------------------ */

/* One entry's place among the data. */
static void weights_read_place(edgert_json *json, uint64_t out[2]) {
  edgert_json_scope fields = {0, 0};
  edgert_text key;
  while (edgert_json_member(json, &fields, &key)) {
    edgert_json_scope numbers = {0, 0};
    if (!edgert_text_equal(key, "data_offsets")) {
      edgert_json_skip(json);
      continue;
    }
    for (int i = 0; edgert_json_element(json, &numbers); ++i) {
      int64_t value = edgert_json_integer(json);
      if (value < 0 || i > 1) json->broken = 1;
      if (i < 2) out[i] = (uint64_t)value;
    }
  }
}

static edgert_status weights_read_safetensors(edgert_weights *self, edgert_error *error) {
  size_t size = self->bytes.size;
  uint64_t header = edgert_load_u64(self->bytes.data);
  if (header > size - 8) return weights_damaged(error, "it is cut short");
  edgert_status status = weights_need(self, 8 + header, error);
  if (status != EDGERT_OK) return status;
  edgert_json json = edgert_json_begin(self->bytes.data + 8, (size_t)header);
  edgert_json_scope members = {0, 0};
  edgert_text key;
  size_t space = size - 8 - (size_t)header;
  while (edgert_json_member(&json, &members, &key)) {
    if (edgert_text_equal(key, "__metadata__")) {
      edgert_json_skip(&json);
      continue;
    }
    uint64_t place[2] = {1, 0};
    weights_read_place(&json, place);
    if (json.broken) break;
    if (place[0] > place[1] || place[1] > space)
      return weights_damaged(error, "a weight lies outside");
    edgert_weight entry = weights_at(self, 8 + header + place[0], place[1] - place[0]);
    status = weights_add(self, key, 1, entry, error);
    if (status != EDGERT_OK) return status;
  }
  return json.broken ? weights_damaged(error, "its header is no JSON of weights") : EDGERT_OK;
}

/* --- IRPA ------------------------------------------------------------------------------------- */

static edgert_status weights_read_irpa(edgert_weights *self, edgert_error *error) {
  edgert_status status = weights_need(self, WEIGHTS_IRPA_HEADER, error);
  if (status != EDGERT_OK) return status;
  const uint8_t *data = (const uint8_t *)self->bytes.data;
  uint64_t size = self->bytes.size;
  if (edgert_load_u16(data + 4) != 0 || edgert_load_u64(data + 16) != 0)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "the weights file is of another version");
  uint64_t count = edgert_load_u64(data + 32);
  struct {
    uint64_t offset, size;
  } table, names, storage;
  memcpy(&table, data + 40, sizeof table);
  memcpy(&names, data + 56, sizeof names);
  memcpy(&storage, data + 72, sizeof storage);
  if (!edgert_in_range(table.offset, table.size, size) ||
      !edgert_in_range(names.offset, names.size, size) ||
      !edgert_in_range(storage.offset, storage.size, size))
    return weights_damaged(error, "it is cut short");
  uint64_t ends[2] = {table.offset + table.size, names.offset + names.size};
  status = weights_need(self, ends[0] > ends[1] ? ends[0] : ends[1], error);
  if (status != EDGERT_OK) return status;
  data = (const uint8_t *)self->bytes.data;
  uint64_t at = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (!edgert_in_range(at, WEIGHTS_IRPA_ENTRY, table.size))
      return weights_damaged(error, "its table ends early");
    const uint8_t *p = data + table.offset + at;
    uint64_t entry_size = edgert_load_u64(p);
    uint32_t type = edgert_load_u32(p + 8);
    uint64_t name_at = edgert_load_u64(p + 20), name_size = edgert_load_u64(p + 28);
    uint64_t rest = entry_size - WEIGHTS_IRPA_ENTRY;
    if (entry_size < WEIGHTS_IRPA_ENTRY || !edgert_in_range(at, entry_size, table.size) ||
        !edgert_in_range(name_at, name_size, names.size))
      return weights_damaged(error, "an entry lies outside");
    edgert_weight entry = {.size = 0};
    if (type == WEIGHTS_DATA && rest >= 16) {
      uint64_t offset = edgert_load_u64(p + 60);
      uint64_t length = edgert_load_u64(p + 68);
      if (!edgert_in_range(offset, length, storage.size))
        return weights_damaged(error, "a weight lies outside");
      entry = weights_at(self, storage.offset + offset, length);
    } else if (type == WEIGHTS_SPLAT && rest >= 25) {
      entry.size = edgert_load_u64(p + 60);
      memcpy(entry.pattern, p + 68, sizeof entry.pattern);
      entry.pattern_size = p[84];
      if (entry.pattern_size == 0 || entry.pattern_size > sizeof entry.pattern)
        return weights_damaged(error, "a pattern has no size");
    } else if (type != WEIGHTS_SKIP) {
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                         "the weights file keeps weights in yet another file");
    }
    const edgert_text name = {(const char *)data + names.offset + name_at, (size_t)name_size};
    status = type == WEIGHTS_SKIP ? EDGERT_OK : weights_add(self, name, 0, entry, error);
    if (status != EDGERT_OK) return status;
    at = (at + entry_size + 15) & ~(uint64_t)15;
  }
  return EDGERT_OK;
}

/* --- both ------------------------------------------------------------------------------------- */

static int weights_compare(const void *a, const void *b) {
  const edgert_weight *first = a, *second = b;
  size_t size =
      first->name_size < second->name_size ? first->name_size : second->name_size;
  int order = memcmp(first->name, second->name, size);
  if (order) return order;
  return first->name_size < second->name_size ? -1 : first->name_size > second->name_size;
}

static void weights_swap(edgert_weight *a, edgert_weight *b) {
  edgert_weight held = *a;
  *a = *b;
  *b = held;
}

/* Let the entry at `at` sink to where nothing below it is larger. */
static void weights_sink(edgert_weight *entries, size_t at, size_t count) {
  for (size_t below; (below = 2 * at + 1) < count; at = below) {
    if (below + 1 < count && weights_compare(&entries[below], &entries[below + 1]) < 0) ++below;
    if (weights_compare(&entries[at], &entries[below]) >= 0) return;
    weights_swap(&entries[at], &entries[below]);
  }
}

/* By their names. The C library's `qsort` is several times as large in WebAssembly. */
static void weights_sort(edgert_weight *entries, size_t count) {
  for (size_t i = count / 2; i > 0; --i) weights_sink(entries, i - 1, count);
  for (size_t i = count; i > 1; --i) {
    weights_swap(&entries[0], &entries[i - 1]);
    weights_sink(entries, 0, i - 1);
  }
}

static edgert_status weights_create(const edgert_allocator *allocator, edgert_weights **out,
                                    edgert_error *error) {
  edgert_allocator chosen = edgert_allocator_or_default(allocator);
  void *made;
  edgert_status status =
      edgert_object_create(&chosen, EDGERT_KIND_WEIGHTS, sizeof **out, &made, error);
  *out = status == EDGERT_OK ? made : NULL;
  return status;
}

/* The entries of `bytes`, in order; `self` is released where that fails. */
static edgert_status weights_read(edgert_weights *self, edgert_weights **out_weights,
                                  edgert_error *error) {
  edgert_status status = weights_need(self, 8, error);
  if (status == EDGERT_OK)
    status = edgert_load_u32(self->bytes.data) == WEIGHTS_IRPA
                 ? weights_read_irpa(self, error)
                 : weights_read_safetensors(self, error);
  if (status == EDGERT_OK) weights_sort(self->entries, self->count);
  if (status != EDGERT_OK)
    edgert_release(self);
  else
    *out_weights = self;
  return status;
}

edgert_status edgert_weights_open(const char *path, const edgert_allocator *allocator,
                                  edgert_weights **out_weights, edgert_error *error) {
  *out_weights = NULL;
  edgert_error_clear(error);
  edgert_weights *self;
  edgert_status status = weights_create(allocator, &self, error);
  if (status != EDGERT_OK) return status;
  status = edgert_mapping_open(path, &self->object.allocator, &self->mapping, error);
  if (status != EDGERT_OK) {
    edgert_release(self);
    return status;
  }
  self->bytes = (edgert_text){(const char *)self->mapping.data, self->mapping.size};
  return weights_read(self, out_weights, error);
}

/* Weights that `reader` gives, or (without `read`) the bytes at `data`. */
static edgert_status weights_take(const edgert_reader *reader, const void *data,
                                  const edgert_allocator *allocator, edgert_weights **out_weights,
                                  edgert_error *error) {
  *out_weights = NULL;
  edgert_error_clear(error);
  edgert_weights *self;
  edgert_status status = weights_create(allocator, &self, error);
  if (status != EDGERT_OK) {
    if (reader->release) reader->release(reader->user);
    return status;
  }
  self->reader = *reader;
  self->bytes = (edgert_text){data, (size_t)reader->size};
  if (!EDGERT_WITH_READERS || reader->size <= SIZE_MAX) return weights_read(self, out_weights, error);
  edgert_release(self);
  return EDGERT_FAIL(error, EDGERT_LIMIT, "the weights are larger than this machine can address");
}

edgert_status edgert_weights_wrap(const void *data, size_t data_size, void (*release)(void *user),
                                  void *user, const edgert_allocator *allocator,
                                  edgert_weights **out_weights, edgert_error *error) {
  const edgert_reader reader = {user, data_size, NULL, release};
  return weights_take(&reader, data, allocator, out_weights, error);
}

edgert_status edgert_weights_read(const edgert_reader *reader, const edgert_allocator *allocator,
                                  edgert_weights **out_weights, edgert_error *error) {
  return weights_take(reader, NULL, allocator, out_weights, error);
}

edgert_status edgert_weights_copy(const edgert_weights *self, const edgert_weight *weight,
                                  uint64_t offset, void *data, size_t size, edgert_error *error) {
  if (self->reader.read(self->reader.user, weight->place + offset, data, size)) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_IO, "the weight '%.*s' cannot be read", (int)weight->name_size,
                     weight->name);
}

const edgert_weight *edgert_weights_find(const edgert_weights *self, edgert_text name) {
  const edgert_weight wanted = {.name = (char *)(uintptr_t)name.data, .name_size = name.size};
  if (!self->count) return NULL;
  return bsearch(&wanted, self->entries, self->count, sizeof wanted, weights_compare);
}

edgert_weights *edgert_weights_retain(edgert_weights *weights) { return edgert_retain(weights); }
void edgert_weights_release(edgert_weights *weights) { edgert_release(weights); }
