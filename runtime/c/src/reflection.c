/* What a module says of its functions: attributes, names, types and shapes. */
#include <stdlib.h>

#include "json.h"
#include "module.h"

#define REFLECTION_SIGNATURE "edgec.signature"
#define REFLECTION_DECLARATION "iree.abi.declaration"

size_t edgert_module_function_count(const edgert_module *module) { return module->export_count; }

const char *edgert_module_function_name(const edgert_module *module, size_t function) {
  return function < module->export_count ? module->exports[function].name : NULL;
}

edgert_status edgert_module_find(const edgert_module *module, const char *name,
                                 size_t *out_function, edgert_error *error) {
  *out_function = 0;
  edgert_error_clear(error);
  for (size_t i = 0; i < module->export_count; ++i)
    if (strcmp(module->exports[i].name, name) == 0) {
      *out_function = i;
      return EDGERT_OK;
    }
  return EDGERT_FAIL(error, EDGERT_NOT_FOUND, "the module has no function '%s'", name);
}

/* --- attributes ------------------------------------------------------------------------------- */

int edgert_module_attribute_at(const edgert_module *module, size_t function, size_t index,
                               const char **out_key, const char **out_value) {
  *out_key = *out_value = NULL;
  if (function >= module->export_count) return 0;
  edgert_flatbuffer buffer = module->flatbuffer; /* a copy: `broken` is this reader's own */
  edgert_table signature =
      edgert_vector_table(&buffer, module->signatures, module->exports[function].function);
  edgert_vector attributes = edgert_table_vector(&buffer, signature, 1, 4);
  if (buffer.broken || index >= attributes.count) return 0;
  edgert_table attribute = edgert_vector_table(&buffer, attributes, (uint32_t)index);
  edgert_text key = edgert_table_text(&buffer, attribute, 0);
  edgert_text value = edgert_table_text(&buffer, attribute, 1);
  if (buffer.broken) return 0;
  *out_key = key.data ? key.data : "";
  *out_value = value.data ? value.data : "";
  return 1;
}

const char *edgert_module_attribute(const edgert_module *module, size_t function,
                                    const char *key) {
  size_t first = function == SIZE_MAX ? 0 : function;
  size_t last = function == SIZE_MAX ? module->export_count : function + 1;
  for (size_t i = first; i < last; ++i) {
    const char *found, *value;
    for (size_t a = 0; edgert_module_attribute_at(module, i, a, &found, &value); ++a)
      if (strcmp(found, key) == 0) return value;
  }
  return NULL;
}

/* --- arguments by the calling convention ------------------------------------------------------ */

static int reflection_is_async(const edgert_module *module, size_t function) {
  const char *model = edgert_module_attribute(module, function, "iree.abi.model");
  return model && strcmp(model, "coarse-fences") == 0;
}

static edgert_codes reflection_codes(const edgert_module *module, size_t function, int outputs) {
  if (function >= module->export_count) return (edgert_codes){"", 0};
  const edgert_function *callee = &module->functions[module->exports[function].function];
  if (outputs) return callee->convention.results;
  edgert_codes codes = callee->convention.arguments;
  /* The two fences at the end of an asynchronous function are the runtime's business. */
  if (codes.count >= 2 && codes.data[codes.count - 1] == 'r' && codes.data[codes.count - 2] == 'r' &&
      reflection_is_async(module, function))
    codes.count -= 2;
  return codes;
}

static edgert_value_kind reflection_kind(char code) {
  switch (code) {
    case 'i':
      return EDGERT_I32_VALUE;
    case 'I':
      return EDGERT_I64_VALUE;
    case 'f':
      return EDGERT_F32_VALUE;
    case 'F':
      return EDGERT_F64_VALUE;
    default:
      return EDGERT_TENSOR;
  }
}

/* --- edgec's own description ------------------------------------------------------------------ */

static void reflection_read_shape(edgert_json *json, edgert_argument *out) {
  edgert_json_scope dims = {0, 0};
  while (edgert_json_element(json, &dims)) {
    int64_t size = EDGERT_DYNAMIC;
    if (edgert_json_peek(json) == '{')
      edgert_json_skip(json);
    else
      size = edgert_json_integer(json);
    if (out->rank == EDGERT_MAX_RANK) json->broken = 1;
    if (!json->broken) out->shape[out->rank++] = size;
  }
}

static void reflection_read_spec(edgert_json *json, edgert_argument *out) {
  edgert_json_scope fields = {0, 0};
  edgert_text key;
  while (edgert_json_member(json, &fields, &key)) {
    if (edgert_text_equal(key, "name")) {
      edgert_json_decode(edgert_json_string(json), out->name, sizeof out->name);
    } else if (edgert_text_equal(key, "dtype")) {
      char name[16];
      edgert_json_decode(edgert_json_string(json), name, sizeof name);
      out->type = edgert_type_parse(name);
    } else if (edgert_text_equal(key, "shape")) {
      reflection_read_shape(json, out);
    } else {
      edgert_json_skip(json);
    }
  }
}

