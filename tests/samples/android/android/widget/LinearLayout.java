package android.widget;

import android.content.Context;
import android.view.View;

public class LinearLayout extends View {
  public static final int VERTICAL = 1;

  /** How much of the room a view takes. */
  public static class LayoutParams {
    public LayoutParams(int width, int height, float weight) {}
  }

  public LinearLayout(Context context) {
    super(context);
  }

  public void setOrientation(int orientation) {}

  public void addView(View view) {}

  public void addView(View view, LayoutParams layout) {}
}
