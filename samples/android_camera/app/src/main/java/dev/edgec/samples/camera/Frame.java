package dev.edgec.samples.camera;

import java.nio.ByteBuffer;
import java.nio.FloatBuffer;

/**
 * A camera's frame, as its sensor has it, to what the network takes: the middle square, upright, each
 * of its pixels the mean of those that it stands for; red, green and blue, 0 to 255.
 */
final class Frame {
  private static final int CHANNELS = 3; // what follows them is alpha

  final ByteBuffer pixels;
  final int width;
  final int height;
  final int rowBytes;
  final int pixelBytes;
  final int degrees;

  /**
   * A frame in memory of the camera's own.
   *
   * @param pixels red, green, blue and more of each pixel, from index 0
   * @param rowBytes from a row to the next, which may be more than its pixels take
   * @param degrees by how many it has to be turned clockwise to be upright: a multiple of 90
   */
  Frame(ByteBuffer pixels, int width, int height, int rowBytes, int pixelBytes, int degrees) {
    this.pixels = pixels;
    this.width = width;
    this.height = height;
    this.rowBytes = rowBytes;
    this.pixelBytes = pixelBytes;
    this.degrees = degrees;
  }

  /** Writes side x side x 3 numbers. */
  void write(int side, FloatBuffer out) {
    int square = Math.min(width, height);
    int left = (width - square) / 2;
    int top = (height - square) / 2;
    // Where upright pixels lie: the first, and steps to the next in a row and in a column.
    int last = square - 1;
    int first;
    int right;
    int down;
    switch (degrees) {
      case 0:
        first = at(left, top);
        right = pixelBytes;
        down = rowBytes;
        break;
      case 90:
        first = at(left, top + last);
        right = -rowBytes;
        down = pixelBytes;
        break;
      case 180:
        first = at(left + last, top + last);
        right = -pixelBytes;
        down = -rowBytes;
        break;
      case 270:
        first = at(left + last, top);
        right = rowBytes;
        down = -pixelBytes;
        break;
      default:
        throw new IllegalArgumentException("a frame is turned by " + degrees + " degrees");
    }
    int[] begins = new int[side];
    int[] ends = new int[side];
    share(square, begins, ends);
    int[] sums = new int[CHANNELS];
    for (int row = 0; row < side; ++row) {
      for (int column = 0; column < side; ++column) {
        sums[0] = sums[1] = sums[2] = 0;
        for (int y = begins[row]; y < ends[row]; ++y) {
          int place = first + y * down + begins[column] * right;
          for (int x = begins[column]; x < ends[column]; ++x, place += right) {
            for (int c = 0; c < CHANNELS; ++c) sums[c] += pixels.get(place + c) & 0xFF;
          }
        }
        int count = (ends[row] - begins[row]) * (ends[column] - begins[column]);
        for (int c = 0; c < CHANNELS; ++c) {
          out.put((row * side + column) * CHANNELS + c, (float) sums[c] / count);
        }
      }
    }
  }

  private int at(int x, int y) {
    return y * rowBytes + x * pixelBytes;
  }

  /** Which of `from` pixels each of fewer stands for; of more, the one that it is nearest to. */
  private static void share(int from, int[] begins, int[] ends) {
    int side = begins.length;
    for (int i = 0; i < side; ++i) {
      if (from < side) {
        begins[i] = (2 * i + 1) * from / (2 * side);
        ends[i] = begins[i] + 1;
      } else {
        begins[i] = (2 * i * from + side) / (2 * side);
        ends[i] = (2 * (i + 1) * from + side) / (2 * side);
      }
    }
  }
}
