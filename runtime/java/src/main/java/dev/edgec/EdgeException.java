package dev.edgec;

/** What edgert refused or failed at, in its own words. */
public final class EdgeException extends RuntimeException {
  /** The statuses of edgert.h that callers tell apart. */
  public static final int OUT_OF_MEMORY = -1;
  public static final int INVALID_ARGUMENT = -2;
  public static final int NOT_FOUND = -3;
  public static final int DAMAGED = -4;
  public static final int UNSUPPORTED = -5;
  public static final int PROGRAM_FAILED = -6;
  public static final int OUT_OF_RANGE = -7;
  public static final int IO = -8;
  public static final int DEVICE_FAILED = -9;
  public static final int LIMIT = -10;
  public static final int CANCELLED = -11;
  public static final int TIMED_OUT = -12;
  /** {@link EdgeModule#prove}: an answer is off. */
  public static final int WRONG_ANSWER = -13;
  /** {@link EdgeOptions#key}: the module or its weights are not as the key's owner signed them. */
  public static final int UNTRUSTED = -15;

  private static final long serialVersionUID = 1L;

  private final int status;

  /** Called by native code, too. */
  public EdgeException(int status, String message) {
    super(message);
    this.status = status;
  }

  /** Which kind of failure it was, one of the constants. */
  public int status() {
    return status;
  }
}
