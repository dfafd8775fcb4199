package dev.edgec.samples.digits;

import android.content.Context;
import android.graphics.Canvas;
import android.graphics.Paint;
import android.view.MotionEvent;
import android.view.View;
import java.util.List;

/** A sheet to draw on; the next stroke after a digit was read begins a new one. */
final class Sheet extends View {
  private static final float WIDTH = 24;

  /** Told what is drawn, after each stroke. */
  interface Reader {
    void read(Ink ink);
  }

  private final Paint pen = new Paint();
  private final Reader reader;
  private Ink ink = new Ink();

  Sheet(Context context, Reader reader) {
    super(context);
    this.reader = reader;
    pen.setStrokeWidth(WIDTH);
    pen.setStrokeCap(Paint.Cap.ROUND);
  }

  /** An empty sheet. */
  void clear() {
    ink = new Ink();
    invalidate();
  }

  @Override
  public boolean onTouchEvent(MotionEvent event) {
    if (event.getAction() == MotionEvent.ACTION_DOWN) {
      ink.begin(event.getX(), event.getY());
    } else if (event.getAction() == MotionEvent.ACTION_MOVE) {
      ink.add(event.getX(), event.getY());
    } else if (event.getAction() == MotionEvent.ACTION_UP) {
      reader.read(ink);
    }
    invalidate();
    return true;
  }

  @Override
  protected void onDraw(Canvas canvas) {
    for (List<Float> points : ink.strokes) {
      for (int i = 2; i < points.size(); i += 2) {
        canvas.drawLine(
            points.get(i - 2), points.get(i - 1), points.get(i), points.get(i + 1), pen);
      }
    }
  }
}
