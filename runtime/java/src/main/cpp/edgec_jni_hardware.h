/* The function of dev.edgec.Native for Android's HardwareBuffer: what a camera or a decoder gives,
 * copied into a tensor. Android has these functions from API 26 on, and packages begin at 24, so they
 * are looked for when one is used; there and elsewhere it is a failure with its reason. */
#if !defined(_WIN32)
#include <dlfcn.h>
#endif

/* From the NDK's reference of AHardwareBuffer. */
typedef struct hardware_facts {
  uint32_t width, height, layers, format;
  uint64_t usage;
  uint32_t stride; /* pixels */
  uint32_t reserved0;
  uint64_t reserved1;
} hardware_facts;

enum { HARDWARE_RGBA = 1, HARDWARE_RGBX = 2, HARDWARE_RGB = 3, HARDWARE_BLOB = 0x21 };
#define HARDWARE_READ_OFTEN UINT64_C(3)

typedef struct hardware_library {
  void *(*from_java)(JNIEnv *env, jobject buffer); /* no reference of its own */
  void (*describe)(const void *buffer, hardware_facts *out);
  int (*lock)(void *buffer, uint64_t usage, int32_t fence, const void *area, void **out);
  int (*unlock)(void *buffer, int32_t *fence);
} hardware_library;

static edgert_status hardware_fail(edgert_error *error, edgert_status status, const char *message) {
  error->status = status;
  snprintf(error->message, sizeof error->message, "%s", message);
  return status;
}

static edgert_status hardware_open(hardware_library *out, edgert_error *error) {
#if !defined(_WIN32)
  /* The system's own, which stay loaded: nothing is given back. */
  void *java = dlopen("libandroid.so", RTLD_NOW | RTLD_LOCAL);
  void *native = dlopen("libnativewindow.so", RTLD_NOW | RTLD_LOCAL);
  const struct {
    void *library, *out;
    const char *name;
  } wanted[] = {{java, &out->from_java, "AHardwareBuffer_fromHardwareBuffer"},
                {native, &out->describe, "AHardwareBuffer_describe"},
                {native, &out->lock, "AHardwareBuffer_lock"},
                {native, &out->unlock, "AHardwareBuffer_unlock"}};
  size_t found = 0;
  for (; found < sizeof wanted / sizeof *wanted; ++found) {
    void *symbol = wanted[found].library ? dlsym(wanted[found].library, wanted[found].name) : NULL;
    if (symbol == NULL) break;
    memcpy(wanted[found].out, &symbol, sizeof symbol);
  }
  if (found == sizeof wanted / sizeof *wanted) return EDGERT_OK;
#endif
  memset(out, 0, sizeof *out);
  return hardware_fail(error, EDGERT_UNSUPPORTED,
                       "this system has no HardwareBuffer: Android has it from version 8 on");
}

/* How an image lies in a tensor: bytes of a pixel there, and steps in numbers. */
typedef struct hardware_image {
  size_t height, width, channels, row, pixel, channel;
} hardware_image;

/* Sizes h, w, c or c, h, w, behind any that are 1; 0 where they are not those of the buffer. */
static int hardware_fits(const edgert_tensor *tensor, const hardware_facts *facts,
                         hardware_image *out) {
  size_t rank = edgert_tensor_rank(tensor);
  const int64_t *shape = edgert_tensor_shape(tensor);
  uint64_t most = facts->format == HARDWARE_RGBA ? 4 : 3; /* X is nothing */
  for (; rank > 3 && shape[0] == 1; --rank) ++shape;
  if (rank != 3) return 0;
  const uint64_t a = (uint64_t)shape[0], b = (uint64_t)shape[1], c = (uint64_t)shape[2];
  if (a == facts->height && b == facts->width && c >= 3 && c <= most)
    *out = (hardware_image){a, b, c, b * c, c, 1};
  else if (b == facts->height && c == facts->width && a >= 3 && a <= most)
    *out = (hardware_image){b, c, a, c, 1, b * c};
  else
    return 0;
  return 1;
}

