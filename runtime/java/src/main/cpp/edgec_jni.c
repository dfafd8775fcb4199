/* The functions of dev.edgec.Native: edgert for Java, on Android and on desktops.
 *
 * Handles are addresses of edgert's objects, one reference each, which Java gives back through
 * `release`. Whatever fails becomes a dev.edgec.EdgeException with edgert's status and message. */
#include <jni.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edgert.h"

#define NATIVE(result, name) JNIEXPORT result JNICALL Java_dev_edgec_Native_##name

/* As dev.edgec.Native numbers them. */
enum { DEVICE = 0, MODULE = 1, SESSION = 2, TENSOR = 3, WEIGHTS = 4, TEXT = 5 };

static JavaVM *machine;
static atomic_long held_objects; /* of edgert, and buffers of Java */
static atomic_long held_bytes;   /* that edgert has allocated */

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved) {
  (void)reserved;
  machine = vm;
  return edgert_abi() == EDGERT_ABI ? JNI_VERSION_1_6 : JNI_ERR;
}

/* --- Memory: counted, so that a test can say that nothing leaks --------------------------------- */

/* Before each block: where it really begins, and how long it is. */
typedef struct block {
  void *begin;
  size_t size;
} block;

static void *allocate(void *user, size_t size, size_t alignment) {
  (void)user;
  size_t most = (size_t)-1 - alignment - sizeof(block);
  char *begin = size > most ? NULL : malloc(size + alignment + sizeof(block));
  if (begin == NULL) return NULL;
  uintptr_t at = ((uintptr_t)begin + sizeof(block) + alignment - 1) / alignment * alignment;
  block head = {begin, size};
  memcpy((char *)at - sizeof head, &head, sizeof head);
  atomic_fetch_add(&held_bytes, (long)size);
  return (void *)at;
}

static void release_memory(void *user, void *memory) {
  (void)user;
  if (memory == NULL) return;
  block head;
  memcpy(&head, (char *)memory - sizeof head, sizeof head);
  atomic_fetch_sub(&held_bytes, (long)head.size);
  free(head.begin);
}

static const edgert_allocator counted = {NULL, allocate, release_memory};

/* --- Failure ------------------------------------------------------------------------------------ */

/* A string of UTF-8, which JNI's own function takes in Java's dialect only and may die of otherwise. */
static jstring text_of(JNIEnv *env, const char *text) {
  jsize size = (jsize)strlen(text);
  jbyteArray bytes = (*env)->NewByteArray(env, size);
  jstring charset = bytes == NULL ? NULL : (*env)->NewStringUTF(env, "UTF-8");
  jclass type = charset == NULL ? NULL : (*env)->FindClass(env, "java/lang/String");
  if (type == NULL) return NULL;
  jmethodID make = (*env)->GetMethodID(env, type, "<init>", "([BLjava/lang/String;)V");
  if (make == NULL) return NULL;
  (*env)->SetByteArrayRegion(env, bytes, 0, size, (const jbyte *)text);
  return (jstring)(*env)->NewObject(env, type, make, bytes, charset);
}

static void raise(JNIEnv *env, edgert_status status, const char *message) {
  if ((*env)->ExceptionCheck(env)) return;
  jclass type = (*env)->FindClass(env, "dev/edgec/EdgeException");
  if (type == NULL) return;
  jmethodID make = (*env)->GetMethodID(env, type, "<init>", "(ILjava/lang/String;)V");
  if (make == NULL) return;
  jstring text = text_of(env, message);
  if (text == NULL) return;
  jobject error = (*env)->NewObject(env, type, make, (jint)status, text);
  if (error != NULL) (*env)->Throw(env, (jthrowable)error);
}

/* Whether it went well; else there is an exception. */
static int well(JNIEnv *env, edgert_status status, const edgert_error *error) {
  if (status == EDGERT_OK) return 1;
  raise(env, status, error->message[0] ? error->message : edgert_status_name(status));
  return 0;
}

static void out_of_memory(JNIEnv *env) { raise(env, EDGERT_OUT_OF_MEMORY, "out of memory"); }

static jlong held(void *object) {
  if (object != NULL) atomic_fetch_add(&held_objects, 1);
  return (jlong)(intptr_t)object;
}

#define AT(type, handle) ((type *)(intptr_t)(handle))

/* --- Buffers of Java that edgert reads ------------------------------------------------------------ */

