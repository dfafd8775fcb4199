#include "seal.h"

#if EDGERT_WITH_SIGNATURES

#include "weights.h"

/* From the end of a sealed file: the magic, the signature, which key it is of, what is signed, and
 * before it the hashes of the weights' pages. */
enum { SEAL_MAGIC = 8, SEAL_KEY_NAME = 8, SEAL_STATEMENT = 192 };
enum { SEAL_SIZE = SEAL_STATEMENT + SEAL_KEY_NAME + EDGERT_SIGNATURE_SIZE + SEAL_MAGIC };

/* In what is signed. */
enum { SEAL_TEXT = 32, SEAL_CONTENT_SIZE = 32, SEAL_WEIGHTS_SIZE = 40, SEAL_PAGE_BITS = 48 };
enum { SEAL_CONTENT = 64, SEAL_ROOT = 128 };
enum { SEAL_MIN_PAGE_BITS = 16, SEAL_MAX_PAGE_BITS = 40, SEAL_MAX_PAGES = 1024 };

static edgert_status seal_refuse(edgert_error *error, const char *what) {
  (void)what;
  return EDGERT_FAIL(error, EDGERT_UNTRUSTED, "not trusted: %s", what);
}

/* "edgec seal 1 " and what it is of: what one is signed for is no other's. */
static void seal_text(const char *kind, uint8_t out[SEAL_TEXT]) {
  static const char begin[] = "edgec seal 1 ";
  size_t size = strlen(kind), at = sizeof begin - 1;
  memset(out, 0, SEAL_TEXT);
  memcpy(out, begin, at);
  memcpy(out + at, kind, size < SEAL_TEXT - at ? size : SEAL_TEXT - at);
}

/* The hash of bytes, for this use and no other. */
static void seal_hash(const char *use, const void *data, size_t size,
                      uint8_t out[EDGERT_HASH_SIZE]) {
  uint8_t text[SEAL_TEXT];
  seal_text(use, text);
  edgert_hash(text, sizeof text, data, size, out);
}

/* What is signed says of weights what can be, and the hashes of their pages are those it means. */
static edgert_status seal_read_weights(const uint8_t *statement, const uint8_t *leaves,
                                       size_t leaves_size, edgert_sealed_weights *out,
                                       edgert_error *error) {
  uint64_t size = edgert_load_u64(statement + SEAL_WEIGHTS_SIZE);
  uint32_t bits = edgert_load_u32(statement + SEAL_PAGE_BITS);
  *out = (edgert_sealed_weights){.size = size, .page_bits = bits, .leaves = leaves};
  uint64_t count = 0;
  if (size) {
    if (bits < SEAL_MIN_PAGE_BITS || bits > SEAL_MAX_PAGE_BITS || size > UINT64_MAX >> 1)
      return seal_refuse(error, "its seal is of another version");
    count = (size + ((uint64_t)1 << bits) - 1) >> bits;
  }
  if (count > SEAL_MAX_PAGES || count * EDGERT_LEAF_SIZE != leaves_size)
    return seal_refuse(error, "its seal is cut short");
  out->page_count = (size_t)count;
  if (!size) return EDGERT_OK;
  uint8_t root[EDGERT_HASH_SIZE];
  seal_hash("pages", leaves, leaves_size, root);
  if (memcmp(root, statement + SEAL_ROOT, sizeof root) == 0) return EDGERT_OK;
  return seal_refuse(error, "the hashes of its weights have changed since it was signed");
}

edgert_status edgert_seal_open(const uint8_t *data, size_t size, const char *kind,
                               const uint8_t key[EDGERT_KEY_SIZE], size_t *out_content_size,
                               edgert_sealed_weights *out_weights, edgert_error *error) {
  *out_content_size = 0;
  *out_weights = (edgert_sealed_weights){.size = 0};
  if (size < SEAL_SIZE || memcmp(data + size - SEAL_MAGIC, "edgeseal", SEAL_MAGIC) != 0)
    return seal_refuse(error, "it is not signed, or its end is missing");
  const uint8_t *statement = data + size - SEAL_SIZE;
  const uint8_t *name = statement + SEAL_STATEMENT;
  const uint8_t *signature = name + SEAL_KEY_NAME;
  uint8_t hash[EDGERT_HASH_SIZE], text[SEAL_TEXT];
  edgert_hash(key, EDGERT_KEY_SIZE, "", 0, hash);
  if (memcmp(hash, name, SEAL_KEY_NAME) != 0) return seal_refuse(error, "another key signed it");
  if (!edgert_signature_is_right(signature, key, statement, SEAL_STATEMENT))
    return seal_refuse(error, "its seal has changed since it was signed");
  seal_text(kind, text);
  if (memcmp(text, statement, sizeof text) != 0)
    return seal_refuse(error, "the signature is for something else");
  uint64_t content = edgert_load_u64(statement + SEAL_CONTENT_SIZE);
  if (content > size - SEAL_SIZE) return seal_refuse(error, "it is cut short");
  edgert_hash(data, (size_t)content, "", 0, hash);
  if (memcmp(hash, statement + SEAL_CONTENT, sizeof hash) != 0)
    return seal_refuse(error, "it has changed since it was signed");
  *out_content_size = (size_t)content;
  return seal_read_weights(statement, data + content, size - SEAL_SIZE - (size_t)content,
                           out_weights, error);
}

