package android.graphics;

public class Paint {
  /** How a line ends. */
  public enum Cap {
    BUTT,
    ROUND,
    SQUARE
  }

  public void setStrokeWidth(float width) {}

  public void setStrokeCap(Cap cap) {}
}
