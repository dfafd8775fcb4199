package android.view;

import android.content.Context;
import android.graphics.Canvas;

public class View {
  /** Told of a click. */
  public interface OnClickListener {
    void onClick(View view);
  }

  public View(Context context) {}

  public void invalidate() {}

  public boolean onTouchEvent(MotionEvent event) {
    return false;
  }

  protected void onDraw(Canvas canvas) {}

  public void setOnClickListener(OnClickListener listener) {}

  public void setFitsSystemWindows(boolean fits) {}
}
