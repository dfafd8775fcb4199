/* `vm.list`: a list that programs grow, of numbers, of references or of anything. */
#ifndef EDGERT_LIST_H
#define EDGERT_LIST_H

#include "object.h"

/* What a slot of a list or an entry of a module's type table is. */
typedef enum edgert_slot_type {
  EDGERT_SLOT_EMPTY = 0, /* nothing yet; as the type of a list: anything */
  EDGERT_SLOT_I8,
  EDGERT_SLOT_I16,
  EDGERT_SLOT_I32,
  EDGERT_SLOT_I64,
  EDGERT_SLOT_F32,
  EDGERT_SLOT_F64,
  EDGERT_SLOT_REF
} edgert_slot_type;

typedef struct edgert_slot {
  edgert_slot_type type;
  union {
    int64_t i; /* of every integer type, sign-extended */
    float f32;
    double f64;
    edgert_object *ref;
  } as;
} edgert_slot;

/* An entry of a module's type table. */
typedef struct edgert_type {
  edgert_slot_type slot;   /* EMPTY: anything */
  edgert_kind kind; /* of references */
  int known;               /* whether `kind` is one of ours; nothing but null is of an unknown one */
} edgert_type;

/* Whether a reference (NULL always) is of that type. */
int edgert_type_accepts(const edgert_type *type, edgert_object *object);

typedef struct edgert_list edgert_list;

/* All lists of a session. Lists that hold each other would live for ever; their session ends
 * them. Only the session's own thread touches them. */
typedef struct edgert_lists {
  edgert_list *first;
} edgert_lists;

struct edgert_list {
  edgert_object object;
  edgert_type type;
  edgert_slot *slots;
  size_t count;
  size_t capacity;
  edgert_lists *all;
  edgert_list *next;
  edgert_list *previous;
  edgert_list *dying; /* the next one that is being taken apart */
};

/* Empty all lists, so that those which only hold each other go. */
void edgert_lists_clear(edgert_lists *self);

edgert_status edgert_list_create(const edgert_allocator *allocator, edgert_lists *all,
                                 edgert_type type, uint32_t capacity, edgert_list **out,
                                 edgert_error *error);

/* `capacity` is a hint. */
edgert_status edgert_list_reserve(edgert_list *self, uint32_t capacity, edgert_error *error);
edgert_status edgert_list_resize(edgert_list *self, uint32_t count, edgert_error *error);

/* A number in the type that `out->type` or the list asks for; integers are cut or extended, floats
 * converted, anything else is 0. */
edgert_status edgert_list_get(edgert_list *self, uint32_t index, edgert_slot *out,
                              edgert_error *error);
edgert_status edgert_list_set(edgert_list *self, uint32_t index, edgert_slot value,
                              edgert_error *error);

/* A reference, which stays the list's own. */
edgert_status edgert_list_get_ref(edgert_list *self, uint32_t index, edgert_object **out,
                                  edgert_error *error);

/* Put a reference in; the list takes over the caller's, also where this fails. */
edgert_status edgert_list_set_ref(edgert_list *self, uint32_t index, edgert_object *ref,
                                  edgert_error *error);

#endif
