/* What a compile is told of devices, and options of the user's, read out of PJRT's serialised `CompileOptionsProto`. */
#ifndef EDGEC_PJRT_OPTIONS_H
#define EDGEC_PJRT_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#define PJRT_PLACEMENT_MAX 64

typedef struct pjrt_placement {
  uint64_t replicas;   /* copies of the program that run side by side */
  uint64_t partitions; /* devices that one copy is spread over */
  size_t device_count; /* that are named: the first copy's, in its order; 0: any */
  int64_t devices[PJRT_PLACEMENT_MAX];
  int is_damaged;
  const char *unknown; /* an option of the user's that is not XLA's own, in `options`; or NULL */
  size_t unknown_size;
} pjrt_placement;

pjrt_placement pjrt_placement_read(const char *options, size_t size);

#endif
