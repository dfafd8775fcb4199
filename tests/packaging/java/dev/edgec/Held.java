package dev.edgec;

/** What native code holds, for tests only. */
public final class Held {
  private Held() {}

  public static long objects() {
    return Native.held()[0];
  }

  public static long bytes() {
    return Native.held()[1];
  }
}