/* --- pages of weights ------------------------------------------------------------------------- */

struct edgert_pages {
  edgert_object object;
  edgert_weights *weights;
  uint64_t size;
  uint32_t bits;
  size_t count;
  atomic_uchar *are_right; /* of each page, whether it was compared */
  uint8_t leaves[];
};

void edgert_pages_destroy(edgert_object *object) {
  edgert_pages *self = (edgert_pages *)object;
  edgert_deallocate(&object->allocator, (void *)self->are_right);
  edgert_release(self->weights);
}

edgert_status edgert_pages_create(const edgert_allocator *allocator,
                                  const edgert_sealed_weights *sealed, edgert_weights *weights,
                                  edgert_pages **out, edgert_error *error) {
  *out = NULL;
  if (weights->bytes.size != sealed->size)
    return seal_refuse(error, sealed->size ? "the weights are not those that were signed with it"
                                           : "the signature is of no weights");
  size_t leaves_size = sealed->page_count * EDGERT_LEAF_SIZE;
  void *made, *marks;
  edgert_status status =
      edgert_object_create(allocator, EDGERT_KIND_PAGES, sizeof **out + leaves_size, &made, error);
  if (status != EDGERT_OK) return status;
  edgert_pages *self = made;
  self->weights = edgert_retain(weights);
  self->size = sealed->size;
  self->bits = sealed->page_bits;
  self->count = sealed->page_count;
  memcpy(self->leaves, sealed->leaves, leaves_size);
  status = edgert_allocate_array(allocator, self->count, sizeof *self->are_right, &marks, error);
  self->are_right = status == EDGERT_OK ? marks : NULL;
  if (status == EDGERT_OK) status = edgert_pages_check(self, 0, weights->head_size, error);
  if (status == EDGERT_OK)
    *out = self;
  else
    edgert_release(self);
  return status;
}

/* The bytes of a page, in `*piece` where a reader gives them. */
static edgert_status pages_look(edgert_pages *self, uint64_t at, size_t size, void **piece,
                                const uint8_t **out, edgert_error *error) {
  edgert_weights *weights = self->weights;
  *out = (const uint8_t *)weights->bytes.data + at;
  if (!edgert_weights_are_read(weights)) return EDGERT_OK;
  edgert_status status = EDGERT_OK;
  if (!*piece)
    status = edgert_allocate(&self->object.allocator, (size_t)1 << self->bits, EDGERT_ALIGNMENT,
                             piece, error);
  if (status != EDGERT_OK) return status;
  *out = *piece;
  if (weights->reader.read(weights->reader.user, at, *piece, size)) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_IO, "the weights cannot be read");
}

edgert_status edgert_pages_check(edgert_pages *self, uint64_t offset, uint64_t size,
                                 edgert_error *error) {
  if (!self || !size) return EDGERT_OK;
  if (!edgert_in_range(offset, size, self->size))
    return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "a weight lies outside of its file");
  edgert_status status = EDGERT_OK;
  void *piece = NULL;
  for (uint64_t i = offset >> self->bits;
       status == EDGERT_OK && i <= (offset + size - 1) >> self->bits; ++i) {
    if (atomic_load_explicit(&self->are_right[i], memory_order_relaxed)) continue;
    uint64_t at = i << self->bits;
    uint64_t length = self->size - at;
    if (length >> self->bits) length = (uint64_t)1 << self->bits;
    const uint8_t *data;
    uint8_t hash[EDGERT_HASH_SIZE];
    status = pages_look(self, at, (size_t)length, &piece, &data, error);
    if (status != EDGERT_OK) break;
    seal_hash("page", data, (size_t)length, hash);
    if (memcmp(hash, self->leaves + i * EDGERT_LEAF_SIZE, EDGERT_LEAF_SIZE) != 0)
      status = seal_refuse(error, "its weights have changed since they were signed");
    else
      atomic_store_explicit(&self->are_right[i], 1, memory_order_relaxed);
  }
  edgert_deallocate(&self->object.allocator, piece);
  return status;
}

edgert_status edgert_seal_check(const void *data, size_t data_size, const char *kind,
                                const uint8_t *key, size_t *out_content_size,
                                edgert_error *error) {
  edgert_error_clear(error);
  edgert_sealed_weights weights;
  return edgert_seal_open(data, data_size, kind, key, out_content_size, &weights, error);
}

#else

edgert_status edgert_seal_check(const void *data, size_t data_size, const char *kind,
                                const uint8_t *key, size_t *out_content_size,
                                edgert_error *error) {
  (void)data, (void)data_size, (void)kind, (void)key;
  *out_content_size = 0;
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                     "this edgert checks no signatures (EDGERT_WITH_SIGNATURES)");
}

#endif
