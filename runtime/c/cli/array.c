#include "array.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SHOWN 12

static size_t array_width(uint32_t type) { return (type & 0xFFFF) / 8; }

static size_t array_count(const array *self) {
  size_t count = 1;
  for (uint32_t i = 0; i < self->rank; ++i) count *= (size_t)self->shape[i];
  return count;
}

int array_reserve(array *self, char *problem) {
  size_t size = array_width(self->type);
  for (uint32_t i = 0; i < self->rank; ++i) {
    if (self->shape[i] < 0 || (self->shape[i] && size > (SIZE_MAX >> 1) / (size_t)self->shape[i])) {
      snprintf(problem, ARRAY_PROBLEM_SIZE, "an array of that shape does not fit into memory");
      return -1;
    }
    size *= (size_t)self->shape[i];
  }
  self->size = size;
  size_t rounded = (size + EDGERT_ALIGNMENT) & ~(size_t)(EDGERT_ALIGNMENT - 1);
  self->data = aligned_alloc(EDGERT_ALIGNMENT, rounded);
  if (!self->data) {
    snprintf(problem, ARRAY_PROBLEM_SIZE, "no memory for %zu bytes", size);
    return -1;
  }
  memset(self->data, 0, rounded);
  return 0;
}

void array_free(array *self) {
  free(self->data);
  self->data = NULL;
}