/* Whether edgec's signature tells of the argument. */
static int reflection_from_signature(const char *text, const char *list, size_t index,
                                     edgert_argument *out) {
  edgert_json json = edgert_json_begin(text, strlen(text));
  edgert_json_scope fields = {0, 0};
  edgert_text key;
  while (edgert_json_member(&json, &fields, &key)) {
    edgert_json_scope items = {0, 0};
    if (!edgert_text_equal(key, list)) {
      edgert_json_skip(&json);
      continue;
    }
    for (size_t i = 0; edgert_json_element(&json, &items); ++i) {
      if (i != index) {
        edgert_json_skip(&json);
        continue;
      }
      reflection_read_spec(&json, out);
      return !json.broken;
    }
    return 0;
  }
  return 0;
}

/* --- the compiler's declaration --------------------------------------------------------------- */

/* Behind the part that begins at `at`: at the `,` or bracket that ends it. */
static const char *reflection_part_end(const char *at) {
  int depth = 0, quoted = 0;
  for (; *at; ++at) {
    if (*at == '"') quoted = !quoted;
    if (quoted) continue;
    if (strchr("(<[{", *at)) ++depth;
    if (*at == '-' && at[1] == '>') ++at;
    else if (strchr(")>]}", *at) && --depth < 0) return at;
    if (*at == ',' && depth == 0) return at;
  }
  return at;
}

/* Where a word begins in a text; NULL: nowhere. The C library's `strstr` is several times as large in
 * WebAssembly. */
static const char *reflection_find(const char *at, const char *word) {
  size_t size = strlen(word);
  for (; *at; ++at)
    if (strncmp(at, word, size) == 0) return at;
  return NULL;
}

/* `2x?xf32>` into a shape and a type. */
static void reflection_read_type(const char *at, const char *end, edgert_argument *out) {
  while (at < end) {
    const char *start = at;
    int64_t size = EDGERT_DYNAMIC;
    if (*at == '?') {
      ++at;
    } else {
      size = 0;
      while (at < end && *at >= '0' && *at <= '9' && size < INT64_MAX / 20)
        size = size * 10 + (*at++ - '0');
    }
    if (at == start || at >= end || *at != 'x' || out->rank == EDGERT_MAX_RANK) {
      at = start;
      break;
    }
    out->shape[out->rank++] = size;
    ++at;
  }
  char name[16];
  size_t length = (size_t)(end - at);
  if (length >= sizeof name) return;
  memcpy(name, at, length);
  name[length] = 0;
  out->type = edgert_type_parse(name);
}

/* `sync func @f(%x: tensor<2xf32>, ...) -> (%y: tensor<2xf32> {iree.abi.encoding = ...})`. */
static void reflection_from_declaration(const char *text, int outputs, size_t index,
                                        edgert_argument *out) {
  const char *at = strchr(text, '(');
  if (!at) return;
  if (outputs) {
    const char *part = at + 1;
    for (part = reflection_part_end(part); *part == ','; part = reflection_part_end(part + 1)) {
    }
    at = reflection_find(part, "->");
    if (!at) return;
    at += 2;
    while (*at == ' ') ++at;
    if (*at == '(') ++at;
  } else {
    ++at;
  }
  for (size_t i = 0; i < index; ++i) {
    at = reflection_part_end(at);
    if (*at++ != ',') return;
  }
  const char *end = reflection_part_end(at);
  /* The last type of the part: the encoding's, which knows unsigned elements, if there is one. */
  const char *tensor = NULL;
  for (const char *found = at; (found = reflection_find(found, "tensor<")) && found < end; ++found)
    tensor = found + strlen("tensor<");
  if (!tensor || tensor >= end) return;
  const char *close = reflection_part_end(tensor);
  if (close <= end) reflection_read_type(tensor, close, out);
}

static edgert_status reflection_argument(const edgert_module *module, size_t function,
                                         size_t index, int outputs, edgert_argument *out,
                                         edgert_error *error) {
  memset(out, 0, sizeof *out);
  edgert_error_clear(error);
  edgert_codes codes = reflection_codes(module, function, outputs);
  if (index >= codes.count)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "there is no %s %u",
                       outputs ? "result" : "argument", (unsigned)index);
  const char *signature = edgert_module_attribute(module, function, REFLECTION_SIGNATURE);
  const char *declaration = edgert_module_attribute(module, function, REFLECTION_DECLARATION);
  int known =
      signature && reflection_from_signature(signature, outputs ? "outputs" : "inputs", index, out);
  if (!known) {
    memset(out, 0, sizeof *out);
    if (declaration) reflection_from_declaration(declaration, outputs, index, out);
  }
  out->kind = reflection_kind(codes.data[index]);
  return EDGERT_OK;
}

size_t edgert_module_input_count(const edgert_module *module, size_t function) {
  return reflection_codes(module, function, 0).count;
}

size_t edgert_module_output_count(const edgert_module *module, size_t function) {
  return reflection_codes(module, function, 1).count;
}

edgert_status edgert_module_input(const edgert_module *module, size_t function, size_t index,
                                  edgert_argument *out_argument, edgert_error *error) {
  return reflection_argument(module, function, index, 0, out_argument, error);
}

edgert_status edgert_module_output(const edgert_module *module, size_t function, size_t index,
                                   edgert_argument *out_argument, edgert_error *error) {
  return reflection_argument(module, function, index, 1, out_argument, error);
}
