// Codes of a word as f32, each times 2 to its place in the word, which `places` undoes exactly.
//
// A code among the low bits of 2^23 is that code as soon as 2^23 is taken away. To turn an integer to
// f32 takes NVIDIA's GPUs as long as eight other instructions, and others no less than this.

// Four codes: of four bits the first or second half of a word's.
vec4 four(uint word, int second) {
#if BITS == 8
  // The sign's bit is turned, so that all are above zero, by 128 times 2 to the place.
  uvec2 half_ = uvec2(word, word >> 16) ^ 0x8080u;
  uvec4 bits = half_.xxyy & uvec4(0xFFu, 0xFF00u, 0xFFu, 0xFF00u);
  return uintBitsToFloat(bits | 0x4B000000u) - vec4(8388736.0, 8421376.0, 8388736.0, 8421376.0);
#else
#if SPAN == 2
  uvec4 bits = uvec4(word >> (second * 16)) & uvec4(0xFu, 0xF0u, 0xF00u, 0xF000u);
#else
  uvec2 half_ = uvec2(word, word >> 16);
  uvec4 bits = half_.xxyy & (uvec4(0xFu, 0xF00u, 0xFu, 0xF00u) << (second * 4));
#endif
  return uintBitsToFloat(bits | 0x4B000000u) - 8388608.0;
#endif
}

// What they are multiplied by to be codes.
vec4 places(int second) {
#if BITS == 8
  return vec4(1.0, 1.0 / 256.0, 1.0, 1.0 / 256.0);
#elif SPAN == 2
  return vec4(1.0, 1.0 / 16.0, 1.0 / 256.0, 1.0 / 4096.0);
#else
  return vec4(1.0, 1.0 / 256.0, 1.0, 1.0 / 256.0) * (second == 0 ? 1.0 : 1.0 / 16.0);
#endif
}

// Which four of the row, among those for 16 bytes of codes, they are multiplied with.
int room(int word, int second) {
#if BITS == 8
  return word;
#elif SPAN == 2
  return word * 2 + second;
#else
  const int HALF_SPAN = SPAN / 2;
  return word * 4 / HALF_SPAN * (SPAN / 4) + word * 4 % HALF_SPAN / 4 + second * (HALF_SPAN / 4);
#endif
}
