// Scales and least values as they lie in memory, in words; each as f32.

float number_32(uint word) { return uintBitsToFloat(word); }
float number_16(uint word, int at) { return unpackHalf2x16(word >> ((at & 1) * 16)).x; }
float number_8(uint word, int at) { return float(int(word << (24 - (at & 3) * 8)) >> 24); }

#if SCALE_BITS == 32
#define SCALE_NUMBER(of, at) number_32(of[at])
#elif SCALE_BITS == 16
#define SCALE_NUMBER(of, at) number_16(of[(at) / 2], at)
#else
#define SCALE_NUMBER(of, at) number_8(of[(at) / 4], at)
#endif
#if SCALE_BY == 32
#define SCALE_FACTOR(of, at) number_32(of[at])
#else
#define SCALE_FACTOR(of, at) number_16(of[(at) / 2], at)
#endif
#if LEAST_BITS == 32
#define LEAST_NUMBER(of, at) number_32(of[at])
#elif LEAST_BITS == 16
#define LEAST_NUMBER(of, at) number_16(of[(at) / 2], at)
#else
#define LEAST_NUMBER(of, at) number_8(of[(at) / 4], at)
#endif
#if LEAST_BY == 32
#define LEAST_FACTOR(of, at) number_32(of[at])
#else
#define LEAST_FACTOR(of, at) number_16(of[(at) / 2], at)
#endif
