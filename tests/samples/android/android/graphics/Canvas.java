package android.graphics;

public class Canvas {
  public void drawLine(float fromX, float fromY, float toX, float toY, Paint paint) {}
}
