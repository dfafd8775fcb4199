package dev.edgec.samples.camera;

import dev.edgec.EdgeModule;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.List;

/**
 * Frames from files, without a phone: {@code Look frame FILE WIDTH HEIGHT ROW SIDE OUTPUT} writes what
 * the network would get, held in four ways, and {@code Look name PACKAGE NAMES FILE WIDTH HEIGHT ROW
 * DEGREES} says what it is.
 */
public final class Look {
  private static final int PIXEL = 4;

  private Look() {}

  public static void main(String[] words) throws IOException {
    if (words[0].equals("frame")) {
      int side = Integer.parseInt(words[5]);
      int size = side * side * 3 * Float.BYTES;
      ByteBuffer numbers = ByteBuffer.allocate(4 * size).order(ByteOrder.LITTLE_ENDIAN);
      for (int turn = 0; turn < 4; ++turn) {
        numbers.position(turn * size);
        frame(words, 1, 90 * turn).write(side, numbers.slice().order(numbers.order()).asFloatBuffer());
      }
      Files.write(Paths.get(words[6]), numbers.array());
      return;
    }
    List<String> names = Files.readAllLines(Paths.get(words[2]));
    try (Classifier classifier = new Classifier(EdgeModule.load(words[1]), names)) {
      for (int turn = 0; turn < 2; ++turn) {
        Classifier.Guess guess = classifier.look(frame(words, 3, Integer.parseInt(words[7])));
        if (guess.milliseconds <= 0) throw new AssertionError("it took no time");
        System.out.println(guess.share + " " + guess.name);
      }
      System.out.println(classifier.computing());
    }
  }

  private static Frame frame(String[] words, int at, int degrees) throws IOException {
    Path file = Paths.get(words[at]);
    byte[] all = Files.readAllBytes(file);
    ByteBuffer direct = ByteBuffer.allocateDirect(all.length); // as CameraX gives them
    direct.put(all).flip();
    int[] numbers = new int[3];
    for (int i = 0; i < 3; ++i) numbers[i] = Integer.parseInt(words[at + 1 + i]);
    return new Frame(direct, numbers[0], numbers[1], numbers[2], PIXEL, degrees);
  }
}
