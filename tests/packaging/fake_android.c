/* `libandroid.so` and `libnativewindow.so` without Android: a HardwareBuffer is a direct buffer of
 * Java's, whose head says what it is (`tests/packaging/java/android/hardware/HardwareBuffer.java`). */
#include <jni.h>
#include <stdint.h>

typedef struct facts {
  uint32_t width, height, layers, format;
  uint64_t usage;
  uint32_t stride, reserved0;
  uint64_t reserved1;
} facts;

enum { FORMAT, WIDTH, HEIGHT, LAYERS, STRIDE, USAGE, LOCKABLE, LOCKS, HEAD = 16 };

void *AHardwareBuffer_fromHardwareBuffer(JNIEnv *env, jobject buffer) {
  jclass type = (*env)->GetObjectClass(env, buffer);
  jfieldID field = (*env)->GetFieldID(env, type, "memory", "Ljava/nio/ByteBuffer;");
  return (*env)->GetDirectBufferAddress(env, (*env)->GetObjectField(env, buffer, field));
}

void AHardwareBuffer_describe(const void *buffer, facts *out) {
  const int32_t *head = buffer;
  *out = (facts){(uint32_t)head[WIDTH],  (uint32_t)head[HEIGHT], (uint32_t)head[LAYERS],
                 (uint32_t)head[FORMAT], (uint64_t)head[USAGE],  (uint32_t)head[STRIDE],
                 0,                      0};
}

int AHardwareBuffer_lock(void *buffer, uint64_t usage, int32_t fence, const void *area,
                         void **out) {
  int32_t *head = buffer;
  if (!head[LOCKABLE] || usage != 3 || fence != -1 || area) return -22;
  head[LOCKS] += 1;
  *out = head + HEAD;
  return 0;
}

int AHardwareBuffer_unlock(void *buffer, int32_t *fence) {
  int32_t *head = buffer;
  head[LOCKS] -= 1;
  return fence ? -22 : 0;
}
