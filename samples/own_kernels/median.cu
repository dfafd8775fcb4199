// The median of each pixel and its eight neighbours; a thread a pixel.
__device__ float at(const float *picture, int y, int x) {
  return picture[min(max(y, 0), IN0_DIM0 - 1) * IN0_DIM1 + min(max(x, 0), IN0_DIM1 - 1)];
}

__device__ void order(float &a, float &b) {
  float low = fminf(a, b);
  b = fmaxf(a, b);
  a = low;
}

__global__ void median(const float *picture, float *filtered) {
  int place = blockIdx.x * blockDim.x + threadIdx.x;
  if (place >= IN0_SIZE) return;
  int y = place / IN0_DIM1, x = place % IN0_DIM1;
  float a = at(picture, y - 1, x - 1), b = at(picture, y - 1, x), c = at(picture, y - 1, x + 1);
  float d = at(picture, y, x - 1), e = at(picture, y, x), f = at(picture, y, x + 1);
  float g = at(picture, y + 1, x - 1), h = at(picture, y + 1, x), i = at(picture, y + 1, x + 1);
  order(b, c), order(e, f), order(h, i);
  order(a, b), order(d, e), order(g, h);
  order(b, c), order(e, f), order(h, i);
  order(a, d), order(f, i), order(e, h);
  order(d, g), order(b, e), order(c, f);
  order(e, h), order(e, c), order(g, e), order(e, c);
  filtered[place] = e;
}