static void let_go(void *user) {
  JNIEnv *env = NULL;
  int attached = 0;
  if ((*machine)->GetEnv(machine, (void **)&env, JNI_VERSION_1_6) != JNI_OK) {
#if defined(__ANDROID__)
    attached = (*machine)->AttachCurrentThread(machine, &env, NULL) == JNI_OK;
#else
    attached = (*machine)->AttachCurrentThread(machine, (void **)&env, NULL) == JNI_OK;
#endif
    if (!attached) return; /* the machine is going down */
  }
  (*env)->DeleteGlobalRef(env, (jobject)user);
  atomic_fetch_sub(&held_objects, 1);
  if (attached) (*machine)->DetachCurrentThread(machine);
}

/* A reference that `let_go` gives back; NULL with an exception. */
static jobject hold(JNIEnv *env, jobject buffer) {
  jobject kept = (*env)->NewGlobalRef(env, buffer);
  if (kept == NULL)
    out_of_memory(env);
  else
    atomic_fetch_add(&held_objects, 1);
  return kept;
}

NATIVE(jstring, isa)(JNIEnv *env, jclass type) {
  (void)type;
#if defined(__aarch64__)
  return (*env)->NewStringUTF(env, "arm_64");
#elif defined(__arm__)
  return (*env)->NewStringUTF(env, "arm_32");
#elif defined(__x86_64__)
  return (*env)->NewStringUTF(env, "x86_64");
#elif defined(__riscv) && __riscv_xlen == 64
  return (*env)->NewStringUTF(env, "riscv_64");
#else
  return (*env)->NewStringUTF(env, "another processor");
#endif
}

/* --- Devices and modules -------------------------------------------------------------------------- */

/* Java's dialect of UTF-8 to UTF-8, in place: letters beyond 65535 are two of three bytes each there. */
static void to_utf8(char *text) {
  uint8_t *from = (uint8_t *)text, *to = from;
  while (*from) {
    if (from[0] == 0xED && from[1] >= 0xA0 && from[1] < 0xB0 && from[2] && from[3] == 0xED &&
        from[4] >= 0xB0 && from[4] < 0xC0 && from[5]) {
      const uint32_t high = (uint32_t)(from[1] & 15) << 6 | (from[2] & 63);
      const uint32_t letter = 0x10000 + (high << 10) + ((from[4] & 15u) << 6 | (from[5] & 63u));
      *to++ = (uint8_t)(0xF0 | letter >> 18);
      *to++ = (uint8_t)(0x80 | (letter >> 12 & 63));
      *to++ = (uint8_t)(0x80 | (letter >> 6 & 63));
      *to++ = (uint8_t)(0x80 | (letter & 63));
      from += 6;
    } else {
      *to++ = *from++;
    }
  }
  *to = 0;
}

/* A string that may be null, as UTF-8, to be freed; 0 with an exception where there is no memory. */
static int text_from(JNIEnv *env, jstring text, char **out) {
  *out = NULL;
  if (text == NULL) return 1;
  const char *bytes = (*env)->GetStringUTFChars(env, text, NULL);
  if (bytes == NULL) return 0;
  const size_t size = strlen(bytes) + 1;
  *out = malloc(size);
  if (*out != NULL) {
    memcpy(*out, bytes, size);
    to_utf8(*out);
  }
  (*env)->ReleaseStringUTFChars(env, text, bytes);
  if (*out == NULL) out_of_memory(env);
  return *out != NULL;
}

NATIVE(jlong, deviceCreate)
(JNIEnv *env, jclass type, jstring driver, jint threads, jstring cache) {
  (void)type;
  edgert_device_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = threads > 0 ? (uint32_t)threads : 0;
  options.allocator = counted;
  edgert_error error = {EDGERT_OK, ""};
  edgert_device *device = NULL;
  char *name, *file;
  if (!text_from(env, driver, &name)) return 0;
  if (text_from(env, cache, &file)) {
    options.cache_file = file;
    well(env, edgert_device_create(name, &options, &device, &error), &error);
    free(file);
  }
  free(name);
  return held(device);
}

NATIVE(jstring, deviceName)(JNIEnv *env, jclass type, jlong device) {
  (void)type;
  return text_of(env, edgert_device_name(AT(edgert_device, device)));
}

