// The product of an output of a matrix in blocks (`block_set.glsl`) with a piece of a row.
float SET(product)(int own, int piece, Piece held) {
  own = min(own, SET(outputs) - 1);
  int group = own * GROUPS + piece * (ROOMS * 4) / GROUP;
  float codes = dotted(SET(codes)[own * PIECES + piece], held);
  float total = (codes - intBitsToFloat(ZERO_BITS) * held.plain) * SET(scaled)(group);
#if LEAST_BITS > 0
  total += SET(lowest)(group) * held.plain;
#endif
  return total;
}
