/* Finds the functions that programs import. */
#include "session.h"

static const struct {
  const char *module;
  const edgert_import_table *table;
} imports_tables[] = {
    {"hal", &edgert_hal_memory_imports},
    {"hal", &edgert_hal_command_imports},
    {"hal", &edgert_hal_queue_imports},
    {"io_parameters", &edgert_io_parameters_imports},
};

static int imports_same(const char *data, size_t size, edgert_text text) {
  return size == text.size && memcmp(data, text.data, size) == 0;
}

edgert_import_call edgert_import_find(edgert_text name, edgert_text convention, int *out_differs) {
  *out_differs = 0;
  const char *dot = memchr(name.data, '.', name.size);
  if (!dot) return NULL;
  const edgert_text module = {name.data, (size_t)(dot - name.data)};
  const edgert_text function = {dot + 1, name.size - module.size - 1};
  if (convention.size && convention.data[0] == '0')
    convention = (edgert_text){convention.data + 1, convention.size - 1};
  for (size_t i = 0; i < sizeof imports_tables / sizeof *imports_tables; ++i) {
    if (!edgert_text_equal(module, imports_tables[i].module)) continue;
    const char *line = imports_tables[i].table->lines;
    for (size_t row = 0; *line; ++row) {
      const char *blank = strchr(line, ' '), *end = strchr(blank, '\n');
      if (imports_same(line, (size_t)(blank - line), function)) {
        if (imports_same(blank + 1, (size_t)(end - blank - 1), convention))
          return imports_tables[i].table->calls[row];
        *out_differs = 1;
      }
      line = end + 1;
    }
  }
  return NULL;
}
