// What is put into an array, by the number that SET ends its names with.
//
// With a WIDTH these are rows of so many elements, each turned with the one half a row apart; rows of
// FACTORS numbers hold cosines and sines, and begin anew after SPAN of them.
layout(binding = SET(X_AT)) readonly buffer SET(X) { ELEMENT SET(x)[]; };
layout(binding = SET(Y_AT)) writeonly buffer SET(Y) { WRITTEN SET(y)[]; };
#if WIDTH > 0
layout(binding = SET(COSINE_AT)) readonly buffer SET(Cosine) { ELEMENT SET(cosine)[]; };
layout(binding = SET(SINE_AT)) readonly buffer SET(Sine) { ELEMENT SET(sine)[]; };
#endif

ELEMENT SET(part)(int index) {
#if WIDTH > 0
  int column = index % WIDTH;
  bool first = column < WIDTH / 2;
  float other = float(SET(x)[index + (first ? WIDTH / 2 : -WIDTH / 2)]);
  int at = (index / WIDTH * SET(FACTORS) + column % SET(FACTORS)) % SET(SPAN);
  float along = float(SET(x)[index]) * float(SET(cosine)[at]);
  return ELEMENT(along + (first ? -other : other) * float(SET(sine)[at]));
#else
  return SET(x)[index];
#endif
}
