/* A module file: its container followed to plain arrays, every part of it checked. */
#ifndef EDGERT_MODULE_H
#define EDGERT_MODULE_H

#include "convention.h"
#include "flatbuffer.h"
#include "list.h"
#include "platform.h"
#include "seal.h"

/* Needs of a module or function: what its code uses. */
enum {
  EDGERT_NEEDS_F32 = 1,
  EDGERT_NEEDS_F64 = 2,
  EDGERT_NEEDS_YIELD = 4,
  EDGERT_NEEDS_UNWIND = 8,
  EDGERT_NEEDS_KNOWN = 15
};

typedef struct edgert_function {
  const uint8_t *code;
  uint32_t size;
  uint32_t block_count;
  uint32_t word_count;
  uint32_t ref_count;
  edgert_convention convention;
} edgert_function;

typedef struct edgert_import {
  edgert_text name; /* with its module: `hal.fence.create` */
  edgert_text text; /* the convention as written */
  edgert_convention convention;
  int optional;
} edgert_import;

typedef struct edgert_export {
  const char *name;
  uint32_t function;
  const char *overwritten; /* `1` for each argument that it writes to, or NULL */
} edgert_export;

typedef struct edgert_rodata {
  const uint8_t *data;
  size_t size;
} edgert_rodata;

struct edgert_module {
  edgert_object object;
  edgert_mapping mapping; /* of a file, or a copy of the caller's bytes */
  void *tables; /* of a mapped file: a copy of all but its constants, or NULL */
  void (*release)(void *user);
  void *user;
  uint32_t check; /* as in the options */
  uint64_t max_bytes;
  int (*accept)(void *user, const void *data, size_t size);
  void *accept_user;
  const uint8_t *key;
#if EDGERT_WITH_SIGNATURES
  int is_trusted; /* it was signed by the key */
  edgert_sealed_weights sealed;
  void *leaves;
#endif
  uint64_t checksums; /* of those in the file: another file has other ones; 0 where it has none */
  edgert_flatbuffer flatbuffer;
  const char *name;
  edgert_type *types;
  uint32_t type_count;
  edgert_import *imports;
  uint32_t import_count;
  edgert_export *exports; /* those that can be called: without `__init` and `__deinit` */
  uint32_t export_count;
  int64_t init; /* the function `__init`, or -1 */
  int64_t deinit;
  edgert_function *functions;
  uint32_t function_count;
  edgert_rodata *rodata;
  uint32_t rodata_count;
  edgert_vector signatures;
  edgert_text bytecode;
  uint32_t global_bytes;
  uint32_t global_refs;
};


/* Whether every function's code keeps the invariants that the interpreter relies on. */
edgert_status edgert_module_verify(const edgert_module *self, edgert_error *error);

#endif
