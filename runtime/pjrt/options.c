/* Just enough of Protocol Buffers: numbers and messages by their fields' numbers. */
#include <string.h>

#include "options.h"

/* Fields of xla/pjrt/proto/compile_options.proto, and of DeviceAssignmentProto. */
enum {
  OPTIONS_BUILD = 3,
  OPTIONS_OVERRIDES = 7,
  OVERRIDE_KEY = 1,
  BUILD_DEVICE_ORDINAL = 1,
  BUILD_REPLICAS = 4,
  BUILD_PARTITIONS = 5,
  BUILD_ASSIGNMENT = 9,
  ASSIGNMENT_COMPUTATION = 3,
  COMPUTATION_DEVICES = 1
};

typedef struct proto {
  const unsigned char *at, *end;
  int broken;
} proto;

typedef struct proto_field {
  uint64_t number;
  uint64_t value; /* where it is a number */
  proto message;  /* where it is bytes */
  int is_bytes;
} proto_field;

static uint64_t proto_varint(proto *self) {
  uint64_t value = 0;
  for (unsigned shift = 0; self->at < self->end && shift < 64; shift += 7) {
    unsigned char byte = *self->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
  self->broken = 1;
  return 0;
}

static int proto_skip(proto *self, uint64_t count) {
  if (count > (uint64_t)(self->end - self->at)) {
    self->broken = 1;
    return 0;
  }
  self->at += count;
  return 1;
}

/* The next field; 0 behind the last. */
static int proto_next(proto *self, proto_field *out) {
  if (self->broken || self->at >= self->end) return 0;
  uint64_t tag = proto_varint(self);
  *out = (proto_field){.number = tag >> 3};
  switch (tag & 7) {
    case 0:
      out->value = proto_varint(self);
      break;
    case 1:
      proto_skip(self, 8);
      break;
    case 2: {
      uint64_t size = proto_varint(self);
      const unsigned char *start = self->at;
      out->is_bytes = 1;
      if (!self->broken && proto_skip(self, size)) out->message = (proto){start, self->at, 0};
      break;
    }
    case 5:
      proto_skip(self, 4);
      break;
    default:
      self->broken = 1;
  }
  return !self->broken;
}

/* The device of the first copy; others' come behind it. */
static void read_computation(proto self, pjrt_placement *out) {
  proto_field field;
  int is_named = 0;
  while (proto_next(&self, &field)) {
    if (field.number != COMPUTATION_DEVICES || is_named) continue;
    is_named = 1;
    if (out->device_count == PJRT_PLACEMENT_MAX) {
      out->is_damaged = 1;
      return;
    }
    out->devices[out->device_count++] =
        (int64_t)(field.is_bytes ? proto_varint(&field.message) : field.value);
  }
  out->is_damaged |= self.broken;
}

static void read_assignment(proto self, pjrt_placement *out) {
  proto_field field;
  while (proto_next(&self, &field))
    if (field.number == ASSIGNMENT_COMPUTATION && field.is_bytes)
      read_computation(field.message, out);
  out->is_damaged |= self.broken;
}

static void read_build(proto self, pjrt_placement *out) {
  proto_field field;
  int64_t ordinal = -1;
  while (proto_next(&self, &field)) {
    if (field.number == BUILD_REPLICAS) out->replicas = field.value;
    if (field.number == BUILD_PARTITIONS) out->partitions = field.value;
    if (field.number == BUILD_DEVICE_ORDINAL) ordinal = (int64_t)field.value;
    if (field.number == BUILD_ASSIGNMENT && field.is_bytes) read_assignment(field.message, out);
  }
  if (!out->device_count && ordinal >= 0) {
    out->devices[0] = ordinal;
    out->device_count = 1;
  }
  out->is_damaged |= self.broken;
}

/* XLA's own options change nothing of what is computed, and nothing here; others are mistakes. */
static void read_override(proto self, pjrt_placement *out) {
  proto_field field;
  while (proto_next(&self, &field)) {
    if (field.number != OVERRIDE_KEY || !field.is_bytes || out->unknown) continue;
    size_t size = (size_t)(field.message.end - field.message.at);
    if (size >= 4 && !memcmp(field.message.at, "xla_", 4)) continue;
    out->unknown = (const char *)field.message.at;
    out->unknown_size = size;
  }
  out->is_damaged |= self.broken;
}

pjrt_placement pjrt_placement_read(const char *options, size_t size) {
  pjrt_placement placement = {.replicas = 1, .partitions = 1};
  const unsigned char *start = (const unsigned char *)options;
  proto self = {start, start + size, 0};
  proto_field field;
  while (proto_next(&self, &field)) {
    if (field.number == OPTIONS_BUILD && field.is_bytes) read_build(field.message, &placement);
    if (field.number == OPTIONS_OVERRIDES && field.is_bytes)
      read_override(field.message, &placement);
  }
  placement.is_damaged |= self.broken;
  return placement;
}
