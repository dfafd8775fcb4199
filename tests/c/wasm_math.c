/* Calls a function of floats on numbers: `wasm_math NAME BITS...` prints the bits of each result.
 * Bits are in hexadecimal; functions of two numbers take two at a time. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONE(X) X(exp2) X(log) X(log2) X(log10) X(tanh) X(log1p) X(expm1) X(cbrt)
#define TWO(X) X(pow) X(remainder) X(atan2)
#define ONE_F(X) X(expf) X(logf) X(tanhf) X(sinf) X(exp2f)
#define TWO_F(X) X(powf) X(atan2f) X(fmodf)

static double number(const char *text) {
  uint64_t bits = strtoull(text, NULL, 16);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void print(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  printf("%016llx\n", (unsigned long long)bits);
}

#define CALL_ONE(name) \
  if (!strcmp(words[1], #name)) for (int i = 2; i < count; ++i) print(name(number(words[i])));
#define CALL_TWO(name)              \
  if (!strcmp(words[1], #name))     \
    for (int i = 2; i + 1 < count; i += 2) print(name(number(words[i]), number(words[i + 1])));
#define CALL_ONE_F(name)        \
  if (!strcmp(words[1], #name)) \
    for (int i = 2; i < count; ++i) print((double)name((float)number(words[i])));
#define CALL_TWO_F(name)            \
  if (!strcmp(words[1], #name))     \
    for (int i = 2; i + 1 < count; i += 2) \
      print((double)name((float)number(words[i]), (float)number(words[i + 1])));

int main(int count, char **words) {
  if (count < 2) return 2;
  ONE(CALL_ONE)
  TWO(CALL_TWO)
  ONE_F(CALL_ONE_F)
  TWO_F(CALL_TWO_F)
  return 0;
}
