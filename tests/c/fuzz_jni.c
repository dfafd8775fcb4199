/* Any bytes as a module that an app in Java opens: all of dev.edgec.Native, on a machine that has as
 * much of Java as those functions ask for. At the end nothing may be held. */
#include <jni.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

/* What the functions are compiled to call: an app's modules end by themselves, a fuzzer's not. */
edgert_status fuzz_session_create(edgert_module *module, edgert_device *device,
                                  const edgert_session_options *options,
                                  edgert_session **out_session, edgert_error *error);

edgert_status fuzz_session_create(edgert_module *module, edgert_device *device,
                                  const edgert_session_options *options,
                                  edgert_session **out_session, edgert_error *error) {
  edgert_session_options limited = *options;
  limited.max_steps = 10000;
  limited.max_memory = 64 << 20;
  limited.max_milliseconds = 1000;
  return edgert_session_create(module, device, &limited, out_session, error);
}

#define edgert_session_create fuzz_session_create
#include "../../runtime/java/src/main/cpp/edgec_jni.c"
#undef edgert_session_create

/* --- Java's side: every object is one of these ---------------------------------------------------- */

typedef struct thing {
  size_t size;
  void *memory; /* of a direct buffer */
  jlong values[];
} thing;

enum { MOST_THINGS = 4096, MOST_ARGUMENTS = 16 };

static void *things[MOST_THINGS]; /* gone when the input is done, as locals are in Java */
static size_t thing_count;
static int is_raised;

static void *new_thing(size_t size) {
  if (thing_count == MOST_THINGS || size > (size_t)64 << 20) return NULL;
  thing *made = calloc(1, sizeof *made + size + 8);
  if (made == NULL) return NULL;
  made->size = size;
  things[thing_count++] = made;
  return made;
}

static jint get_env(JavaVM *vm, void **env, jint version);
static jclass find_class(JNIEnv *env, const char *name) {
  (void)env, (void)name;
  return new_thing(1);
}
static jmethodID get_method(JNIEnv *env, jclass type, const char *name, const char *signature) {
  (void)env, (void)name, (void)signature;
  return (jmethodID)type;
}
static jobject new_object(JNIEnv *env, jclass type, jmethodID method, ...) {
  (void)env, (void)type, (void)method;
  return new_thing(1);
}
static jint throw_it(JNIEnv *env, jthrowable error) {
  (void)env, (void)error;
  is_raised = 1;
  return 0;
}
static jboolean check(JNIEnv *env) {
  (void)env;
  return (jboolean)is_raised;
}
static jstring new_string(JNIEnv *env, const char *text) {
  (void)env;
  thing *made = new_thing(strlen(text) + 1);
  if (made != NULL) memcpy(made->values, text, strlen(text) + 1);
  return (jstring)made;
}
static const char *get_chars(JNIEnv *env, jstring text, jboolean *is_copy) {
  (void)env, (void)is_copy;
  return (const char *)((thing *)text)->values;
}
static void release_chars(JNIEnv *env, jstring text, const char *chars) {
  (void)env, (void)text, (void)chars;
}
static jsize get_length(JNIEnv *env, jarray array) {
  (void)env;
  return (jsize)((thing *)array)->size;
}
static jbyteArray new_bytes(JNIEnv *env, jsize size) {
  (void)env;
  return new_thing((size_t)size);
}
static void set_bytes(JNIEnv *env, jbyteArray array, jsize at, jsize count, const jbyte *bytes) {
  (void)env;
  memcpy((char *)((thing *)array)->values + at, bytes, (size_t)count);
}
static jlongArray new_longs(JNIEnv *env, jsize count) {
  (void)env;
  thing *made = new_thing((size_t)count * sizeof(jlong));
  if (made != NULL) made->size = (size_t)count;
  return (jlongArray)made;
}
static void set_longs(JNIEnv *env, jlongArray array, jsize at, jsize count, const jlong *values) {
  (void)env;
  thing *self = (thing *)array;
  if ((size_t)(at + count) > self->size) abort(); /* Java throws; edgert must not ask for it */
  memcpy(self->values + at, values, (size_t)count * sizeof *values);
}
static void get_longs(JNIEnv *env, jlongArray array, jsize at, jsize count, jlong *values) {
  (void)env;
  thing *self = (thing *)array;
  if ((size_t)(at + count) > self->size) abort();
  memcpy(values, self->values + at, (size_t)count * sizeof *values);
}
static jobject new_buffer(JNIEnv *env, void *memory, jlong size) {
  (void)env;
  thing *made = new_thing(0);
  if (made == NULL) return NULL;
  made->memory = memory;
  made->size = (size_t)size;
  return (jobject)made;
}
static void *get_address(JNIEnv *env, jobject buffer) {
  (void)env;
  return ((thing *)buffer)->memory;
}
static jlong get_capacity(JNIEnv *env, jobject buffer) {
  (void)env;
  return (jlong)((thing *)buffer)->size;
}
static jobject keep(JNIEnv *env, jobject object) {
  (void)env;
  return object;
}
static void drop(JNIEnv *env, jobject object) { (void)env, (void)object; }

static const struct JNINativeInterface_ natives = {
    .FindClass = find_class,
    .GetMethodID = get_method,
    .NewObject = new_object,
    .Throw = throw_it,
    .ExceptionCheck = check,
    .NewStringUTF = new_string,
    .GetStringUTFChars = get_chars,
    .ReleaseStringUTFChars = release_chars,
    .GetArrayLength = get_length,
    .NewByteArray = new_bytes,
    .SetByteArrayRegion = set_bytes,
    .NewLongArray = new_longs,
    .SetLongArrayRegion = set_longs,
    .GetLongArrayRegion = get_longs,
    .NewDirectByteBuffer = new_buffer,
    .GetDirectBufferAddress = get_address,
    .GetDirectBufferCapacity = get_capacity,
    .NewGlobalRef = keep,
    .DeleteGlobalRef = drop,
};
static JNIEnv java = &natives;

