package dev.edgec;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Numbers with a shape, in memory that the module computes on.
 *
 * <p>{@link #buffer} is that memory itself. Close a tensor when it is not needed any more: its
 * memory is freed at once, and no buffer of it may be touched after that. One that is forgotten is
 * freed some time after its last buffer is.
 */
public final class EdgeTensor implements AutoCloseable {
  final Handle handle;
  // The owner of the native tensor: views of it hold on to it, so it outlives them.
  private final ByteBuffer memory;
  private final EdgeType type;
  private final long[] shape;

  EdgeTensor(long address) {
    boolean done = false;
    try {
      type = EdgeType.of(Native.tensorType(address));
      shape = Native.tensorShape(address);
      memory = Native.tensorBuffer(address).order(ByteOrder.nativeOrder());
      handle = Handle.of(memory, Native.TENSOR, address);
      done = true;
    } finally {
      if (!done) Native.release(Native.TENSOR, address);
    }
  }

  /** The type of its elements. */
  public EdgeType type() {
    return type;
  }

  /** Its sizes. */
  public long[] shape() {
    return shape.clone();
  }

  /**
   * Its elements, row major, in the machine's byte order, without a copy. Write only to tensors
   * from {@link EdgeModule#input}; results may share memory with other results and the module.
   */
  public ByteBuffer buffer() {
    handle.borrow("tensor");
    handle.giveBack();
    return view();
  }

  private ByteBuffer view() {
    return memory.duplicate().order(ByteOrder.nativeOrder());
  }

  /** Fill it; the array has to have as many numbers as the tensor. */
  public EdgeTensor set(float[] values) {
    expect(values.length, 4, EdgeType.F32, EdgeType.C64);
    try {
      view().asFloatBuffer().put(values);
    } finally {
      handle.giveBack();
    }
    return this;
  }

  /** Fill it. */
  public EdgeTensor set(double[] values) {
    expect(values.length, 8, EdgeType.F64, EdgeType.C128);
    try {
      view().asDoubleBuffer().put(values);
    } finally {
      handle.giveBack();
    }
    return this;
  }

  /** Fill it. */
  public EdgeTensor set(long[] values) {
    expect(values.length, 8, EdgeType.I64, EdgeType.U64);
    try {
      view().asLongBuffer().put(values);
    } finally {
      handle.giveBack();
    }
    return this;
  }

  /** Fill it. */
  public EdgeTensor set(int[] values) {
    expect(values.length, 4, EdgeType.I32, EdgeType.U32);
    try {
      view().asIntBuffer().put(values);
    } finally {
      handle.giveBack();
    }
    return this;
  }

  /** Fill it; 16-bit floats are given as their bits. */
  public EdgeTensor set(short[] values) {
    expect(values.length, 2, EdgeType.I16, EdgeType.U16, EdgeType.F16, EdgeType.BF16);
    try {
      view().asShortBuffer().put(values);
    } finally {
      handle.giveBack();
    }
    return this;
  }

  /** Fill it; 0 and 1 for truths. */
  public EdgeTensor set(byte[] values) {
    expect(values.length, 1, EdgeType.I8, EdgeType.U8, EdgeType.BOOL);
    try {
      view().put(values);
    } finally {
      handle.giveBack();
    }
    return this;
  }

  /**
   * Fill it from an {@code android.hardware.HardwareBuffer}, as cameras and decoders give them: an
   * image (RGBA_8888, RGBX_8888, RGB_888) of the tensor's own height and width, which then has three
   * or, with alpha, four channels, last or before the height; or a BLOB of as many bytes. The image's
   * bytes go into u8 as they are, and into f32 as {@code byte * scale + shift}. The buffer must be
   * readable ({@code USAGE_CPU_READ_OFTEN}) and may be closed afterwards.
   *
   * @throws EdgeException where there is no HardwareBuffer (before Android 8), or it does not fit
   */
  public EdgeTensor setHardwareBuffer(Object buffer, float scale, float shift) {
    if (buffer == null) {
      throw new EdgeException(EdgeException.INVALID_ARGUMENT, "a HardwareBuffer is needed");
    }
    long address = handle.borrow("tensor");
    try {
      Native.tensorHardware(address, buffer, scale, shift);
    } finally {
      handle.giveBack();
    }
    return this;
  }

  /** A copy of its numbers (f32, c64). */
  public float[] floats() {
    float[] values = new float[memory.capacity() / 4];
    expect(values.length, 4, EdgeType.F32, EdgeType.C64);
    try {
      view().asFloatBuffer().get(values);
    } finally {
      handle.giveBack();
    }
    return values;
  }

  /** A copy of its numbers (f64, c128). */
  public double[] doubles() {
    double[] values = new double[memory.capacity() / 8];
    expect(values.length, 8, EdgeType.F64, EdgeType.C128);
    try {
      view().asDoubleBuffer().get(values);
    } finally {
      handle.giveBack();
    }
    return values;
  }

  /** A copy of its numbers (i64, u64). */
  public long[] longs() {
    long[] values = new long[memory.capacity() / 8];
    expect(values.length, 8, EdgeType.I64, EdgeType.U64);
    try {
      view().asLongBuffer().get(values);
    } finally {
      handle.giveBack();
    }
    return values;
  }

  /** A copy of its numbers (i32, u32). */
  public int[] ints() {
    int[] values = new int[memory.capacity() / 4];
    expect(values.length, 4, EdgeType.I32, EdgeType.U32);
    try {
      view().asIntBuffer().get(values);
    } finally {
      handle.giveBack();
    }
    return values;
  }

  /** A copy of its numbers (i16, u16), or of the bits of 16-bit floats. */
  public short[] shorts() {
    short[] values = new short[memory.capacity() / 2];
    expect(values.length, 2, EdgeType.I16, EdgeType.U16, EdgeType.F16, EdgeType.BF16);
    try {
      view().asShortBuffer().get(values);
    } finally {
      handle.giveBack();
    }
    return values;
  }

  /** A copy of its numbers (i8, u8), or of its truths. */
  public byte[] bytes() {
    byte[] values = new byte[memory.capacity()];
    expect(values.length, 1, EdgeType.I8, EdgeType.U8, EdgeType.BOOL);
    try {
      view().get(values);
    } finally {
      handle.giveBack();
    }
    return values;
  }

  @Override
  public void close() {
    handle.release();
  }

  @Override
  public String toString() {
    return new EdgeSpec("", type, shape).toString();
  }

  /** Borrows the memory, if so many numbers of such a type are in it. */
  private void expect(long count, int size, EdgeType... allowed) {
    for (EdgeType each : allowed) {
      if (each != type) continue;
      if (count * size == memory.capacity()) {
        handle.borrow("tensor");
        return;
      }
      throw new EdgeException(
          EdgeException.INVALID_ARGUMENT,
          count + " numbers given for " + this + ", which has " + memory.capacity() / size);
    }
    throw new EdgeException(
        EdgeException.INVALID_ARGUMENT, "the elements of " + this + " are of another type");
  }
}
