/* Finds the functions that programs import, and checks what they are given. */
#include "fence.h"
#include "session.h"

#define IMPORTS_MODULE(module, table) module "\0"
#define IMPORTS_LINES(module, table) \
  if (index-- == 0) return edgert_##table##_lines;
#define IMPORTS_RUN(module, table) \
  if (index-- == 0) return edgert_##table##_run(imported->line, session, in, out, error);

/* A table's functions; NULL behind the last. */
static const char *imports_lines(uint32_t index) {
  EDGERT_IMPORT_TABLES(IMPORTS_LINES)
  return NULL;
}

/* The kind that a code of ours stands for; any for numbers, and where any kind will do. */
static edgert_kind imports_kind(char code) {
  switch (code | 0x20) {
    case 'd': return EDGERT_KIND_DEVICE;
    case 'a': return EDGERT_KIND_HEAP;
    case 'b': return EDGERT_KIND_BUFFER;
    case 't': return EDGERT_KIND_TENSOR;
    case 'y': return EDGERT_KIND_BYTES;
    case 'x': return EDGERT_KIND_EXECUTABLE;
    case 'k': return EDGERT_KIND_COMMANDS;
    case 'e': return EDGERT_KIND_FENCE;
    case 'l': return EDGERT_KIND_FILE;
    default: return EDGERT_KIND_ANY;
  }
}

/* `C` and `D` are not what they seem. */
static int imports_is_group(char code) { return code == 'C' || code == 'D'; }

/* Whether a convention of ours, which ends at `end`, is the one that the program means. */
static int imports_fit(const char *ours, const char *end, edgert_text convention) {
  if ((size_t)(end - ours) != convention.size) return 0;
  for (size_t i = 0; i < convention.size; ++i) {
    int is_kind = !imports_is_group(ours[i]) && imports_kind(ours[i]);
    if ((is_kind ? 'r' : ours[i]) != convention.data[i]) return 0;
  }
  return 1;
}

int edgert_import_find(edgert_text name, edgert_text convention, edgert_imported *out,
                       int *out_differs) {
  *out_differs = 0;
  const char *dot = memchr(name.data, '.', name.size);
  if (!dot) return 0;
  const edgert_text module = {name.data, (size_t)(dot - name.data)};
  const edgert_text function = {dot + 1, name.size - module.size - 1};
  if (convention.size && convention.data[0] == '0')
    convention = (edgert_text){convention.data + 1, convention.size - 1};
  const char *line, *modules = EDGERT_IMPORT_TABLES(IMPORTS_MODULE);
  for (uint32_t i = 0; (line = imports_lines(i)) != NULL; ++i) {
    if (!edgert_text_equal(module, edgert_name_at(modules, i))) continue;
    const char *whole = line; /* the last name that is there in full */
    for (uint32_t row = 0; *line; ++row) {
      const char *blank = strchr(line, ' '), *end = strchr(blank, '\n');
      if (*line != '.') whole = line;
      size_t rest = (size_t)(blank - line);
      size_t shared = whole == line ? 0 : (size_t)(strchr(whole, '.') - whole);
      if (shared + rest == function.size && memcmp(whole, function.data, shared) == 0 &&
          memcmp(line, function.data + shared, rest) == 0) {
        *out = (edgert_imported){blank + 1, i, row};
        *out_differs = !imports_fit(blank + 1, end, convention);
        return !*out_differs;
      }
      line = end + 1;
    }
  }
  return 0;
}

/* Refuse references that are not of the kinds that an import asks for. */
static edgert_status imports_check(const edgert_session *session, const char *codes,
                                   const edgert_cell *in, edgert_error *error) {
  const char *group = NULL;
  int64_t repeat = 0;
  for (; *codes != '_'; ++codes) {
    if (*codes == 'C') {
      repeat = (in++)->wide;
      group = codes;
      if (repeat == 0) codes = strchr(codes, 'D');
      continue;
    }
    if (*codes == 'D') {
      if (--repeat > 0) codes = group;
      continue;
    }
    edgert_kind kind = imports_kind(*codes);
    edgert_object *object = kind ? in->ref : NULL;
    ++in;
    if (!kind || (!object && !(*codes & 0x20))) continue;
    if (!edgert_object_as(object, kind))
      return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program gives a %s for a %s",
                         object ? edgert_kind_name(object->kind) : "null",
                         edgert_kind_name(kind));
    if (kind == EDGERT_KIND_DEVICE && object != &session->device->object)
      return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program uses a foreign device");
  }
  return EDGERT_OK;
}

edgert_status edgert_import_run(const edgert_imported *imported, edgert_session *session,
                                const edgert_cell *in, edgert_cell *out, edgert_error *error) {
  uint32_t index = imported->table;
  edgert_status status = imports_check(session, imported->codes, in, error);
  if (status != EDGERT_OK) return status;
  EDGERT_IMPORT_TABLES(IMPORTS_RUN)
  return EDGERT_UNSUPPORTED;
}