size_t array_parse_type(array *self, const char *text) {
  const char *at = text;
  self->rank = 0;
  self->type = 0;
  while (isdigit((unsigned char)*at) && self->rank < EDGERT_MAX_RANK) {
    char *end;
    long long size = strtoll(at, &end, 10);
    if (*end != 'x') return 0;
    self->shape[self->rank++] = size;
    at = end + 1;
  }
  size_t length = strcspn(at, "=");
  char name[16];
  if (length >= sizeof name) return 0;
  memcpy(name, at, length);
  name[length] = 0;
  self->type = edgert_type_parse(name);
  return self->type ? (size_t)(at - text) + length : 0;
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* The 16-bit float nearest to a number, halves to even. */
static uint16_t array_to_half(double value) {
  float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  uint32_t sign = bits >> 16 & 0x8000;
  double size = fabs(value);
  if (isnan(value)) return (uint16_t)(sign | 0x7E00);
  if (size >= 65520.0) return (uint16_t)(sign | 0x7C00);
  int exponent;
  frexp(size, &exponent);
  if (size == 0.0) return (uint16_t)sign;
  int step = (exponent < -13 ? -13 : exponent) - 11; /* of the last digit */
  double units = nearbyint(ldexp(size, -step));
  double rounded = ldexp(units, step);
  if (rounded >= 65536.0) return (uint16_t)(sign | 0x7C00);
  frexp(rounded, &exponent);
  if (rounded == 0.0) return (uint16_t)sign;
  if (exponent < -13) return (uint16_t)(sign | (uint32_t)ldexp(rounded, 24));
  return (uint16_t)(sign | ((uint32_t)(exponent + 14) << 10) |
                    ((uint32_t)ldexp(rounded, 11 - exponent) & 0x3FF));
}

static double array_from_half(uint16_t half) {
  int exponent = half >> 10 & 0x1F;
  double mantissa = half & 0x3FF, value;
  if (exponent == 31)
    value = mantissa != 0.0 ? (double)NAN : (double)INFINITY;
  else if (exponent == 0)
    value = ldexp(mantissa, -24);
  else
    value = ldexp(mantissa + 1024, exponent - 25);
  return half >> 15 ? -value : value;
}

static uint16_t array_to_bfloat(double value) {
  float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  if (isnan(single)) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static float array_from_bfloat(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* One number of the text into an element. */
static int array_put(uint32_t type, void *at, const char *word, char *problem) {
  char *end = NULL;
  if (type == EDGERT_BOOL) {
    int truth = strcmp(word, "true") == 0 || strcmp(word, "1") == 0;
    if (!truth && strcmp(word, "false") != 0 && strcmp(word, "0") != 0) goto refuse;
    *(uint8_t *)at = (uint8_t)truth;
    return 0;
  }
  uint32_t kind = type >> 24;
  size_t width = array_width(type);
  if (kind == 0x11 || kind == 0x12) {
    int is_unsigned = kind == 0x12;
    unsigned long long bits = is_unsigned ? strtoull(word, &end, 0)
                                          : (unsigned long long)strtoll(word, &end, 0);
    if (end == word || *end || (is_unsigned && word[0] == '-')) goto refuse;
    if (width < 8) {
      long long low = is_unsigned ? 0 : -(1LL << (8 * width - 1));
      long long high = (1LL << (8 * width - (is_unsigned ? 0 : 1))) - 1;
      if ((long long)bits < low || (long long)bits > high) goto refuse;
    }
    uint64_t value = bits;
    memcpy(at, &value, width);
    return 0;
  }
  double value = strtod(word, &end);
  if (end == word || *end) goto refuse;
  if (type == EDGERT_F64) {
    memcpy(at, &value, sizeof value);
  } else if (type == EDGERT_F32) {
    float single = (float)value;
    memcpy(at, &single, sizeof single);
  } else if (type == EDGERT_F16 || type == EDGERT_BF16) {
    uint16_t half = type == EDGERT_F16 ? array_to_half(value) : array_to_bfloat(value);
    memcpy(at, &half, sizeof half);
  } else {
    snprintf(problem, ARRAY_PROBLEM_SIZE, "%s values come from files", edgert_type_name(type));
    return -1;
  }
  return 0;
refuse:
  snprintf(problem, ARRAY_PROBLEM_SIZE, "'%.40s' is no %s number", word, edgert_type_name(type));
  return -1;
}

int array_parse_values(array *self, const char *text, char *problem) {
  size_t count = array_count(self), found = 0, width = array_width(self->type);
  uint8_t *data = self->data;
  const char *separators = " \t\n,[]";
  for (const char *at = text + strspn(text, separators); *at;) {
    size_t length = strcspn(at, separators);
    char word[64];
    if (length >= sizeof word) {
      snprintf(problem, ARRAY_PROBLEM_SIZE, "'%.40s' is no number", at);
      return -1;
    }
    memcpy(word, at, length);
    word[length] = 0;
    uint8_t spare[16]; /* for a number too many */
    if (array_put(self->type, found < count ? data + found * width : spare, word, problem) != 0)
      return -1;
    ++found;
    at += length;
    at += strspn(at, separators);
  }
  if (found == 1 && !strchr(text, '[')) {
    for (size_t i = 1; i < count; ++i) memcpy(data + i * width, data, width);
    return 0;
  }
  if (found == count) return 0;
  snprintf(problem, ARRAY_PROBLEM_SIZE, "%zu numbers are needed and %zu were given", count, found);
  return -1;
}

/* --- files ------------------------------------------------------------------------------------ */

static const struct {
  const char *descr;
  uint32_t type;
} array_npy_types[] = {
    {"|b1", EDGERT_BOOL}, {"|i1", EDGERT_I8},  {"<i2", EDGERT_I16}, {"<i4", EDGERT_I32},
    {"<i8", EDGERT_I64},  {"|u1", EDGERT_U8},  {"<u2", EDGERT_U16}, {"<u4", EDGERT_U32},
    {"<u8", EDGERT_U64},  {"<f2", EDGERT_F16}, {"<f4", EDGERT_F32}, {"<f8", EDGERT_F64},
    {"<c8", EDGERT_C64},  {"<c16", EDGERT_C128}, {"<V2", EDGERT_BF16},
};

static const char *array_descr(uint32_t type) {
  if (type >> 24 == 0x10) type += 0x01000000; /* integers without a sign of their own */
  for (size_t i = 0; i < sizeof array_npy_types / sizeof *array_npy_types; ++i)
    if (array_npy_types[i].type == type) return array_npy_types[i].descr;
  return NULL;
}

/* The header's dictionary into type and shape. */
static int array_parse_header(array *self, const char *header) {
  const char *descr = strstr(header, "'descr':");
  const char *order = strstr(header, "'fortran_order':");
  const char *shape = strstr(header, "'shape':");
  if (!descr || !order || !shape || strncmp(order + 16 + strspn(order + 16, " "), "False", 5) != 0)
    return -1;
  descr = strchr(descr + 8, '\'');
  shape = strchr(shape, '(');
  if (!descr || !shape) return -1;
  size_t length = strcspn(++descr, "'");
  self->type = 0;
  for (size_t i = 0; i < sizeof array_npy_types / sizeof *array_npy_types; ++i)
    if (strlen(array_npy_types[i].descr) == length &&
        strncmp(descr, array_npy_types[i].descr, length) == 0)
      self->type = array_npy_types[i].type;
  self->rank = 0;
  for (const char *at = shape + 1; *at && *at != ')';) {
    char *end;
    long long size = strtoll(at, &end, 10);
    if (end == at || size < 0 || self->rank == EDGERT_MAX_RANK) return -1;
    self->shape[self->rank++] = size;
    at = end + strspn(end, ", ");
  }
  return self->type ? 0 : -1;
}

static int array_read_body(array *self, FILE *file, const char *path, char *problem) {
  if (array_reserve(self, problem) != 0) return -1;
  if (fread(self->data, 1, self->size, file) == self->size && fgetc(file) == EOF) return 0;
  snprintf(problem, ARRAY_PROBLEM_SIZE, "%.100s does not hold %zu bytes of numbers", path,
           self->size);
  array_free(self);
  return -1;
}

int array_read_npy(array *self, const char *path, char *problem) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    snprintf(problem, ARRAY_PROBLEM_SIZE, "cannot open %.200s", path);
    return -1;
  }
  uint8_t start[12];
  char header[4096];
  int result = -1;
  if (fread(start, 1, 10, file) == 10 && memcmp(start, "\x93NUMPY", 6) == 0) {
    size_t size = (size_t)start[8] | (size_t)start[9] << 8;
    int is_long = start[6] >= 2;
    if (!is_long || (fread(start + 10, 1, 2, file) == 2 && !start[10] && !start[11])) {
      if (size < sizeof header && fread(header, 1, size, file) == size) {
        header[size] = 0;
        result = array_parse_header(self, header);
      }
    }
  }
  if (result != 0)
    snprintf(problem, ARRAY_PROBLEM_SIZE, "%.100s is no .npy file of plain numbers in C order",
             path);
  else
    result = array_read_body(self, file, path, problem);
  fclose(file);
  return result;
}

int array_read_raw(array *self, const char *path, char *problem) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    snprintf(problem, ARRAY_PROBLEM_SIZE, "cannot open %.200s", path);
    return -1;
  }
  int result = array_read_body(self, file, path, problem);
  fclose(file);
  return result;
}

