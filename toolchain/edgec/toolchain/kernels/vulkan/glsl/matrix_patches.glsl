  // A subgroup puts one sum of 16 x 16 at a time into its patch, where each thread finishes two
  // fours of it.
  int base = (batch * int(gl_NumWorkGroups.y) + part) * m;
  int lane = thread % 32;
  [[unroll]] for (int i = 0; i < FM; i++) {
    [[unroll]] for (int j = 0; j < FN; j++) {
      coopMatStore(total[i * FN + j], patches, group * 64, 4, gl_CooperativeMatrixLayoutRowMajor);
      subgroupBarrier();
      [[unroll]] for (int e = 0; e < 2; e++) {
        int row = row0 + m0 + i * 16 + lane / 4 + e * 8;
        int column = (column0 + n0 + j * 16) / 4 + lane % 4;
        if (row < m && column < n / 4) {
          finish(patches[group * 64 + lane + e * 32], (base + row) * (n / 4) + column, column, what);
        }
      }
      subgroupBarrier();
    }
  }
