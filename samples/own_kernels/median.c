/* The median of each pixel and its eight neighbours, by a network of 19 exchanges.
 *
 * Pixels beyond the edge are those at the edge. Each group does its share of the rows, so that
 * threads may do several groups at a time. */

static inline void order(float *a, float *b) {
  float low = *a < *b ? *a : *b;
  *b = *a < *b ? *b : *a;
  *a = low;
}

void median(const float *restrict picture, float *restrict filtered, int group) {
  const int height = IN0_DIM0, width = IN0_DIM1;
  for (int y = group * height / GROUPS; y < (group + 1) * height / GROUPS; y++) {
    const float *above = picture + (y > 0 ? y - 1 : 0) * width;
    const float *here = picture + y * width;
    const float *below = picture + (y + 1 < height ? y + 1 : y) * width;
    for (int x = 0; x < width; x++) {
      const int left = x > 0 ? x - 1 : 0, right = x + 1 < width ? x + 1 : x;
      float a = above[left], b = above[x], c = above[right];
      float d = here[left], e = here[x], f = here[right];
      float g = below[left], h = below[x], i = below[right];
      order(&b, &c), order(&e, &f), order(&h, &i);
      order(&a, &b), order(&d, &e), order(&g, &h);
      order(&b, &c), order(&e, &f), order(&h, &i);
      order(&a, &d), order(&f, &i), order(&e, &h);
      order(&d, &g), order(&b, &e), order(&c, &f);
      order(&e, &h), order(&e, &c), order(&g, &e), order(&e, &c);
      filtered[y * width + x] = e;
    }
  }
}
