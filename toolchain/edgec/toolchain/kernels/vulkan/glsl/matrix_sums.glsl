  // A subgroup's share of the tiles whose turn it is, 16 along the inside at a time.
  [[unroll]] for (int round = 0; round < BK / 16 / SPLIT; round++) {
    int step = round * SPLIT + share;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> rows[FM];
    [[unroll]] for (int i = 0; i < FM; i++) {
      int at = now * A_SIZE + (m0 + i * 16) * A_ROW + step * 2;
      coopMatLoad(rows[i], tiles, at, A_ROW, gl_CooperativeMatrixLayoutRowMajor);
    }
    [[unroll]] for (int j = 0; j < FN; j++) {
      coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> columns;
      int at = B_TILES + now * B_SIZE + step * 16 * B_ROW + (n0 + j * 16) / 8;
      coopMatLoad(columns, tiles, at, B_ROW, gl_CooperativeMatrixLayoutRowMajor);
      [[unroll]] for (int i = 0; i < FM; i++) {
        total[i * FN + j] = coopMatMulAdd(rows[i], columns, total[i * FN + j]);
      }
    }
  }