/* `key` may be null; else its bytes go into `bytes`. 0 with an exception where it is no key. */
static int module_options(JNIEnv *env, jbyteArray key, uint8_t bytes[32],
                          edgert_module_options *options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
  options->allocator = counted;
  if (key == NULL) return 1;
  if ((*env)->GetArrayLength(env, key) != 32) {
    raise(env, EDGERT_INVALID_ARGUMENT, "a public key has 32 bytes");
    return 0;
  }
  (*env)->GetByteArrayRegion(env, key, 0, 32, (jbyte *)bytes);
  options->key = bytes;
  return 1;
}

/* A MODULE or WEIGHTS from a file. */
static jlong open_file(JNIEnv *env, int kind, jstring path, jbyteArray key) {
  char *text;
  uint8_t bytes[32];
  edgert_module_options options;
  if (!module_options(env, key, bytes, &options) || !text_from(env, path, &text)) return 0;
  edgert_error error = {EDGERT_OK, ""};
  edgert_module *module = NULL;
  edgert_weights *weights = NULL;
  well(env,
       kind == MODULE ? edgert_module_open(text, &options, &module, &error)
                      : edgert_weights_open(text, &counted, &weights, &error),
       &error);
  free(text);
  return held(kind == MODULE ? (void *)module : (void *)weights);
}

/* The same from a direct buffer, which is held as long as it is needed. */
static jlong open_buffer(JNIEnv *env, int kind, jobject data, jbyteArray key) {
  uint8_t key_bytes[32];
  edgert_module_options options;
  if (!module_options(env, key, key_bytes, &options)) return 0;
  void *address = (*env)->GetDirectBufferAddress(env, data);
  jlong size = (*env)->GetDirectBufferCapacity(env, data);
  if (address == NULL || size < 0) {
    raise(env, EDGERT_INVALID_ARGUMENT, "a direct buffer is needed");
    return 0;
  }
  jobject kept = hold(env, data);
  if (kept == NULL) return 0;
  edgert_error error = {EDGERT_OK, ""};
  edgert_module *module = NULL;
  edgert_weights *weights = NULL;
  size_t bytes = (size_t)size;
  well(env,
       kind == MODULE
           ? edgert_module_wrap(address, bytes, let_go, kept, &options, &module, &error)
           : edgert_weights_wrap(address, bytes, let_go, kept, &counted, &weights, &error),
       &error);
  return held(kind == MODULE ? (void *)module : (void *)weights);
}

NATIVE(jlong, moduleOpen)(JNIEnv *env, jclass type, jstring path, jbyteArray key) {
  (void)type;
  return open_file(env, MODULE, path, key);
}

NATIVE(jlong, moduleWrap)(JNIEnv *env, jclass type, jobject data, jbyteArray key) {
  (void)type;
  return open_buffer(env, MODULE, data, key);
}

NATIVE(jlong, weightsOpen)(JNIEnv *env, jclass type, jstring path) {
  (void)type;
  return open_file(env, WEIGHTS, path, NULL);
}

NATIVE(jlong, weightsWrap)(JNIEnv *env, jclass type, jobject data) {
  (void)type;
  return open_buffer(env, WEIGHTS, data, NULL);
}

NATIVE(jint, functionCount)(JNIEnv *env, jclass type, jlong module) {
  (void)env;
  (void)type;
  return (jint)edgert_module_function_count(AT(edgert_module, module));
}

NATIVE(jstring, functionName)(JNIEnv *env, jclass type, jlong module, jint function) {
  (void)type;
  const char *name = edgert_module_function_name(AT(edgert_module, module), (size_t)function);
  return text_of(env, name);
}

NATIVE(jstring, attribute)
(JNIEnv *env, jclass type, jlong module, jint function, jstring key) {
  (void)type;
  const char *text = (*env)->GetStringUTFChars(env, key, NULL);
  if (text == NULL) return NULL;
  size_t of = function < 0 ? SIZE_MAX : (size_t)function;
  const char *found = edgert_module_attribute(AT(edgert_module, module), of, text);
  (*env)->ReleaseStringUTFChars(env, key, text);
  return found == NULL ? NULL : text_of(env, found);
}

NATIVE(jint, argumentCount)
(JNIEnv *env, jclass type, jlong module, jint function, jboolean output) {
  (void)env;
  (void)type;
  const edgert_module *from = AT(edgert_module, module);
  return (jint)(output ? edgert_module_output_count(from, (size_t)function)
                       : edgert_module_input_count(from, (size_t)function));
}

