package dev.edgec.samples.digits;

import dev.edgec.models.digits.Digits;
import java.util.ArrayList;
import java.util.List;

/**
 * Strokes, and what of them a network that learned from scanned digits can read. The digits that it
 * knows were cut out, fitted into a square and counted: 8 by 8 numbers from 0 (paper) to 16 (ink).
 */
final class Ink {
  private static final int CELLS = 8;
  private static final int FINE = 8; // pixels that a cell is counted from, each way
  private static final int SIZE = CELLS * FINE;
  // Whichever the digit, 0.30 of its square is ink, so that few and short strokes are thick ones.
  private static final float SHARE = 0.305f * CELLS * CELLS;
  private static final float THIN = 1.5f;
  private static final float THICK = 2.6f;

  /** Points x, y, x, y and so on; any unit. */
  final List<List<Float>> strokes = new ArrayList<>();

  void begin(float x, float y) {
    strokes.add(new ArrayList<>());
    add(x, y);
  }

  void add(float x, float y) {
    List<Float> last = strokes.get(strokes.size() - 1);
    last.add(x);
    last.add(y);
  }

  /** The digit that the network sees; -1 where there is no ink. */
  int read(Digits model) {
    if (strokes.isEmpty()) return -1;
    float[] logits = model.main(image());
    int best = 0;
    for (int i = 1; i < logits.length; ++i) if (logits[i] > logits[best]) best = i;
    return best;
  }

  /** The ink fitted into 8 by 8 cells. */
  float[] image() {
    float left = Float.MAX_VALUE, right = -Float.MAX_VALUE, top = left, bottom = right, length = 0;
    for (List<Float> points : strokes) {
      for (int i = 0; i < points.size(); i += 2) {
        left = Math.min(left, points.get(i));
        right = Math.max(right, points.get(i));
        top = Math.min(top, points.get(i + 1));
        bottom = Math.max(bottom, points.get(i + 1));
        if (i > 0) {
          float x = points.get(i) - points.get(i - 2), y = points.get(i + 1) - points.get(i - 1);
          length += (float) Math.hypot(x, y);
        }
      }
    }
    float extent = Math.max(Math.max(right - left, bottom - top), 1e-3f);
    float pen = SHARE / Math.max(length * 6.5f / extent, 1e-3f);
    pen = Math.min(Math.max(pen, THIN), THICK) * FINE;
    float scale = (SIZE - pen) / extent;
    boolean[] paper = new boolean[SIZE * SIZE];
    for (List<Float> points : strokes) {
      for (int i = 0; i < points.size(); i += 2) {
        int from = Math.max(0, i - 2);
        float x = SIZE / 2f + (points.get(i) - (left + right) / 2) * scale;
        float y = SIZE / 2f + (points.get(i + 1) - (top + bottom) / 2) * scale;
        float fromX = SIZE / 2f + (points.get(from) - (left + right) / 2) * scale;
        float fromY = SIZE / 2f + (points.get(from + 1) - (top + bottom) / 2) * scale;
        int steps = 1 + (int) Math.hypot(x - fromX, y - fromY);
        for (int step = 0; step <= steps; ++step) {
          float part = (float) step / steps;
          dot(paper, fromX + (x - fromX) * part, fromY + (y - fromY) * part, pen / 2);
        }
      }
    }
    float[] image = new float[CELLS * CELLS];
    for (int y = 0; y < SIZE; ++y) {
      for (int x = 0; x < SIZE; ++x) {
        if (paper[y * SIZE + x]) image[y / FINE * CELLS + x / FINE] += 16f / (FINE * FINE);
      }
    }
    for (int i = 0; i < image.length; ++i) image[i] = Math.round(image[i]);
    return image;
  }

  private static void dot(boolean[] paper, float x, float y, float radius) {
    for (int row = Math.max(0, (int) (y - radius)); row < Math.min(SIZE, y + radius); ++row) {
      for (int column = Math.max(0, (int) (x - radius)); column < Math.min(SIZE, x + radius);
          ++column) {
        if (Math.hypot(column + 0.5 - x, row + 0.5 - y) <= radius) paper[row * SIZE + column] = true;
      }
    }
  }
}
