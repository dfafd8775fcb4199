/* Types of elements: PJRT's and edgert's. */
#include "plugin.h"

static const struct {
  pjrt_type pjrt;
  uint32_t edgert;
} pjrt_types[] = {
    {PJRT_PRED, EDGERT_BOOL}, {PJRT_S8, EDGERT_I8},   {PJRT_S16, EDGERT_I16},
    {PJRT_S32, EDGERT_I32},   {PJRT_S64, EDGERT_I64}, {PJRT_U8, EDGERT_U8},
    {PJRT_U16, EDGERT_U16},   {PJRT_U32, EDGERT_U32}, {PJRT_U64, EDGERT_U64},
    {PJRT_F16, EDGERT_F16},   {PJRT_F32, EDGERT_F32}, {PJRT_F64, EDGERT_F64},
    {PJRT_BF16, EDGERT_BF16}, {PJRT_C64, EDGERT_C64}, {PJRT_C128, EDGERT_C128},
    /* Narrow integers are in bytes of their own, on the host and on devices; programs convert. */
    {PJRT_S4, EDGERT_I8},     {PJRT_U4, EDGERT_U8},   {PJRT_S2, EDGERT_I8},
    {PJRT_U2, EDGERT_U8},
};

#define PJRT_TYPE_COUNT (sizeof pjrt_types / sizeof *pjrt_types)

uint32_t pjrt_type_to_edgert(pjrt_type type) {
  for (size_t i = 0; i < PJRT_TYPE_COUNT; ++i)
    if (pjrt_types[i].pjrt == type) return pjrt_types[i].edgert;
  return 0;
}

pjrt_type pjrt_type_of_edgert(uint32_t type) {
  for (size_t i = 0; i < PJRT_TYPE_COUNT; ++i)
    if (pjrt_types[i].edgert == type) return pjrt_types[i].pjrt;
  return PJRT_INVALID;
}

size_t pjrt_type_bytes(pjrt_type type) { return (pjrt_type_to_edgert(type) & 0xffu) / 8; }
