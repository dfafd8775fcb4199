/* A running function: its registers, and how instructions read and write them.
 *
 * The verifier has checked every register, so nothing here does. */
#ifndef EDGERT_FRAME_H
#define EDGERT_FRAME_H

#include "opcodes.h"
#include "session.h"

#define EDGERT_REGISTER_REF 0x8000u
#define EDGERT_REGISTER_MOVE 0x4000u
#define EDGERT_REGISTER_INDEX 0x3FFFu

/* A list of 16-bit entries in the code. */
typedef struct edgert_entries {
  const uint8_t *at;
  uint32_t count;
} edgert_entries;

/* Frames lie on the session's stack, and none on C's: a program that has to wait stays as it is. */
typedef struct edgert_frame {
  edgert_session *session;
  const edgert_function *function;
  const uint8_t *pc;
  uint32_t *words;
  edgert_object **refs;
  struct edgert_frame *caller; /* NULL: whoever called the session */
  edgert_entries targets;      /* the caller's registers for the results */
  edgert_stack_mark mark;      /* the stack without this frame */
} edgert_frame;

static inline uint32_t edgert_next_u8(edgert_frame *frame) { return *frame->pc++; }

static inline uint32_t edgert_next_u16(edgert_frame *frame) {
  frame->pc += 2;
  return edgert_load_u16(frame->pc - 2);
}

static inline uint32_t edgert_next_u32(edgert_frame *frame) {
  frame->pc += 4;
  return edgert_load_u32(frame->pc - 4);
}

static inline uint64_t edgert_next_u64(edgert_frame *frame) {
  frame->pc += 8;
  return edgert_load_u64(frame->pc - 8);
}

static inline edgert_entries edgert_next_entries(edgert_frame *frame, uint32_t width) {
  frame->pc += (uintptr_t)(frame->pc - frame->function->code) & 1;
  edgert_entries entries;
  entries.count = edgert_next_u16(frame);
  entries.at = frame->pc;
  frame->pc += (size_t)entries.count * width;
  return entries;
}

static inline uint32_t edgert_entry(edgert_entries entries, uint32_t index) {
  return edgert_load_u16(entries.at + 2 * (size_t)index);
}

/* The next operand: a register that is read. */
static inline uint32_t edgert_next_u32_value(edgert_frame *frame) {
  return frame->words[edgert_next_u16(frame)];
}

static inline int32_t edgert_next_i32_value(edgert_frame *frame) {
  return (int32_t)edgert_next_u32_value(frame);
}

static inline uint64_t edgert_next_u64_value(edgert_frame *frame) {
  return edgert_load_u64(frame->words + edgert_next_u16(frame));
}

static inline int64_t edgert_next_i64_value(edgert_frame *frame) {
  return (int64_t)edgert_next_u64_value(frame);
}

/* 64 bits where `wide`, else 32 with their sign. */
static inline uint64_t edgert_next_value(edgert_frame *frame, int wide) {
  const uint32_t *word = frame->words + edgert_next_u16(frame);
  return wide ? edgert_load_u64(word) : (uint64_t)(int32_t)*word;
}

static inline edgert_object *edgert_next_ref_value(edgert_frame *frame) {
  return frame->refs[edgert_next_u16(frame) & EDGERT_REGISTER_INDEX];
}

/* The next operand: a register that is written. */
static inline void edgert_next_set_u32(edgert_frame *frame, uint32_t value) {
  frame->words[edgert_next_u16(frame)] = value;
}

static inline void edgert_next_set_u64(edgert_frame *frame, uint64_t value) {
  memcpy(frame->words + edgert_next_u16(frame), &value, sizeof value);
}

/* All of `value` where `wide`, else its lower half. */
static inline void edgert_next_set(edgert_frame *frame, int wide, uint64_t value) {
  memcpy(frame->words + edgert_next_u16(frame), &value, wide ? 8 : 4);
}

/* Give a reference to a register, which drops what it held. */
static inline void edgert_frame_put(edgert_frame *frame, uint32_t name, edgert_object *owned) {
  edgert_object **place = &frame->refs[name & EDGERT_REGISTER_INDEX];
  edgert_object *old = *place;
  *place = owned;
  edgert_release(old);
}

static inline void edgert_next_set_ref(edgert_frame *frame, edgert_object *owned) {
  edgert_frame_put(frame, edgert_next_u16(frame), owned);
}

/* A reference of the caller's own from a register: moved out of it, or one more. */
static inline edgert_object *edgert_frame_take(edgert_frame *frame, uint32_t name) {
  edgert_object **place = &frame->refs[name & EDGERT_REGISTER_INDEX];
  edgert_object *object = *place;
  if (!(name & EDGERT_REGISTER_MOVE)) return edgert_retain(object);
  *place = NULL;
  return object;
}

/* What moves a value without looking into it: the same for integers and floats. */
typedef enum edgert_move {
  EDGERT_MOVE_GLOBAL_LOAD,
  EDGERT_MOVE_GLOBAL_STORE,
  EDGERT_MOVE_GLOBAL_LOAD_INDIRECT,
  EDGERT_MOVE_GLOBAL_STORE_INDIRECT,
  EDGERT_MOVE_ZERO,
  EDGERT_MOVE_CONST,
  EDGERT_MOVE_SELECT,
  EDGERT_MOVE_SWITCH,
  EDGERT_MOVE_BUFFER_LOAD,
  EDGERT_MOVE_BUFFER_STORE,
  EDGERT_MOVE_BUFFER_FILL
} edgert_move;

/* The rest of an instruction behind its code, by what it is about. `width` is in bytes. */
edgert_status edgert_frame_run_move(edgert_frame *frame, edgert_move move, uint32_t width,
                                    edgert_error *error);
edgert_status edgert_frame_run_integer(edgert_frame *frame, edgert_core_opcode code,
                                       edgert_error *error);
edgert_status edgert_frame_run_float(edgert_frame *frame, unsigned prefix, edgert_error *error);
edgert_status edgert_frame_run_object(edgert_frame *frame, edgert_core_opcode code,
                                      edgert_error *error);

/* Numbers of a type from lists and into them. */
edgert_status edgert_frame_list_get(edgert_frame *frame, edgert_slot_type type,
                                    edgert_error *error);
edgert_status edgert_frame_list_set(edgert_frame *frame, edgert_slot_type type,
                                    edgert_error *error);

/* Drop the references that a list of registers gives away. */
void edgert_frame_drop_moved(edgert_frame *frame, edgert_entries list);

#endif