/* A `.npy` header of 128 bytes or a multiple. */
static size_t array_header(const array *self, char out[1024]) {
  char shape[512] = "";
  size_t at = 0;
  for (uint32_t i = 0; i < self->rank; ++i)
    at += (size_t)snprintf(shape + at, sizeof shape - at, "%" PRId64 "%s", self->shape[i],
                           i + 1 < self->rank ? ", " : self->rank == 1 ? "," : "");
  int length = snprintf(out + 10, 1000, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                        array_descr(self->type), shape);
  size_t total = ((size_t)length + 11 + 63) & ~(size_t)63;
  memset(out + 10 + length, ' ', total - 10 - (size_t)length - 1);
  out[total - 1] = '\n';
  memcpy(out, "\x93NUMPY\x01\x00", 8);
  out[8] = (char)((total - 10) & 0xFF);
  out[9] = (char)((total - 10) >> 8);
  return total;
}

static uint32_t array_crc(uint32_t crc, const uint8_t *data, size_t size) {
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xEDB88320u & (0 - (crc & 1)));
  }
  return ~crc;
}

static size_t array_put_number(uint8_t *out, size_t at, uint64_t value, size_t width) {
  memcpy(out + at, &value, width);
  return at + width;
}

/* A zip's local header (central 0) or directory entry (1) of a stored member. */
static size_t array_zip_entry(uint8_t *out, int central, const char *name, uint32_t crc,
                              uint32_t size, uint32_t offset) {
  size_t at = array_put_number(out, 0, central ? 0x02014B50u : 0x04034B50u, 4);
  if (central) at = array_put_number(out, at, 20, 2);
  at = array_put_number(out, at, 20, 2);
  at = array_put_number(out, at, 0, 4);           /* flags, stored */
  at = array_put_number(out, at, 0x00210000u, 4); /* the first of January 1980 */
  at = array_put_number(out, at, crc, 4);
  at = array_put_number(out, at, size, 4);
  at = array_put_number(out, at, size, 4);
  at = array_put_number(out, at, strlen(name), 2);
  at = array_put_number(out, at, 0, 2);
  if (central) {
    at = array_put_number(out, at, 0, 8);
    at = array_put_number(out, at, 0, 2);
    at = array_put_number(out, at, offset, 4);
  }
  memcpy(out + at, name, strlen(name));
  return at + strlen(name);
}

