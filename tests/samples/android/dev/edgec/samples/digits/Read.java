package dev.edgec.samples.digits;

import dev.edgec.models.digits.Digits;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;

/** Reads drawings from a file, one a line: strokes between bars, numbers x y x y between spaces. */
public final class Read {
  private Read() {}

  public static void main(String[] words) throws IOException {
    try (Digits model = Digits.load(words[0])) {
      System.out.println(new Ink().read(model));
      for (String line : Files.readAllLines(Paths.get(words[1]))) {
        Ink ink = new Ink();
        for (String stroke : line.split("\\|")) {
          String[] numbers = stroke.trim().split(" ");
          for (int i = 0; i < numbers.length; i += 2) {
            float x = Float.parseFloat(numbers[i]);
            float y = Float.parseFloat(numbers[i + 1]);
            if (i == 0) ink.begin(x, y);
            else ink.add(x, y);
          }
        }
        System.out.println(ink.read(model));
      }
    }
  }
}