static int read_argument(JNIEnv *env, jlong module, jint function, jboolean output, jint index,
                         edgert_argument *argument) {
  const edgert_module *from = AT(edgert_module, module);
  edgert_error error = {EDGERT_OK, ""};
  edgert_status status =
      output ? edgert_module_output(from, (size_t)function, (size_t)index, argument, &error)
             : edgert_module_input(from, (size_t)function, (size_t)index, argument, &error);
  return well(env, status, &error);
}

NATIVE(jstring, argumentName)
(JNIEnv *env, jclass type, jlong module, jint function, jboolean output, jint index) {
  (void)type;
  edgert_argument argument;
  if (!read_argument(env, module, function, output, index, &argument)) return NULL;
  return text_of(env, argument.name);
}

NATIVE(jlongArray, argument)
(JNIEnv *env, jclass type, jlong module, jint function, jboolean output, jint index) {
  (void)type;
  edgert_argument argument;
  if (!read_argument(env, module, function, output, index, &argument)) return NULL;
  if (argument.kind != EDGERT_TENSOR) {
    raise(env, EDGERT_UNSUPPORTED, "the module takes or gives plain numbers, and not tensors");
    return NULL;
  }
  jlong values[2 + EDGERT_MAX_RANK] = {argument.kind, argument.type};
  for (uint32_t i = 0; i < argument.rank; ++i) values[2 + i] = argument.shape[i];
  jsize count = (jsize)(2 + argument.rank);
  jlongArray array = (*env)->NewLongArray(env, count);
  if (array != NULL) (*env)->SetLongArrayRegion(env, array, 0, count, values);
  return array;
}

NATIVE(jlong, sessionCreate)(JNIEnv *env, jclass type, jlong module, jlong device, jlong weights) {
  (void)type;
  edgert_session_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.allocator = counted;
  const edgert_scope scope = {NULL, AT(edgert_weights, weights)};
  options.scopes = &scope;
  options.scope_count = weights != 0;
  edgert_error error = {EDGERT_OK, ""};
  edgert_session *session = NULL;
  well(env,
       edgert_session_create(AT(edgert_module, module), AT(edgert_device, device), &options,
                             &session, &error),
       &error);
  return held(session);
}

/* --- Tensors -------------------------------------------------------------------------------------- */

/* The sizes, at most EDGERT_MAX_RANK of them; their count, or -1 with an exception. */
static int read_shape(JNIEnv *env, jlongArray shape, int64_t *sizes) {
  jsize rank = (*env)->GetArrayLength(env, shape);
  if (rank > EDGERT_MAX_RANK) {
    raise(env, EDGERT_INVALID_ARGUMENT, "a tensor has at most 16 dimensions");
    return -1;
  }
  jlong values[EDGERT_MAX_RANK];
  (*env)->GetLongArrayRegion(env, shape, 0, rank, values);
  for (jsize i = 0; i < rank; ++i) sizes[i] = values[i];
  return (int)rank;
}

NATIVE(jlong, tensorCreate)
(JNIEnv *env, jclass type, jlong device, jint elements, jlongArray shape) {
  (void)type;
  int64_t sizes[EDGERT_MAX_RANK];
  int rank = read_shape(env, shape, sizes);
  if (rank < 0) return 0;
  edgert_error error = {EDGERT_OK, ""};
  edgert_tensor *tensor = NULL;
  if (!well(env,
            edgert_tensor_create(AT(edgert_device, device), (uint32_t)elements, (size_t)rank, sizes,
                                 &tensor, &error),
            &error))
    return 0;
  /* What was in the memory before is nobody's business. */
  memset((void *)(uintptr_t)edgert_tensor_data(tensor), 0, (size_t)edgert_tensor_size(tensor));
  return held(tensor);
}

