/* A language model in a session: prompts in chunks, tokens one by one, and what was read already. */
#include "model.h"

static const char attribute[] = "edgec.text.form";

edgert_status edgert_tokenizer_open(const edgert_module *module, const edgert_allocator *allocator,
                                    edgert_tokenizer **out_tokenizer, edgert_error *error) {
  *out_tokenizer = NULL;
  const char *text = edgert_module_attribute(module, SIZE_MAX, attribute);
  if (text) return edgert_tokenizer_parse(text, strlen(text), allocator, out_tokenizer, error);
  return edgert_module_attribute(module, SIZE_MAX, "edgec.text")
             ? text_fail(error, EDGERT_NOT_FOUND, "the module was compiled before apps could read "
                                                  "its text: compile it again")
             : text_fail(error, EDGERT_NOT_FOUND, "the module holds no language model");
}

/* A function by its name, if it takes and gives so many; "prefill_" and a size where that is not 0. */
static edgert_status model_find(edgert_text_model *self, const char *name, uint32_t size, size_t takes,
                          size_t *out_function, edgert_error *error) {
  char whole[24];
  size_t length = strlen(name);
  memcpy(whole, name, length + 1);
  if (size) {
    size_t digits = 1;
    for (uint32_t rest = size; rest >= 10; rest /= 10) ++digits;
    whole[length + digits] = 0;
    for (uint32_t rest = size; digits > 0; rest /= 10) whole[length + --digits] = (char)('0' + rest % 10);
  }
  edgert_status status = edgert_module_find(self->module, whole, out_function, error);
  if (status == EDGERT_OK && (edgert_module_input_count(self->module, *out_function) != takes ||
                              edgert_module_output_count(self->module, *out_function) != 1))
    status = text_fail(error, EDGERT_UNSUPPORTED,
                       "the module's functions are not those of a language model");
  return status;
}

/* The function `sample_allowed`, where there is one as it should be, and room for its mask. */
static edgert_status find_allowed(edgert_text_model *self, edgert_error *error) {
  edgert_argument mask;
  if (model_find(self, "sample_allowed", 0, 7, &self->sample_allowed, NULL) != EDGERT_OK ||
      edgert_module_input(self->module, self->sample_allowed, 0, &mask, NULL) != EDGERT_OK ||
      mask.rank != 1 ||
      mask.shape[0] != ((int64_t)edgert_tokenizer_vocabulary(self->tokenizer) + 31) / 32)
    return EDGERT_OK;
  self->mask_words = (size_t)mask.shape[0];
  return text_allocate(&self->allocator, self->mask_words, sizeof *self->mask,
                       (void **)&self->mask, error);
}

/* The function `verify_N`, where there is one as it should be. */
static void find_verify(edgert_text_model *self) {
  edgert_argument tokens;
  for (size_t i = 0; i < edgert_module_function_count(self->module); ++i) {
    const char *name = edgert_module_function_name(self->module, i);
    if (!name || strncmp(name, "verify_", 7) != 0 || edgert_module_input_count(self->module, i) != 2 ||
        edgert_module_output_count(self->module, i) != 1 ||
        edgert_module_input(self->module, i, 0, &tokens, NULL) != EDGERT_OK || tokens.rank != 1 ||
        tokens.shape[0] < 2 || tokens.shape[0] > TEXT_MOST_GUESSES)
      continue;
    self->verify = i;
    self->verify_size = (uint32_t)tokens.shape[0];
  }
}

static edgert_status find_functions(edgert_text_model *self, edgert_error *error) {
  edgert_status status = model_find(self, "decode", 0, 1, &self->decode, error);
  if (status == EDGERT_OK) status = model_find(self, "sample", 0, 6, &self->sample, error);
  if (status == EDGERT_OK) status = model_find(self, "reset", 0, 1, &self->reset, error);
  while (edgert_tokenizer_prefill(self->tokenizer, self->prefill_count)) ++self->prefill_count;
  if (status == EDGERT_OK)
    status = text_allocate(&self->allocator, self->prefill_count, sizeof *self->prefill,
                           (void **)&self->prefill, error);
  for (size_t i = 0; i < self->prefill_count && status == EDGERT_OK; ++i)
    status = model_find(self, "prefill_", edgert_tokenizer_prefill(self->tokenizer, i), 2,
                  &self->prefill[i], error);
  if (status == EDGERT_OK) find_verify(self);
  if (status == EDGERT_OK) status = find_allowed(self, error);
  return status;
}

