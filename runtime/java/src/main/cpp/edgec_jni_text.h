/* The functions of dev.edgec.Native for language models: the part of edgec_jni.c that is there where
 * edgert_text is (amalgamate.py --text). */
#include "edgert_text.h"

NATIVE(jlong, textCreate)(JNIEnv *env, jclass type, jlong module, jlong session, jlong device) {
  (void)type;
  edgert_error error = {EDGERT_OK, ""};
  edgert_text_model *model = NULL;
  well(env,
       edgert_text_model_create(AT(edgert_module, module), AT(edgert_session, session),
                                AT(edgert_device, device), &counted, &model, &error),
       &error);
  return held(model);
}

/* Who is told the pieces of an answer, a dev.edgec.Native.Piece, and who says which tokens may come
 * next, a dev.edgec.EdgeText.Allow or NULL. */
typedef struct listener {
  JNIEnv *env;
  jobject told;
  jmethodID method;
  jobject allow;
  jmethodID allows;
} listener;

static int tell(void *user, const char *piece, size_t size) {
  const listener *self = user;
  JNIEnv *env = self->env;
  if ((*env)->ExceptionCheck(env)) return 0;
  jbyteArray bytes = (*env)->NewByteArray(env, (jsize)size);
  if (bytes == NULL) return 0;
  (*env)->SetByteArrayRegion(env, bytes, 0, (jsize)size, (const jbyte *)piece);
  jboolean goes_on = (*env)->CallBooleanMethod(env, self->told, self->method, bytes);
  (*env)->DeleteLocalRef(env, bytes);
  return goes_on && !(*env)->ExceptionCheck(env);
}

/* The mask is a new array of Java's for each token, so that an app may keep it. */
static int allow(void *user, int32_t last, uint32_t *mask, size_t words) {
  const listener *self = user;
  JNIEnv *env = self->env;
  if ((*env)->ExceptionCheck(env)) return 0;
  jintArray array = (*env)->NewIntArray(env, (jsize)words);
  if (array == NULL) return 0;
  jboolean some = (*env)->CallBooleanMethod(env, self->allow, self->allows, (jint)last, array);
  if ((*env)->ExceptionCheck(env)) some = 0;
  if (some) (*env)->GetIntArrayRegion(env, array, 0, (jsize)words, (jint *)mask);
  (*env)->DeleteLocalRef(env, array);
  return some;
}

/* `whole` and `parts` in the order in which EdgeTextOptions gives them. */
static edgert_text_options text_options(JNIEnv *env, jintArray whole, jfloatArray parts) {
  jint numbers[6];
  jfloat shares[4];
  (*env)->GetIntArrayRegion(env, whole, 0, 6, numbers);
  (*env)->GetFloatArrayRegion(env, parts, 0, 4, shares);
  edgert_text_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.limit = (uint32_t)numbers[0];
  options.top_k = (uint32_t)numbers[1];
  options.seed = (uint32_t)numbers[2];
  options.when_full = (uint32_t)numbers[3];
  options.keep = (uint32_t)numbers[4];
  options.without_guesses = (uint32_t)numbers[5];
  options.temperature = shares[0];
  options.top_p = shares[1];
  options.min_p = shares[2];
  options.repetition_penalty = shares[3];
  return options;
}

/* Bytes of Java's with a zero behind them, to be freed; NULL with an exception. */
static char *text_bytes(JNIEnv *env, jbyteArray bytes, size_t *size) {
  *size = (size_t)(*env)->GetArrayLength(env, bytes);
  char *copy = malloc(*size + 1);
  if (copy == NULL) {
    out_of_memory(env);
    return NULL;
  }
  (*env)->GetByteArrayRegion(env, bytes, 0, (jsize)*size, (jbyte *)copy);
  copy[*size] = 0;
  return copy;
}