NATIVE(jlong, tensorWrap)
(JNIEnv *env, jclass type, jlong device, jint elements, jlongArray shape, jobject data,
 jint position, jint size, jboolean share) {
  (void)type;
  int64_t sizes[EDGERT_MAX_RANK];
  int rank = read_shape(env, shape, sizes);
  if (rank < 0) return 0;
  char *address = (*env)->GetDirectBufferAddress(env, data);
  if (address == NULL && size > 0) {
    raise(env, EDGERT_INVALID_ARGUMENT, "a direct buffer is needed");
    return 0;
  }
  address += position;
  edgert_error error = {EDGERT_OK, ""};
  edgert_tensor *tensor = NULL;
  if (share && (uintptr_t)address % EDGERT_ALIGNMENT == 0) {
    jobject kept = hold(env, data);
    if (kept == NULL) return 0;
    well(env,
         edgert_tensor_wrap(AT(edgert_device, device), (uint32_t)elements, (size_t)rank, sizes,
                            address, (size_t)size, let_go, kept, &tensor, &error),
         &error);
    return held(tensor);
  }
  if (!well(env,
            edgert_tensor_create(AT(edgert_device, device), (uint32_t)elements, (size_t)rank, sizes,
                                 &tensor, &error),
            &error))
    return 0;
  if (!well(env, edgert_tensor_write(tensor, address, (size_t)size, &error), &error)) {
    edgert_tensor_release(tensor);
    return 0;
  }
  return held(tensor);
}

NATIVE(jint, tensorType)(JNIEnv *env, jclass type, jlong tensor) {
  (void)env;
  (void)type;
  return (jint)edgert_tensor_type(AT(edgert_tensor, tensor));
}

NATIVE(jlongArray, tensorShape)(JNIEnv *env, jclass type, jlong tensor) {
  (void)type;
  const edgert_tensor *from = AT(edgert_tensor, tensor);
  jsize rank = (jsize)edgert_tensor_rank(from);
  jlongArray shape = (*env)->NewLongArray(env, rank);
  if (shape == NULL) return NULL;
  for (jsize i = 0; i < rank; ++i) {
    jlong size = edgert_tensor_shape(from)[i];
    (*env)->SetLongArrayRegion(env, shape, i, 1, &size);
  }
  return shape;
}

NATIVE(jobject, tensorBuffer)(JNIEnv *env, jclass type, jlong tensor) {
  (void)type;
  static char nothing[1];
  const edgert_tensor *from = AT(edgert_tensor, tensor);
  uint64_t size = edgert_tensor_size(from);
  if (size > INT32_MAX) {
    raise(env, EDGERT_UNSUPPORTED, "a tensor of over 2 GiB does not fit into a ByteBuffer");
    return NULL;
  }
  void *data = (void *)(uintptr_t)edgert_tensor_data(from);
  jobject buffer = (*env)->NewDirectByteBuffer(env, size == 0 ? nothing : data, (jlong)size);
  if (buffer == NULL) out_of_memory(env);
  return buffer;
}

/* --- Calls ---------------------------------------------------------------------------------------- */

/* Java's tensors lie in the host's memory; a device that computes elsewhere gets copies of them, and
 * they get copies of what it gives. */
static edgert_status copy_tensor(const edgert_tensor *from, edgert_device *to,
                                 edgert_tensor **out_copy, edgert_error *error) {
  uint64_t size = edgert_tensor_size(from);
  edgert_status status =
      edgert_tensor_create(to, edgert_tensor_type(from), edgert_tensor_rank(from),
                           edgert_tensor_shape(from), out_copy, error);
  if (status != EDGERT_OK) return status;
  void *host = (void *)(uintptr_t)edgert_tensor_data(from);
  void *bytes = host != NULL ? host : malloc((size_t)size + 1);
  if (bytes == NULL) {
    status = EDGERT_OUT_OF_MEMORY;
  } else {
    if (host == NULL) status = edgert_tensor_read(from, bytes, (size_t)size, error);
    if (status == EDGERT_OK) status = edgert_tensor_write(*out_copy, bytes, (size_t)size, error);
  }
  if (host == NULL) free(bytes);
  if (status == EDGERT_OK) return status;
  edgert_tensor_release(*out_copy);
  *out_copy = NULL;
  return status;
}

/* Each tensor replaced by a copy on the device; what was there is released where `is_owned`. */
static edgert_status move_tensors(edgert_value *values, size_t count, edgert_device *to,
                                  int is_owned, edgert_error *error) {
  edgert_status status = EDGERT_OK;
  for (size_t i = 0; i < count; ++i) {
    edgert_tensor *old = values[i].as.tensor, *copy = NULL;
    if (status == EDGERT_OK) status = copy_tensor(old, to, &copy, error);
    if (is_owned) edgert_tensor_release(old);
    values[i].as.tensor = copy;
  }
  return status;
}

