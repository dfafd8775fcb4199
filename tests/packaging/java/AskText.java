import dev.edgec.EdgeException;
import dev.edgec.EdgeModule;
import dev.edgec.EdgeText;
import dev.edgec.EdgeTextOptions;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Asks a language model in all the ways that Java has, and prints what it says, a line each. */
public final class AskText {
  private AskText() {}

  public static void main(String[] arguments) {
    try (EdgeModule module = EdgeModule.load(arguments[0], 1);
        EdgeText model = EdgeText.of(module)) {
      List<String> pieces = new ArrayList<>();
      EdgeText.Answer answer =
          model.chat(arguments[1], new EdgeTextOptions().limit(30), pieces::add);
      require(String.join("", pieces).equals(answer.text) && pieces.size() > 2, "pieces");
      say(answer);
      say(
          model.generate(
              "Once",
              new EdgeTextOptions().limit(12).temperature(1.5f).topK(40).topP(0.9f).seed(3),
              null));
      say(
          model.chat(
              Arrays.asList(
                  new EdgeText.Message("system", "Be brief."),
                  new EdgeText.Message("user", "What?")),
              new EdgeTextOptions().limit(90).slide(0),
              null));
      List<Integer> taken = new ArrayList<>();
      EdgeText.Allow even = // every second token of the vocabulary, for six tokens
          (last, mask) -> {
            if (last >= 0) taken.add(last);
            Arrays.fill(mask, 0x55555555);
            return taken.size() < 6;
          };
      say(model.generate("Once", new EdgeTextOptions().allow(even), null));
      for (int token : taken) require(token % 2 == 0, "a token that was not allowed");
      int[] left = {3};
      say(model.generate("Once", new EdgeTextOptions(), piece -> --left[0] > 0));
      refused(() -> model.generate("", new EdgeTextOptions(), null));
      refused(() -> model.chat("a\0b", new EdgeTextOptions(), null));
      EdgeText.Told failing =
          piece -> {
            throw new IllegalStateException("mine");
          };
      try {
        model.generate("Once", new EdgeTextOptions(), failing);
        throw new AssertionError("an exception was lost");
      } catch (IllegalStateException error) {
        require(error.getMessage().equals("mine"), "another exception");
      }
      EdgeText.Allow lost =
          (last, mask) -> {
            throw new IllegalStateException("mask");
          };
      try {
        model.generate("Once", new EdgeTextOptions().allow(lost), null);
        throw new AssertionError("an exception was lost");
      } catch (IllegalStateException error) {
        require(error.getMessage().equals("mask"), "another exception");
      }
      require(model.generate("Once", new EdgeTextOptions().limit(2), null).tokens == 2, "after");
      keep(model);
      refuse(model, Paths.get(arguments[2]));
    }
  }

  /** What was read is saved and known again; damaged bytes are refused. */
  private static void keep(EdgeText model) {
    EdgeTextOptions options = new EdgeTextOptions().limit(6);
    String text = "Once upon a time";
    EdgeText.Answer expected = model.generate(text, options, null);
    byte[] saved = model.save();
    model.generate("Another", options, null);
    model.restore(saved);
    EdgeText.Answer again = model.generate(text, options, null);
    require(again.text.equals(expected.text) && again.reused == text.length() - 1, "saved");
    saved[saved.length / 2] ^= 1;
    refused(() -> model.restore(saved));
    refused(() -> model.restore(new byte[0]));
    require(model.generate(text, options, null).reused == text.length() - 1, "still known");
  }

  /** What another model of the same shapes has read is refused, and what was known is known still. */
  private static void refuse(EdgeText model, Path other) {
    byte[] saved;
    try {
      saved = Files.readAllBytes(other);
    } catch (IOException error) {
      throw new AssertionError(error);
    }
    refused(() -> model.restore(saved));
    String text = "Once upon a time";
    EdgeText.Answer answer = model.generate(text, new EdgeTextOptions().limit(1), null);
    require(answer.reused == text.length() - 1, "known");
  }

  /** The text in hexadecimal, since a tiny model writes all sorts of characters. */
  private static void say(EdgeText.Answer answer) {
    StringBuilder line = new StringBuilder();
    for (byte each : answer.text.getBytes(StandardCharsets.UTF_8)) {
      line.append(String.format("%02x", each));
    }
    System.out.println(answer.finish + " " + line);
  }

  private static void refused(Runnable action) {
    try {
      action.run();
    } catch (EdgeException error) {
      require(error.status() == EdgeException.INVALID_ARGUMENT, error.getMessage());
      return;
    }
    throw new AssertionError("nothing was refused");
  }

  private static void require(boolean is, String what) {
    if (!is) throw new AssertionError(what);
  }
}
