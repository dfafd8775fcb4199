#include "list.h"

#define LIST_MAX_HINT 4096

/* Drop the elements from `from` on. Lists that only this one holds are put before `dying` instead
 * of being released here, since chains of lists may be longer than the C stack. */
static edgert_list *list_drop(edgert_list *self, size_t from, edgert_list *dying) {
  for (size_t i = from; i < self->count; ++i) {
    if (self->slots[i].type != EDGERT_SLOT_REF) continue;
    edgert_object *ref = self->slots[i].as.ref;
    edgert_list *child = edgert_object_as(ref, EDGERT_KIND_LIST);
    if (child && atomic_load_explicit(&ref->references, memory_order_acquire) == 1) {
      child->dying = dying;
      dying = child;
    } else {
      edgert_release(ref);
    }
  }
  self->count = from;
  return dying;
}

static void list_clear(edgert_list *self, size_t from) {
  edgert_list *dying = list_drop(self, from, NULL);
  while (dying) {
    edgert_list *list = dying;
    dying = list_drop(list, 0, list->dying);
    edgert_release(list);
  }
}

void edgert_list_destroy(edgert_object *object) {
  edgert_list *self = (edgert_list *)object;
  list_clear(self, 0);
  if (self->next) self->next->previous = self->previous;
  if (self->previous)
    self->previous->next = self->next;
  else
    self->all->first = self->next;
  edgert_deallocate(&object->allocator, self->slots);
}

void edgert_lists_clear(edgert_lists *self) {
  edgert_list *list = edgert_retain(self->first);
  while (list) {
    list_clear(list, 0); /* may end any list but this one, which is held here */
    edgert_list *next = edgert_retain(list->next);
    edgert_release(list);
    list = next;
  }
}

int edgert_type_accepts(const edgert_type *type, edgert_object *object) {
  if (!object) return 1;
  if (type->slot == EDGERT_SLOT_EMPTY) return 1;
  if (type->slot != EDGERT_SLOT_REF || !type->known) return 0;
  return !type->kind || type->kind == object->kind;
}

edgert_status edgert_list_create(const edgert_allocator *allocator, edgert_lists *all,
                                 edgert_type type, uint32_t capacity, edgert_list **out,
                                 edgert_error *error) {
  *out = NULL;
  void *made;
  edgert_status status =
      edgert_object_create(allocator, EDGERT_KIND_LIST, sizeof **out, &made, error);
  if (status != EDGERT_OK) return status;
  edgert_list *self = made;
  self->type = type;
  self->all = all;
  self->next = all->first;
  if (self->next) self->next->previous = self;
  all->first = self;
  status = edgert_list_reserve(self, capacity, error);
  if (status != EDGERT_OK)
    edgert_release(self);
  else
    *out = self;
  return status;
}

static edgert_status list_grow(edgert_list *self, uint32_t count, edgert_error *error) {
  void *slots = self->slots;
  edgert_status status = edgert_grow(&self->object.allocator, &slots, self->count, &self->capacity,
                                     count, sizeof *self->slots, error);
  self->slots = slots;
  return status;
}

edgert_status edgert_list_reserve(edgert_list *self, uint32_t capacity, edgert_error *error) {
  return list_grow(self, capacity < LIST_MAX_HINT ? capacity : LIST_MAX_HINT, error);
}

/* What a slot holds before anything is put there. */
static edgert_slot list_blank(const edgert_list *self) {
  edgert_slot blank;
  memset(&blank, 0, sizeof blank);
  blank.type = self->type.slot;
  return blank;
}

edgert_status edgert_list_resize(edgert_list *self, uint32_t count, edgert_error *error) {
  if (count < self->count) {
    list_clear(self, count);
    return EDGERT_OK;
  }
  edgert_status status = list_grow(self, count, error);
  if (status != EDGERT_OK) return status;
  for (size_t i = self->count; i < count; ++i) self->slots[i] = list_blank(self);
  self->count = count;
  return EDGERT_OK;
}