static void hardware_copy(const hardware_image *image, const hardware_facts *facts,
                          const uint8_t *from, int is_float, float scale, float shift, void *to) {
  const size_t step = facts->format == HARDWARE_RGB ? 3 : 4;
  for (size_t y = 0; y < image->height; ++y)
    for (size_t x = 0; x < image->width; ++x)
      for (size_t c = 0; c < image->channels; ++c) {
        const uint8_t value = from[(y * facts->stride + x) * step + c];
        const size_t at = y * image->row + x * image->pixel + c * image->channel;
        if (is_float)
          ((float *)to)[at] = (float)value * scale + shift;
        else
          ((uint8_t *)to)[at] = value;
      }
}

/* What of the buffer cannot go into the tensor, or EDGERT_OK and where it goes. */
static edgert_status hardware_check(const edgert_tensor *tensor, const hardware_facts *facts,
                                    hardware_image *image, edgert_error *error) {
  const uint32_t type = edgert_tensor_type(tensor);
  if (facts->layers != 1)
    return hardware_fail(error, EDGERT_UNSUPPORTED, "the buffer has several layers");
  if (!(facts->usage & HARDWARE_READ_OFTEN))
    return hardware_fail(error, EDGERT_INVALID_ARGUMENT,
                         "the buffer is not for reading: make it with USAGE_CPU_READ_OFTEN");
  if (facts->format == HARDWARE_BLOB) {
    if (facts->width == edgert_tensor_size(tensor)) return EDGERT_OK;
    snprintf(error->message, sizeof error->message,
             "the buffer is a blob of %u bytes, and the tensor has %llu", (unsigned)facts->width,
             (unsigned long long)edgert_tensor_size(tensor));
    return EDGERT_INVALID_ARGUMENT;
  }
  if (facts->format < HARDWARE_RGBA || facts->format > HARDWARE_RGB) {
    snprintf(error->message, sizeof error->message,
             "the buffer's format is %u; RGBA_8888, RGBX_8888, RGB_888 and BLOB are taken",
             (unsigned)facts->format);
    return EDGERT_UNSUPPORTED;
  }
  if (type != EDGERT_U8 && type != EDGERT_F32)
    return hardware_fail(error, EDGERT_INVALID_ARGUMENT,
                         "an image goes into a tensor of u8 or f32");
  if (hardware_fits(tensor, facts, image)) return EDGERT_OK;
  snprintf(error->message, sizeof error->message,
           "an image of %u x %u does not fit: the tensor has to be %ux%ux3 or 3x%ux%u (height, "
           "width), or with 4 where there is alpha; scale the image before",
           (unsigned)facts->width, (unsigned)facts->height, (unsigned)facts->height,
           (unsigned)facts->width, (unsigned)facts->height, (unsigned)facts->width);
  return EDGERT_INVALID_ARGUMENT;
}

NATIVE(void, tensorHardware)
(JNIEnv *env, jclass type, jlong tensor, jobject buffer, jfloat scale, jfloat shift) {
  (void)type;
  edgert_error error = {EDGERT_OK, ""};
  hardware_library library;
  hardware_facts facts = {0};
  hardware_image image = {0};
  edgert_tensor *to = AT(edgert_tensor, tensor);
  if (!well(env, hardware_open(&library, &error), &error)) return;
  void *from = library.from_java(env, buffer), *bytes = NULL;
  if (from == NULL) {
    raise(env, EDGERT_INVALID_ARGUMENT, "a HardwareBuffer that is open is needed");
    return;
  }
  library.describe(from, &facts);
  if (!well(env, hardware_check(to, &facts, &image, &error), &error)) return;
  if (library.lock(from, HARDWARE_READ_OFTEN, -1, NULL, &bytes) != 0 || bytes == NULL) {
    raise(env, EDGERT_DEVICE_FAILED, "the buffer cannot be read: Android does not lock it");
    return;
  }
  void *data = (void *)(uintptr_t)edgert_tensor_data(to);
  if (facts.format == HARDWARE_BLOB)
    memcpy(data, bytes, (size_t)edgert_tensor_size(to));
  else
    hardware_copy(&image, &facts, bytes, edgert_tensor_type(to) == EDGERT_F32, scale, shift, data);
  (void)library.unlock(from, NULL);
}
