// A matrix in blocks, by the number that SET ends its names with, and its product with a piece of a
// row.
layout(binding = SET(CODES_AT)) readonly buffer SET(Codes) { uvec4 SET(codes)[]; };
layout(binding = SET(SCALE_AT)) readonly buffer SET(Scale) { uint SET(scale)[]; };
#if SCALE_BY > 0
layout(binding = SET(SCALE_BY_AT)) readonly buffer SET(ScaleBy) { uint SET(scale_by)[]; };
#endif
#if LEAST_BITS > 0
layout(binding = SET(LEAST_AT)) readonly buffer SET(Least) { uint SET(least)[]; };
#endif
#if LEAST_BY > 0
layout(binding = SET(LEAST_BY_AT)) readonly buffer SET(LeastBy) { uint SET(least_by)[]; };
#endif

float SET(product)(int own, int piece, Piece held) {
  own = min(own, SET(outputs) - 1);
  int group = own * GROUPS + piece * (ROOMS * 4) / GROUP;
  float scaled = SCALE_NUMBER(SET(scale), group);
#if SCALE_BY > 0
  scaled *= SCALE_FACTOR(SET(scale_by), group / SCALE_SHARED);
#endif
  float codes = dotted(SET(codes)[own * PIECES + piece], held);
  float total = (codes - intBitsToFloat(ZERO_BITS) * held.plain) * scaled;
#if LEAST_BITS > 0
  float least = LEAST_NUMBER(SET(least), group);
#if LEAST_BY > 0
  least *= LEAST_FACTOR(SET(least_by), group / LEAST_SHARED);
#endif
  total += least * held.plain;
#endif
  return total;
}
