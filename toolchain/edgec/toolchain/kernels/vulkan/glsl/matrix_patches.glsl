  // A subgroup puts 16 rows of its sums at a time where the tiles were, and each thread finishes
  // fours of them, with what others summed of the same. A thread's column stays the same, so that
  // what goes with it is read once, and what is added row by row is asked for before the sums are
  // turned around.
  int base = (batch * int(gl_NumWorkGroups.y) + part) * m;
  int lane = thread % 32;
  int column = (column0 + n0) / 4 + lane % FOURS;
  bool beside = column < n / 4;
  vec4 added = beside && (what & 1) != 0 ? WIDE(bias[column]) : vec4(0.0);
  vec4 factor = beside && (what & 64) != 0 ? WIDE(scale[column]) : vec4(1.0);
  barrier();
  [[unroll]] for (int i = 0; i < FM; i++) {
    int row = row0 + m0 + i * 16 + lane / FOURS + share * DOWN;
    int at = (base + row) * (n / 4) + column;
    vec4 more[EACH];
    [[unroll]] for (int e = 0; e < EACH; e++) {
      more[e] = vec4(0.0);
      bool there = beside && row + e * SPLIT * DOWN < m && (what & 2) != 0;
      if (there) more[e] = WIDE(other[at + e * SPLIT * DOWN * (n / 4)]);
    }
    [[unroll]] for (int j = 0; j < FN; j++) {
      coopMatStore(total[i * FN + j], tiles, (share * GROUPS + group) * PATCH + j * 4, P_ROW, gl_CooperativeMatrixLayoutRowMajor);
    }
    TOGETHER;
    [[unroll]] for (int e = 0; e < EACH; e++) {
      if (beside && row + e * SPLIT * DOWN < m) {
        int place = group * PATCH + (lane / FOURS + (share + e * SPLIT) * DOWN) * P_ROW + lane % FOURS;
        vec4 sum = uintBitsToFloat(tiles[place]);
        [[unroll]] for (int s = 1; s < SPLIT; s++) {
          sum += uintBitsToFloat(tiles[place + s * GROUPS * PATCH]);
        }
        keep(finished(sum, added, factor, more[e], what), at + e * SPLIT * DOWN * (n / 4), what);
      }
    }
    TOGETHER;
  }
