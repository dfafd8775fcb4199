/* CUDA C++ for clang without NVIDIA's headers: what a kernel finds before its first line. */
#ifndef EDGEC_CUDA_H
#define EDGEC_CUDA_H

#include "language.h"

#include "device.h"
#include "lanes.h"
#include "exact.h"
#include "elementary.h"
#include "missing.h"

/* What C has under these names. */
EDGEC_SHORT void *memcpy(void *to, const void *from, size_t bytes) {
  return __builtin_memcpy(to, from, bytes);
}
EDGEC_SHORT void *memset(void *to, int with, size_t bytes) {
  return __builtin_memset(to, with, bytes);
}

#endif