static int array_write_archive(FILE *file, const array *arrays, const char *const *names,
                               size_t count) {
  uint8_t *directory = calloc(count ? count : 1, 512);
  size_t directory_size = 0, offset = 0;
  if (!directory) return -1;
  int good = 1;
  for (size_t i = 0; i < count; ++i) {
    char header[1024], name[200];
    uint8_t entry[512];
    size_t header_size = array_header(&arrays[i], header);
    snprintf(name, sizeof name, "%.180s.npy", names[i]);
    uint32_t crc = array_crc(0, (const uint8_t *)header, header_size);
    crc = array_crc(crc, arrays[i].data, arrays[i].size);
    uint32_t size = (uint32_t)(header_size + arrays[i].size);
    size_t entry_size = array_zip_entry(entry, 0, name, crc, size, 0);
    good &= fwrite(entry, 1, entry_size, file) == entry_size;
    good &= fwrite(header, 1, header_size, file) == header_size;
    good &= fwrite(arrays[i].data, 1, arrays[i].size, file) == arrays[i].size;
    directory_size +=
        array_zip_entry(directory + directory_size, 1, name, crc, size, (uint32_t)offset);
    offset += entry_size + size;
  }
  uint8_t end[32];
  size_t at = array_put_number(end, 0, 0x06054B50u, 4);
  at = array_put_number(end, at, 0, 4);
  at = array_put_number(end, at, count, 2);
  at = array_put_number(end, at, count, 2);
  at = array_put_number(end, at, directory_size, 4);
  at = array_put_number(end, at, offset, 4);
  at = array_put_number(end, at, 0, 2);
  good &= fwrite(directory, 1, directory_size, file) == directory_size;
  good &= fwrite(end, 1, at, file) == at;
  free(directory);
  return good ? 0 : -1;
}

/* As NumPy can read it: bf16 becomes f32, which holds every bf16 exactly. */
static int array_plain(const array *self, array *out, char *problem) {
  *out = *self;
  if (self->type != EDGERT_BF16) return 0;
  out->type = EDGERT_F32;
  if (array_reserve(out, problem) != 0) return -1;
  for (size_t i = 0; i < array_count(self); ++i) {
    uint16_t half;
    memcpy(&half, (const uint8_t *)self->data + 2 * i, sizeof half);
    float value = array_from_bfloat(half);
    memcpy((uint8_t *)out->data + 4 * i, &value, sizeof value);
  }
  return 0;
}

