/* What a compile is told of devices, read out of PJRT's serialised `CompileOptionsProto`. */
#ifndef EDGEC_PJRT_OPTIONS_H
#define EDGEC_PJRT_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef struct pjrt_placement {
  uint64_t replicas;   /* copies of the program that run side by side */
  uint64_t partitions; /* devices that one copy is spread over */
  int64_t device;      /* -1: any */
  int is_damaged;
} pjrt_placement;

pjrt_placement pjrt_placement_read(const char *options, size_t size);

#endif