/* The answer to `texts`: one is a prompt, more are roles and what they say by turns. */
static edgert_status answer(JNIEnv *env, edgert_text_model *model, char *const *texts,
                            size_t prompt_size, size_t count, const edgert_text_options *options,
                            listener *told, edgert_text_stats *stats, edgert_error *error) {
  if (count == 1)
    return edgert_text_generate(model, texts[0], prompt_size, options, tell, told, stats, error);
  edgert_text_message *messages = calloc(count / 2 + 1, sizeof *messages);
  if (messages == NULL) {
    out_of_memory(env);
    return EDGERT_OUT_OF_MEMORY;
  }
  for (size_t i = 0; i + 1 < count; i += 2) {
    messages[i / 2].role = texts[i];
    messages[i / 2].content = texts[i + 1];
  }
  edgert_status status =
      edgert_text_chat(model, messages, count / 2, options, tell, told, stats, error);
  free(messages);
  return status;
}

NATIVE(jlongArray, textAnswer)
(JNIEnv *env, jclass type, jlong model, jobjectArray said, jintArray whole, jfloatArray parts,
 jobject told, jobject allowed) {
  (void)type;
  listener listening = {env, told, NULL, allowed, NULL};
  jclass kind = (*env)->GetObjectClass(env, told);
  listening.method = (*env)->GetMethodID(env, kind, "told", "([B)Z");
  if (listening.method == NULL) return NULL;
  edgert_text_options options = text_options(env, whole, parts);
  if (allowed != NULL) {
    kind = (*env)->GetObjectClass(env, allowed);
    listening.allows = (*env)->GetMethodID(env, kind, "allow", "(I[I)Z");
    if (listening.allows == NULL) return NULL;
    options.allow = allow;
    options.allow_user = &listening;
  }
  edgert_text_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.size = sizeof stats;
  edgert_error error = {EDGERT_OK, ""};
  size_t count = (size_t)(*env)->GetArrayLength(env, said), made = 0, size = 0;
  jlongArray result = NULL;
  char **texts = calloc(count + 1, sizeof *texts);
  if (texts == NULL) out_of_memory(env);
  for (; texts != NULL && made < count; ++made) {
    jbyteArray bytes = (*env)->GetObjectArrayElement(env, said, (jsize)made);
    texts[made] = text_bytes(env, bytes, &size);
    (*env)->DeleteLocalRef(env, bytes);
    if (texts[made] == NULL) break;
  }
  if (texts != NULL && made == count &&
      well(env,
           answer(env, AT(edgert_text_model, model), texts, size, count, &options, &listening,
                  &stats, &error),
           &error) &&
      !(*env)->ExceptionCheck(env)) {
    const jlong values[4] = {stats.finish, stats.prompt, stats.reused, stats.tokens};
    result = (*env)->NewLongArray(env, 4);
    if (result != NULL) (*env)->SetLongArrayRegion(env, result, 0, 4, values);
  }
  for (size_t i = 0; texts != NULL && i < made; ++i) free(texts[i]);
  free(texts);
  return result;
}

NATIVE(void, textInterrupt)(JNIEnv *env, jclass type, jlong model) {
  (void)env;
  (void)type;
  edgert_text_interrupt(AT(edgert_text_model, model));
}

NATIVE(jbyteArray, textSave)(JNIEnv *env, jclass type, jlong model) {
  (void)type;
  edgert_error error = {EDGERT_OK, ""};
  void *data = NULL;
  size_t size = 0;
  jbyteArray result = NULL;
  if (!well(env, edgert_text_save(AT(edgert_text_model, model), &data, &size, &error), &error))
    return NULL;
  if (size > INT32_MAX) {
    out_of_memory(env); /* no array of Java's has room for it */
  } else {
    result = (*env)->NewByteArray(env, (jsize)size);
    if (result != NULL) (*env)->SetByteArrayRegion(env, result, 0, (jsize)size, data);
  }
  edgert_text_free(AT(edgert_text_model, model), data);
  return result;
}

NATIVE(void, textRestore)(JNIEnv *env, jclass type, jlong model, jbyteArray saved) {
  (void)type;
  edgert_error error = {EDGERT_OK, ""};
  size_t size = 0;
  char *data = text_bytes(env, saved, &size);
  if (data == NULL) return;
  well(env, edgert_text_restore(AT(edgert_text_model, model), data, size, &error), &error);
  free(data);
}