/* 0, or -1 with the reason in `errno`. */
static int array_write_file(const char *path, int single, const array *arrays,
                            const char *const *names, size_t count) {
  FILE *file = fopen(path, "wb");
  if (!file) return -1;
  int result = -1;
  if (single) {
    char header[1024];
    size_t size = array_header(&arrays[0], header);
    if (fwrite(header, 1, size, file) == size &&
        fwrite(arrays[0].data, 1, arrays[0].size, file) == arrays[0].size)
      result = 0;
  } else {
    result = array_write_archive(file, arrays, names, count);
  }
  int reason = errno;
  if (fclose(file) != 0) return -1;
  errno = reason;
  return result;
}

int array_write(const char *path, const array *arrays, const char *const *names, size_t count,
                char *problem) {
  size_t length = strlen(path);
  int single = length > 4 && strcmp(path + length - 4, ".npy") == 0;
  array *plain = calloc(count ? count : 1, sizeof *plain);
  int result = plain ? 0 : -1;
  if (!plain) snprintf(problem, ARRAY_PROBLEM_SIZE, "no memory to write %.150s", path);
  for (size_t i = 0; i < count && result == 0; ++i) {
    result = array_plain(&arrays[i], &plain[i], problem);
    if (result == 0 && !array_descr(plain[i].type)) {
      snprintf(problem, ARRAY_PROBLEM_SIZE, "NumPy has no type for %s", names[i]);
      result = -1;
    }
  }
  if (result == 0 && single && count != 1) {
    snprintf(problem, ARRAY_PROBLEM_SIZE, "%.150s holds one array: use .npz", path);
    result = -1;
  }
  if (result == 0 && array_write_file(path, single, plain, names, count) != 0) {
    snprintf(problem, ARRAY_PROBLEM_SIZE, "cannot write %.150s: %.60s", path, strerror(errno));
    result = -1;
  }
  for (size_t i = 0; plain && i < count; ++i)
    if (plain[i].data != arrays[i].data) array_free(&plain[i]);
  free(plain);
  return result;
}

/* --- printing --------------------------------------------------------------------------------- */

static void array_print_element(FILE *stream, uint32_t type, const uint8_t *at) {
  uint32_t kind = type >> 24;
  size_t width = array_width(type);
  if (kind == 0x13) {
    fputs(*at ? "True" : "False", stream);
  } else if (kind == 0x12) {
    uint64_t value = 0;
    memcpy(&value, at, width);
    fprintf(stream, "%" PRIu64, value);
  } else if (kind == 0x10 || kind == 0x11) {
    uint64_t bits = 0;
    memcpy(&bits, at, width);
    if (width < 8 && bits >> (8 * width - 1)) bits |= UINT64_MAX << (8 * width);
    int64_t value;
    memcpy(&value, &bits, sizeof value);
    fprintf(stream, "%" PRId64, value);
  } else if (width == 2) {
    uint16_t half;
    memcpy(&half, at, sizeof half);
    fprintf(stream, "%.6g", kind == 0x22 ? (double)array_from_bfloat(half) : array_from_half(half));
  } else if (kind == 0x21 && width == 4) {
    float value;
    memcpy(&value, at, sizeof value);
    fprintf(stream, "%.6g", (double)value);
  } else if (kind == 0x21 && width == 8) {
    double value;
    memcpy(&value, at, sizeof value);
    fprintf(stream, "%.6g", value);
  } else {
    fputs("?", stream);
  }
}

void array_print(FILE *stream, const char *name, const array *self) {
  size_t count = array_count(self);
  fprintf(stream, "%s: %s[", name, edgert_type_name(self->type));
  for (uint32_t i = 0; i < self->rank; ++i)
    fprintf(stream, "%s%" PRId64, i ? ", " : "", self->shape[i]);
  fputs("] = ", stream);
  if (self->rank) fputs("[", stream);
  for (size_t i = 0; i < count; ++i) {
    if (i) fputs(", ", stream);
    if (count > ARRAY_SHOWN && i == ARRAY_SHOWN / 2) {
      fputs("..., ", stream);
      i = count - ARRAY_SHOWN / 2;
    }
    array_print_element(stream, self->type,
                        (const uint8_t *)self->data + i * array_width(self->type));
  }
  if (self->rank) fputs("]", stream);
  fputs("\n", stream);
}