static jint get_env(JavaVM *vm, void **env, jint version) {
  (void)vm, (void)version;
  *env = &java;
  return JNI_OK;
}
static const struct JNIInvokeInterface_ invocations = {.GetEnv = get_env};
static JavaVM virtual_machine = &invocations;

/* --- an app ---------------------------------------------------------------------------------------- */

/* A handle that the app gives back. */
static void give(jint kind, jlong handle) {
  if (handle) Java_dev_edgec_Native_release(&java, NULL, kind, handle);
}

/* A tensor for an argument: of its own shape where that is known, of one from the input elsewhere. */
static jlong tensor_for(jlong device, jlongArray argument, const uint8_t *data, size_t size) {
  const thing *spec = (const thing *)argument;
  jsize rank = spec != NULL && spec->size > 2 ? (jsize)spec->size - 2 : data[0] % 20;
  jlongArray shape = new_longs(&java, rank);
  jint type = spec != NULL ? (jint)spec->values[1] : (jint)(data[1] | data[2] << 24);
  if (shape == NULL) return 0;
  for (jsize i = 0; i < rank; ++i) {
    jlong known = spec != NULL && (size_t)i + 2 < spec->size ? spec->values[2 + i] : -1;
    ((thing *)shape)->values[i] = known >= 0 ? known : (jlong)data[i % 8] - 1;
  }
  if (size % 3)
    return Java_dev_edgec_Native_tensorCreate(&java, NULL, device, type, shape);
  jobject buffer = new_buffer(&java, (void *)(uintptr_t)data, (jlong)size);
  return Java_dev_edgec_Native_tensorWrap(&java, NULL, device, type, shape, buffer, data[3] % 8,
                                          (jint)(size - 8), (jboolean)(data[4] & 1));
}

static void call_function(jlong module, jlong session, jlong device, jint function,
                          const uint8_t *data, size_t size) {
  jint takes = Java_dev_edgec_Native_argumentCount(&java, NULL, module, function, 0);
  jint gives = Java_dev_edgec_Native_argumentCount(&java, NULL, module, function, 1);
  (void)Java_dev_edgec_Native_functionName(&java, NULL, module, function);
  (void)Java_dev_edgec_Native_attribute(&java, NULL, module, function,
                                        new_string(&java, "edgec.signature"));
  if (takes > MOST_ARGUMENTS || gives > MOST_ARGUMENTS) return;
  jlongArray inputs = new_longs(&java, takes), outputs = new_longs(&java, gives);
  if (inputs == NULL || outputs == NULL) return;
  int is_complete = 1;
  for (jint i = 0; i < takes; ++i) {
    is_raised = 0;
    (void)Java_dev_edgec_Native_argumentName(&java, NULL, module, function, 0, i);
    jlongArray spec = Java_dev_edgec_Native_argument(&java, NULL, module, function, 0, i);
    jlong made = tensor_for(device, spec, data, size);
    ((thing *)inputs)->values[i] = made;
    is_complete &= made != 0;
  }
  is_raised = 0;
  if (is_complete)
    Java_dev_edgec_Native_call(&java, NULL, session, function, inputs, outputs, NULL, device,
                               device);
  for (jint i = 0; i < gives; ++i) {
    jlong tensor = ((thing *)outputs)->values[i];
    if (!tensor) continue;
    (void)Java_dev_edgec_Native_tensorType(&java, NULL, tensor);
    (void)Java_dev_edgec_Native_tensorShape(&java, NULL, tensor);
    (void)Java_dev_edgec_Native_tensorBuffer(&java, NULL, tensor);
    give(TENSOR, tensor);
  }
  for (jint i = 0; i < takes; ++i) give(TENSOR, ((thing *)inputs)->values[i]);
}

void fuzz_jni(const uint8_t *data, size_t size) {
  is_raised = 0;
  if (JNI_OnLoad(&virtual_machine, NULL) != JNI_VERSION_1_6) abort();
  jobject buffer = new_buffer(&java, (void *)(uintptr_t)data, (jlong)size);
  jlong weights = Java_dev_edgec_Native_weightsWrap(&java, NULL, buffer);
  is_raised = 0;
  jlong module = Java_dev_edgec_Native_moduleWrap(&java, NULL, buffer, NULL);
  jstring driver = new_string(&java, data[size - 1] % 4 ? "cpu" : "null");
  jlong device =
      driver == NULL ? 0 : Java_dev_edgec_Native_deviceCreate(&java, NULL, driver, 1, NULL);
  jlong session = 0;
  if (device) (void)Java_dev_edgec_Native_deviceName(&java, NULL, device);
  if (module && device) {
    is_raised = 0;
    session = Java_dev_edgec_Native_sessionCreate(&java, NULL, module, device, weights);
    if ((session == 0) != is_raised) abort(); /* it fails with an exception, and with nothing else */
    jint count = session ? Java_dev_edgec_Native_functionCount(&java, NULL, module) : 0;
    for (jint i = 0; i < count && i < MOST_ARGUMENTS; ++i)
      call_function(module, session, device, i, data, size);
    is_raised = 0;
    if (session) Java_dev_edgec_Native_prove(&java, NULL, session, NULL);
  }
  give(SESSION, session);
  give(MODULE, module);
  give(WEIGHTS, weights);
  give(DEVICE, device);
  const thing *left = (const thing *)Java_dev_edgec_Native_held(&java, NULL);
  if (left != NULL && (left->values[0] || left->values[1])) abort();
  while (thing_count) free(things[--thing_count]);
}