/* Refuse plain numbers among results, which Java has no handles for; the tensors are released. */
static edgert_status check_tensors(const edgert_value *results, size_t count,
                                   edgert_error *error) {
  size_t tensors = 0;
  for (size_t i = 0; i < count; ++i) tensors += results[i].kind == EDGERT_TENSOR;
  if (tensors == count) return EDGERT_OK;
  for (size_t i = 0; i < count; ++i)
    if (results[i].kind == EDGERT_TENSOR) edgert_tensor_release(results[i].as.tensor);
  snprintf(error->message, sizeof error->message, "a function gives plain numbers, not tensors");
  return EDGERT_UNSUPPORTED;
}

static edgert_status run(jlong session, jint function, edgert_value *values, size_t given,
                         size_t taken, edgert_device *device, edgert_device *host,
                         edgert_error *error) {
  edgert_value *results = values + given;
  int is_far = device != host;
  edgert_status status = EDGERT_OK;
  if (is_far) status = move_tensors(values, given, device, 0, error);
  if (status == EDGERT_OK)
    status = edgert_session_call(AT(edgert_session, session), (size_t)function, values, given,
                                 results, taken, error);
  for (size_t i = 0; is_far && i < given; ++i) edgert_tensor_release(values[i].as.tensor);
  if (status == EDGERT_OK) status = check_tensors(results, taken, error);
  if (!is_far || status != EDGERT_OK) return status;
  status = move_tensors(results, taken, host, 1, error);
  for (size_t i = 0; status != EDGERT_OK && i < taken; ++i)
    edgert_tensor_release(results[i].as.tensor);
  return status;
}

NATIVE(void, call)
(JNIEnv *env, jclass type, jlong session, jint function, jlongArray inputs, jlongArray outputs,
 jobjectArray kept, jlong device, jlong host) {
  (void)type;
  (void)kept;
  size_t given = (size_t)(*env)->GetArrayLength(env, inputs);
  size_t taken = (size_t)(*env)->GetArrayLength(env, outputs);
  edgert_value *values = calloc(given + taken + 1, sizeof *values);
  jlong *handles = calloc(given + taken + 1, sizeof *handles);
  edgert_error error = {EDGERT_OK, ""};
  if (values == NULL || handles == NULL) {
    out_of_memory(env);
    goto done;
  }
  (*env)->GetLongArrayRegion(env, inputs, 0, (jsize)given, handles);
  for (size_t i = 0; i < given; ++i) {
    values[i].kind = EDGERT_TENSOR;
    values[i].as.tensor = AT(edgert_tensor, handles[i]);
  }
  if (!well(env,
            run(session, function, values, given, taken, AT(edgert_device, device),
                AT(edgert_device, host), &error),
            &error))
    goto done;
  for (size_t i = 0; i < taken; ++i) handles[i] = held(values[given + i].as.tensor);
  (*env)->SetLongArrayRegion(env, outputs, 0, (jsize)taken, handles);
done:
  free(values);
  free(handles);
}

NATIVE(void, prove)(JNIEnv *env, jclass type, jlong session, jstring verdicts) {
  (void)type;
  char *path;
  if (!text_from(env, verdicts, &path)) return;
  edgert_error error = {EDGERT_OK, ""};
  well(env, edgert_session_prove(AT(edgert_session, session), path, &error), &error);
  free(path);
}

#include "edgec_jni_hardware.h"
#if defined(EDGEC_WITH_TEXT)
#include "edgec_jni_text.h"
#endif

NATIVE(void, release)(JNIEnv *env, jclass type, jint kind, jlong handle) {
  (void)env;
  (void)type;
  atomic_fetch_sub(&held_objects, 1);
  switch (kind) {
    case DEVICE:
      edgert_device_release(AT(edgert_device, handle));
      break;
    case MODULE:
      edgert_module_release(AT(edgert_module, handle));
      break;
    case SESSION:
      edgert_session_release(AT(edgert_session, handle));
      break;
    case WEIGHTS:
      edgert_weights_release(AT(edgert_weights, handle));
      break;
#if defined(EDGEC_WITH_TEXT)
    case TEXT:
      edgert_text_model_release(AT(edgert_text_model, handle));
      break;
#endif
    default:
      edgert_tensor_release(AT(edgert_tensor, handle));
  }
}

NATIVE(jlongArray, held)(JNIEnv *env, jclass type) {
  (void)type;
  jlong values[2] = {atomic_load(&held_objects), atomic_load(&held_bytes)};
  jlongArray array = (*env)->NewLongArray(env, 2);
  if (array != NULL) (*env)->SetLongArrayRegion(env, array, 0, 2, values);
  return array;
}
