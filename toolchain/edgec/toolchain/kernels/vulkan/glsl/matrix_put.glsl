  // What was asked for goes into the tiles whose turn it is.
  [[unroll]] for (int i = 0; i < A_LOADS; i++) {
    int row = thread / QK + i * (THREADS / QK);
    tiles[now * A_SIZE + row * A_ROW + thread % QK] = a_next[turn * A_LOADS + i];
  }
  [[unroll]] for (int i = 0; i < B_LOADS; i++) {
    int line = thread / QB + i * (THREADS / QB);
    tiles[B_TILES + now * B_SIZE + line * B_ROW + thread % QB] = b_next[turn * B_LOADS + i];
  }
