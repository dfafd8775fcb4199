package android.view;

public final class Gravity {
  public static final int CENTER = 17;

  private Gravity() {}
}
