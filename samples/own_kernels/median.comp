// The median of each pixel and its eight neighbours; a thread a pixel.
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Picture { float picture[]; };
layout(set = 0, binding = 1) writeonly buffer Filtered { float filtered[]; };

const int HEIGHT = IN0_DIM0, WIDTH = IN0_DIM1;

float at(int y, int x) {
  return picture[clamp(y, 0, HEIGHT - 1) * WIDTH + clamp(x, 0, WIDTH - 1)];
}

void order(inout float a, inout float b) {
  float low = min(a, b);
  b = max(a, b);
  a = low;
}

void main() {
  int place = int(gl_GlobalInvocationID.x);
  if (place >= HEIGHT * WIDTH) return;
  int y = place / WIDTH, x = place % WIDTH;
  float a = at(y - 1, x - 1), b = at(y - 1, x), c = at(y - 1, x + 1);
  float d = at(y, x - 1), e = at(y, x), f = at(y, x + 1);
  float g = at(y + 1, x - 1), h = at(y + 1, x), i = at(y + 1, x + 1);
  order(b, c); order(e, f); order(h, i);
  order(a, b); order(d, e); order(g, h);
  order(b, c); order(e, f); order(h, i);
  order(a, d); order(f, i); order(e, h);
  order(d, g); order(b, e); order(c, f);
  order(e, h); order(e, c); order(g, e); order(e, c);
  filtered[place] = e;
}
