/* What a compile is told of devices, and options of the user's, read out of PJRT's serialised `CompileOptionsProto`. */
#ifndef EDGEC_PJRT_OPTIONS_H
#define EDGEC_PJRT_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef struct pjrt_placement {
  uint64_t replicas;   /* copies of the program that run side by side */
  uint64_t partitions; /* devices that one copy is spread over */
  int64_t device;      /* -1: any */
  int is_damaged;
  const char *unknown; /* an option of the user's that is not XLA's own, in `options`; or NULL */
  size_t unknown_size;
} pjrt_placement;

pjrt_placement pjrt_placement_read(const char *options, size_t size);

#endif
