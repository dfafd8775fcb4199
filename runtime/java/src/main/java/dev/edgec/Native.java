package dev.edgec;

import java.nio.ByteBuffer;

/** The functions of libedgec_jni; handles are addresses, and nobody checks them. */
final class Native {
  static final int DEVICE = 0;
  static final int MODULE = 1;
  static final int SESSION = 2;
  static final int TENSOR = 3;
  static final int WEIGHTS = 4;
  static final int TEXT = 5;

  static {
    String library = System.getProperty("dev.edgec.library");
    if (library != null) {
      System.load(library);
    } else {
      System.loadLibrary("edgec_jni");
    }
  }

  private Native() {}

  /** The instruction set that this was compiled for, as manifests spell it. */
  static native String isa();

  /** `cache`, a file's path, may be null. */
  static native long deviceCreate(String driver, int threads, String cache);

  static native String deviceName(long device);

  /** `key`, 32 bytes that must have signed it, may be null. */
  static native long moduleOpen(String path, byte[] key);

  static native long moduleWrap(ByteBuffer data, byte[] key);

  static native long weightsOpen(String path);

  static native long weightsWrap(ByteBuffer data);

  static native int functionCount(long module);

  static native String functionName(long module, int function);

  /** What a function says of itself under this key, or with -1 the first that says something. */
  static native String attribute(long module, int function, String key);

  static native int argumentCount(long module, int function, boolean output);

  static native String argumentName(long module, int function, boolean output, int index);

  /** Kind, type and sizes. */
  static native long[] argument(long module, int function, boolean output, int index);

  /** `weights` 0: the module has its weights inside. */
  static native long sessionCreate(long module, long device, long weights);

  static native long tensorCreate(long device, int type, long[] shape);

  /** Shares the memory of a direct buffer where it lies at 64 bytes and `share`, else copies. */
  static native long tensorWrap(
      long device, int type, long[] shape, ByteBuffer data, int position, int size, boolean share);

  static native int tensorType(long tensor);

  static native long[] tensorShape(long tensor);

  static native ByteBuffer tensorBuffer(long tensor);

  /** Copies an android.hardware.HardwareBuffer; bytes times `scale` plus `shift` for floats. */
  static native void tensorHardware(long tensor, Object buffer, float scale, float shift);

  /**
   * Tensors are on `host`; for another `device` they are copied. `kept` are what must not be
   * collected meanwhile.
   */
  static native void call(
      long session,
      int function,
      long[] inputs,
      long[] outputs,
      Object[] kept,
      long device,
      long host);

  /** Makes the golden calls that the module brings; `verdicts`, a file's path, may be null. */
  static native void prove(long session, String verdicts);

  /** Is told the pieces of an answer, in UTF-8; false breaks it off. */
  interface Piece {
    boolean told(byte[] piece);
  }

  /** A language model of a session; only where the library was built with text. */
  static native long textCreate(long module, long session, long device);

  /**
   * What is `said`, each in UTF-8: a prompt, or roles and messages by turns. Gives why the answer
   * ended, tokens of the prompt, how many of them were known, and tokens of the answer. `allow` may
   * be null.
   */
  static native long[] textAnswer(
      long model, byte[][] said, int[] whole, float[] parts, Piece told, EdgeText.Allow allow);

  static native void textInterrupt(long model);

  /** What the model has read, and back. */
  static native byte[] textSave(long model);

  static native void textRestore(long model, byte[] saved);

  static native void release(int kind, long handle);

  /** Objects of edgert and buffers of Java that are held, and bytes that edgert has allocated. */
  static native long[] held();
}
