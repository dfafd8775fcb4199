/* The plugin's one door: the table of PJRT's functions. */
#include "plugin.h"

#define PJRT_NOTHING(name)
#define PJRT_REFUSE(name)                                                               \
  static pjrt_error *pjrt_lacks_##name(void *args) {                                    \
    (void)args;                                                                         \
    return pjrt_fail(PJRT_UNIMPLEMENTED, "edgec's PJRT plugin has no " #name);          \
  }
PJRT_FUNCTIONS(PJRT_NOTHING, PJRT_NOTHING, PJRT_REFUSE)

#define PJRT_ENTRY(name) [PJRT_AT_##name] = (void (*)(void))pjrt_##name,
#define PJRT_REFUSED(name) [PJRT_AT_##name] = (void (*)(void))pjrt_lacks_##name,

static const pjrt_api pjrt_table = {
    .size = sizeof(pjrt_api),
    .extensions = &pjrt_layouts_extension,
    .version = {.size = sizeof pjrt_table.version, .major = PJRT_MAJOR, .minor = PJRT_MINOR},
    .functions = {PJRT_FUNCTIONS(PJRT_ENTRY, PJRT_ENTRY, PJRT_REFUSED)},
};

/* What JAX and PyTorch/XLA look for. */
EDGERT_API const pjrt_api *GetPjrtApi(void);
const pjrt_api *GetPjrtApi(void) { return &pjrt_table; }

pjrt_error *pjrt_plugin_initialize(plugin_initialize_args *args) {
  (void)args;
  return NULL;
}

/* The newest StableHLO that edgec reads: the caller writes programs in no newer one. */
static const int64_t pjrt_stablehlo[] = {1, 17, 0};

pjrt_error *pjrt_plugin_attributes(plugin_attributes_args *args) {
  static const pjrt_named_value attributes[] = {
      {.size = sizeof(pjrt_named_value),
       .name = "stablehlo_current_version",
       .name_size = sizeof "stablehlo_current_version" - 1,
       .type = PJRT_INT64_LIST,
       .as = {.int64_list = pjrt_stablehlo},
       .value_size = 3},
  };
  args->attributes = attributes;
  args->num_attributes = sizeof attributes / sizeof *attributes;
  return NULL;
}

pjrt_error *pjrt_context_create(context_create_args *args) {
  args->context = (pjrt_context *)&pjrt_table; /* nothing to keep for a call */
  return NULL;
}

pjrt_error *pjrt_context_destroy(context_destroy_args *args) {
  (void)args;
  return NULL;
}
