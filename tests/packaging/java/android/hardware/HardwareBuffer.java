package android.hardware;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** As much of Android's as a package needs; `tests/packaging/fake_android.c` reads its memory. */
public final class HardwareBuffer implements AutoCloseable {
  public static final int HEAD = 64;

  /** Format, width, height, layers, stride, usage, whether it can be locked, locks; then bytes. */
  public final ByteBuffer memory;

  public HardwareBuffer(
      int format, int width, int height, int layers, int stride, int usage, int size) {
    memory = ByteBuffer.allocateDirect(HEAD + size).order(ByteOrder.nativeOrder());
    int[] head = {format, width, height, layers, stride, usage, 1, 0};
    for (int i = 0; i < head.length; ++i) memory.putInt(4 * i, head[i]);
  }

  @Override
  public void close() {}
}