edgert_status edgert_text_model_create(edgert_module *module, edgert_session *session,
                                       edgert_device *device, const edgert_allocator *allocator,
                                       edgert_text_model **out_model, edgert_error *error) {
  edgert_allocator memory = text_allocator_or_default(allocator);
  edgert_text_model *self;
  *out_model = NULL;
  edgert_status status = text_allocate(&memory, 1, sizeof *self, (void **)&self, error);
  if (status != EDGERT_OK) return status;
  self->allocator = memory;
  self->module = edgert_module_retain(module);
  self->session = edgert_session_retain(session);
  self->device = edgert_device_retain(device);
  status = edgert_tokenizer_open(module, allocator, &self->tokenizer, error);
  if (status == EDGERT_OK) status = find_functions(self, error);
  if (status == EDGERT_OK)
    status = text_allocate(&memory, (size_t)edgert_tokenizer_context(self->tokenizer) + 1,
                           sizeof *self->held, (void **)&self->held, error);
  if (status == EDGERT_OK)
    status = text_allocate(&memory, (size_t)edgert_tokenizer_context(self->tokenizer) + 1,
                           sizeof *self->seen, (void **)&self->seen, error);
  if (status == EDGERT_OK) status = edgert_text_stream_create(self->tokenizer, &self->stream, error);
  if (status == EDGERT_OK)
    *out_model = self;
  else
    edgert_text_model_release(self);
  return status;
}

void edgert_text_model_release(edgert_text_model *self) {
  if (!self) return;
  const edgert_allocator memory = self->allocator;
  edgert_text_stream_release(self->stream);
  edgert_tokenizer_release(self->tokenizer);
  edgert_session_release(self->session);
  edgert_device_release(self->device);
  edgert_module_release(self->module);
  text_deallocate(&memory, self->prefill);
  text_deallocate(&memory, self->held);
  text_deallocate(&memory, self->seen);
  text_deallocate(&memory, self->mask);
  text_deallocate(&memory, self);
}

const edgert_tokenizer *edgert_text_model_tokenizer(const edgert_text_model *self) {
  return self->tokenizer;
}

void edgert_text_interrupt(edgert_text_model *self) {
  self->is_interrupted = 1;
  edgert_session_interrupt(self->session);
}

/* --- calls ------------------------------------------------------------------------------------------ */

/* An argument of 32-bit elements: a scalar, or `count` of them. */
static edgert_status model_give(edgert_text_model *self, uint32_t type, size_t rank, int64_t count,
                          const void *data, edgert_value *out, edgert_error *error) {
  out->kind = EDGERT_TENSOR;
  edgert_status status =
      edgert_tensor_create(self->device, type, rank, &count, &out->as.tensor, error);
  if (status == EDGERT_OK)
    status = edgert_tensor_write(out->as.tensor, data, (rank ? (size_t)count : 1) * 4, error);
  return status;
}

/* Call a function that gives one or more numbers, and let go of its arguments. */
static edgert_status model_call(edgert_text_model *self, size_t function, edgert_value *arguments,
                                size_t count, edgert_status given, int32_t *out, size_t numbers,
                                edgert_error *error) {
  edgert_value result = {.kind = EDGERT_NONE};
  edgert_status status = given;
  if (status == EDGERT_OK && self->is_interrupted)
    status = text_fail(error, EDGERT_CANCELLED, "the answer was interrupted");
  if (status == EDGERT_OK)
    status = edgert_session_call(self->session, function, arguments, count, &result, 1, error);
  if (status == EDGERT_OK && result.kind == EDGERT_TENSOR)
    status = edgert_tensor_read(result.as.tensor, out, numbers * sizeof *out, error);
  else if (status == EDGERT_OK)
    *out = result.as.i32;
  if (result.kind == EDGERT_TENSOR) edgert_tensor_release(result.as.tensor);
  for (size_t i = 0; i < count; ++i)
    if (arguments[i].kind == EDGERT_TENSOR) edgert_tensor_release(arguments[i].as.tensor);
  return status;
}

static edgert_status call_with(edgert_text_model *self, size_t function, int32_t number,
                               int32_t *out, edgert_error *error) {
  edgert_value argument = {.kind = EDGERT_NONE};
  edgert_status status = model_give(self, EDGERT_I32, 0, 0, &number, &argument, error);
  return model_call(self, function, &argument, 1, status, out, 1, error);
}

/* Read tokens as one chunk, padded. */
static edgert_status read_chunk(edgert_text_model *self, size_t which, const int32_t *tokens,
                                size_t count, int32_t *out, edgert_error *error) {
  uint32_t size = edgert_tokenizer_prefill(self->tokenizer, which);
  edgert_value arguments[2] = {{.kind = EDGERT_NONE}, {.kind = EDGERT_NONE}};
  int32_t number = (int32_t)count, *chunk;
  edgert_status status = text_allocate(&self->allocator, size, sizeof *chunk, (void **)&chunk, error);
  if (status == EDGERT_OK) memcpy(chunk, tokens, count * sizeof *chunk);
  if (status == EDGERT_OK) status = model_give(self, EDGERT_I32, 1, size, chunk, &arguments[0], error);
  if (status == EDGERT_OK) status = model_give(self, EDGERT_I32, 0, 0, &number, &arguments[1], error);
  text_deallocate(&self->allocator, chunk);
  return model_call(self, self->prefill[which], arguments, 2, status, out, 1, error);
}

