// A sum of products to memory, in fours, with what follows it (`finished.glsl`).
#include "finished.glsl"

// `at` counts fours in [m, n].
void keep(vec4 total, int at, int what) {
#ifdef HALF
  if ((what & 4) == 0) {
    c[at] = f16vec4(total);
    return;
  }
#endif
  c_wide[at] = total;
}

// `column` counts fours in a row.
void finish(vec4 total, int at, int column, int what) {
  vec4 added = (what & 1) != 0 ? WIDE(bias[column]) : vec4(0.0);
  vec4 factor = (what & 64) != 0 ? WIDE(scale[column]) : vec4(1.0);
  vec4 more = (what & 2) != 0 ? WIDE(other[at]) : vec4(0.0);
  keep(finished(total, added, factor, more, what), at, what);
}
