// A matrix in blocks, by the number that SET ends its names with, and the numbers of its groups.
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

float SET(scaled)(int group) {
  float number = SCALE_NUMBER(SET(scale), group);
#if SCALE_BY > 0
  number *= SCALE_FACTOR(SET(scale_by), group / SCALE_SHARED);
#endif
  return number;
}

#if LEAST_BITS > 0
float SET(lowest)(int group) {
  float number = LEAST_NUMBER(SET(least), group);
#if LEAST_BY > 0
  number *= LEAST_FACTOR(SET(least_by), group / LEAST_SHARED);
#endif
  return number;
}
#endif