edgert_status text_model_read(edgert_text_model *self, const int32_t *tokens, size_t count,
                                 int32_t *out_token, edgert_error *error) {
  edgert_status status = EDGERT_OK;
  while (count && status == EDGERT_OK) {
    size_t part = edgert_tokenizer_chunk(self->tokenizer, count), which = 0;
    if (part == 1) {
      status = call_with(self, self->decode, tokens[0], out_token, error);
    } else {
      while (edgert_tokenizer_prefill(self->tokenizer, which) != part) ++which;
      part = part < count ? part : count;
      status = read_chunk(self, which, tokens, part, out_token, error);
    }
    if (status == EDGERT_OK && *out_token < 0)
      status = text_fail(error, EDGERT_LIMIT, "the context is full");
    if (status != EDGERT_OK) break;
    memcpy(self->held + self->held_count, tokens, part * sizeof *tokens);
    self->held_count += part;
    tokens += part;
    count -= part;
  }
  return status;
}

edgert_status text_model_choose(edgert_text_model *self, const edgert_text_options *options,
                                int is_masked, int32_t *token, edgert_error *error) {
  const float temperature = options->temperature;
  const float top_p = options->top_p > 0 ? options->top_p : 1, min_p = options->min_p;
  const float penalty = options->repetition_penalty > 0 ? options->repetition_penalty : 1;
  const int32_t top_k = options->top_k > INT32_MAX ? INT32_MAX : (int32_t)options->top_k;
  const size_t word = (size_t)*token / 32;
  const int fits = !is_masked || (word < self->mask_words && self->mask[word] >> *token % 32 & 1);
  if (temperature == 0 && penalty == 1 && fits) return EDGERT_OK;
  const struct {
    uint32_t type;
    const void *data;
  } inputs[6] = {{EDGERT_F32, &temperature}, {EDGERT_I32, &top_k},   {EDGERT_F32, &top_p},
                 {EDGERT_F32, &min_p},       {EDGERT_F32, &penalty}, {EDGERT_I32, &options->seed}};
  edgert_value arguments[7] = {{.kind = EDGERT_NONE}};
  edgert_status status = EDGERT_OK;
  size_t count = 0;
  if (is_masked)
    status = model_give(self, EDGERT_I32, 1, (int64_t)self->mask_words, self->mask,
                        &arguments[count++], error);
  for (size_t i = 0; i < 6 && status == EDGERT_OK; ++i)
    status = model_give(self, inputs[i].type, 0, 0, inputs[i].data, &arguments[count++], error);
  return model_call(self, is_masked ? self->sample_allowed : self->sample, arguments, count, status,
                    token, 1, error);
}

edgert_status text_model_forget(edgert_text_model *self, size_t count, edgert_error *error) {
  int32_t kept;
  edgert_status status = call_with(self, self->reset, (int32_t)count, &kept, error);
  /* What a recurrent model has read is kept as a whole, or not at all. */
  self->held_count = count;
  if (status == EDGERT_OK && kept < (int32_t)count) self->held_count = kept < 0 ? 0 : (size_t)kept;
  return status;
}

size_t text_model_known(const edgert_text_model *self, const int32_t *tokens, size_t count) {
  size_t known = text_alike(tokens, count - 1, self->held, self->held_count);
  return self->tokenizer->recurrent && known < self->held_count ? 0 : known;
}

edgert_status text_model_read_anew(edgert_text_model *self, const int32_t *tokens, size_t count,
                                   int32_t *out_token, edgert_error *error) {
  edgert_status status = text_model_forget(self, text_model_known(self, tokens, count), error);
  if (status != EDGERT_OK) return status;
  const size_t known = self->held_count;
  return text_model_read(self, tokens + known, count - known, out_token, error);
}

edgert_status text_model_verify(edgert_text_model *self, const int32_t *tokens, size_t count,
                                int32_t out_tokens[TEXT_MOST_GUESSES], size_t *out_count,
                                edgert_error *error) {
  int32_t chunk[TEXT_MOST_GUESSES] = {0}, number = (int32_t)count;
  edgert_value arguments[2] = {{.kind = EDGERT_NONE}, {.kind = EDGERT_NONE}};
  *out_count = 0;
  memcpy(chunk, tokens, count * sizeof *tokens);
  edgert_status status =
      model_give(self, EDGERT_I32, 1, self->verify_size, chunk, &arguments[0], error);
  if (status == EDGERT_OK) status = model_give(self, EDGERT_I32, 0, 0, &number, &arguments[1], error);
  status = model_call(self, self->verify, arguments, 2, status, out_tokens, self->verify_size, error);
  if (status != EDGERT_OK) return status;
  while (*out_count < count && out_tokens[*out_count] >= 0) ++*out_count;
  if (*out_count == 0) return text_fail(error, EDGERT_LIMIT, "the context is full");
  memcpy(self->held + self->held_count, tokens, *out_count * sizeof *tokens);
  self->held_count += *out_count;
  return EDGERT_OK;
}