static edgert_status list_check(const edgert_list *self, uint32_t index, edgert_error *error) {
  if (index < self->count) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "the program asks a list of %u for element %u",
                     (unsigned)self->count, (unsigned)index);
}

static int list_is_integer(edgert_slot_type type) {
  return type >= EDGERT_SLOT_I8 && type <= EDGERT_SLOT_I64;
}

static edgert_slot list_convert(edgert_slot value, edgert_slot_type type) {
  if (value.type == type) return value;
  edgert_slot result;
  memset(&result, 0, sizeof result);
  result.type = type;
  if (list_is_integer(value.type) && list_is_integer(type)) {
    switch (type) {
      case EDGERT_SLOT_I8:
        result.as.i = (int8_t)value.as.i;
        break;
      case EDGERT_SLOT_I16:
        result.as.i = (int16_t)value.as.i;
        break;
      case EDGERT_SLOT_I32:
        result.as.i = (int32_t)value.as.i;
        break;
      default:
        result.as.i = value.as.i;
    }
  } else if (value.type == EDGERT_SLOT_F32 && type == EDGERT_SLOT_F64) {
    result.as.f64 = (double)value.as.f32;
  } else if (value.type == EDGERT_SLOT_F64 && type == EDGERT_SLOT_F32) {
    result.as.f32 = (float)value.as.f64;
  }
  return result;
}

edgert_status edgert_list_get(edgert_list *self, uint32_t index, edgert_slot *out,
                              edgert_error *error) {
  edgert_status status = list_check(self, index, error);
  if (status != EDGERT_OK) return status;
  const edgert_slot *slot = &self->slots[index];
  if (slot->type == EDGERT_SLOT_REF || slot->type == EDGERT_SLOT_EMPTY)
    return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "element %u of a list is no number",
                       (unsigned)index);
  *out = list_convert(*slot, out->type);
  return EDGERT_OK;
}

edgert_status edgert_list_set(edgert_list *self, uint32_t index, edgert_slot value,
                              edgert_error *error) {
  edgert_status status = list_check(self, index, error);
  if (status != EDGERT_OK) return status;
  if (self->type.slot == EDGERT_SLOT_REF)
    return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "a list of references takes no number");
  edgert_slot *slot = &self->slots[index];
  if (slot->type == EDGERT_SLOT_REF) edgert_release(slot->as.ref);
  *slot = self->type.slot == EDGERT_SLOT_EMPTY ? value : list_convert(value, self->type.slot);
  return EDGERT_OK;
}

edgert_status edgert_list_get_ref(edgert_list *self, uint32_t index, edgert_object **out,
                                  edgert_error *error) {
  *out = NULL;
  edgert_status status = list_check(self, index, error);
  if (status != EDGERT_OK) return status;
  const edgert_slot *slot = &self->slots[index];
  if (slot->type == EDGERT_SLOT_REF)
    *out = slot->as.ref;
  else if (slot->type != EDGERT_SLOT_EMPTY)
    return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "element %u of a list is no reference",
                       (unsigned)index);
  return EDGERT_OK;
}

edgert_status edgert_list_set_ref(edgert_list *self, uint32_t index, edgert_object *ref,
                                  edgert_error *error) {
  edgert_status status = list_check(self, index, error);
  if (status == EDGERT_OK && !edgert_type_accepts(&self->type, ref))
    status = EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "a list takes no %s", edgert_kind_name(ref->kind));
  if (status == EDGERT_OK && self->type.slot != EDGERT_SLOT_REF &&
      self->type.slot != EDGERT_SLOT_EMPTY)
    status =
        EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "a list of numbers takes no reference");
  if (status != EDGERT_OK) {
    edgert_release(ref);
    return status;
  }
  edgert_slot *slot = &self->slots[index];
  edgert_object *old = slot->type == EDGERT_SLOT_REF ? slot->as.ref : NULL;
  slot->type = EDGERT_SLOT_REF;
  slot->as.ref = ref;
  edgert_release(old);
  return EDGERT_OK;
}
