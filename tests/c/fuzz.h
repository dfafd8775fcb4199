/* What the parts of the fuzzer share. */
#ifndef EDGERT_FUZZ_H
#define EDGERT_FUZZ_H

#include "edgert/edgert.h"

/* No more than 64 MB at once. */
extern const edgert_allocator fuzz_allocator;

/* The query function of the kernels that are linked in. */
const void *fuzz_library(uint32_t max_version, const void *environment);

/* Any bytes as an executable for Vulkan, on a device that makes nothing of what it is given. */
void fuzz_vulkan(const uint8_t *data, size_t size);

/* Any bytes as an executable for CUDA, on a GPU that a library in place of NVIDIA's has. */
void fuzz_cuda(const uint8_t *data, size_t size);

/* Any bytes as the form of a language model's text, with which a few texts are read and written. */
void fuzz_text(const uint8_t *data, size_t size);

/* Any bytes as what a language model has read. */
void fuzz_saved(const uint8_t *data, size_t size);

/* Any bytes as a module, by way of the functions for Java; where Java's header is. */
void fuzz_jni(const uint8_t *data, size_t size);

#endif
