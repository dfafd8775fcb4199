/* Conversations to prompts: what stands between two messages depends on who speaks in both. */
#include "text.h"

static uint32_t role_of(const edgert_tokenizer *self, const char *name) {
  size_t size = strlen(name);
  for (uint32_t i = 0; i < self->role_count; ++i)
    if (self->roles[i].name.size == size && memcmp(self->roles[i].name.data, name, size) == 0)
      return i;
  return TEXT_NONE;
}

/* What is said, without white space at both ends where the template leaves that out. */
static text_string said(const edgert_tokenizer *self, const text_role *role, const char *content) {
  text_string text = {(const uint8_t *)content, strlen(content)};
  if (!role->trimmed || self->trimmed == TEXT_NONE) return text;
  const text_class *space = &self->classes[self->trimmed];
  while (text.size && text_class_has(space, text_code(text.data))) {
    size_t width = text_width(*text.data);
    text.data += width;
    text.size -= width;
  }
  for (size_t at = text.size; at > 0; text.size = at) {
    do --at;
    while (at > 0 && (text.data[at] & 0xC0) == 0x80);
    if (!text_class_has(space, text_code(text.data + at))) break;
  }
  return text;
}

/* The prompt, behind what is there. */
static edgert_status put_together(const edgert_tokenizer *self, const edgert_text_message *messages,
                                  size_t count, text_array *out, edgert_error *error) {
  uint32_t sides = self->role_count + 1, from = 0;
  edgert_status status = EDGERT_OK;
  for (size_t i = 0; i <= count && status == EDGERT_OK; ++i) {
    uint32_t to = i == count ? self->role_count : role_of(self, messages[i].role);
    if (to == TEXT_NONE)
      return text_fail_at(error, EDGERT_INVALID_ARGUMENT, "message ", i,
                          " is of a role that the chat template does not know");
    const text_glue *glue = &self->glue[from * sides + to];
    if (!glue->known)
      return text_fail_at(error, EDGERT_INVALID_ARGUMENT,
                          "the chat template does not take this conversation at message ", i,
                          ": let user and assistant take turns");
    status = text_bytes_add(&self->allocator, out, glue->text.data, glue->text.size, error);
    if (i == count || status != EDGERT_OK) break;
    size_t size = strlen(messages[i].content);
    if (text_valid((const uint8_t *)messages[i].content, size) < size)
      return text_fail_at(error, EDGERT_INVALID_ARGUMENT, "message ", i, " is no UTF-8");
    text_string content = said(self, &self->roles[to], messages[i].content);
    status = text_bytes_add(&self->allocator, out, content.data, content.size, error);
    from = to + 1;
  }
  if (status == EDGERT_OK) status = text_bytes_add(&self->allocator, out, "", 1, error);
  return status;
}

edgert_status edgert_tokenizer_prompt(const edgert_tokenizer *self,
                                      const edgert_text_message *messages, size_t count,
                                      char **out_text, size_t *out_size, edgert_error *error) {
  text_array out = {0};
  *out_text = NULL;
  *out_size = 0;
  if (self->role_count == 0) {
    char sentence[sizeof error->message];
    size_t size = self->refusal.size < sizeof sentence ? self->refusal.size : sizeof sentence - 1;
    if (size) memcpy(sentence, self->refusal.data, size);
    sentence[size] = 0;
    return text_fail(error, EDGERT_UNSUPPORTED, sentence);
  }
  edgert_status status = put_together(self, messages, count, &out, error);
  if (status == EDGERT_OK) {
    *out_text = out.data;
    *out_size = out.count - 1;
  } else {
    text_deallocate(&self->allocator, out.data);
  }
  return status;
}
