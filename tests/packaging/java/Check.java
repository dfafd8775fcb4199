import android.content.res.AssetManager;
import android.hardware.HardwareBuffer;
import dev.edgec.EdgeException;
import dev.edgec.EdgeManifest;
import dev.edgec.EdgeModule;
import dev.edgec.EdgeTensor;
import dev.edgec.EdgeType;
import dev.edgec.Held;
import dev.edgec.android.EdgeAssets;
import dev.edgec.models.digits.Digits;
import dev.edgec.models.odd.Odd;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Collections;

/** The checks of test_android.py, one a method: `java Check NAME ARGUMENTS`. */
public final class Check {
  private Check() {}

  public static void main(String[] words) throws Exception {
    switch (words[0]) {
      case "answers":
        answers(words[1], words[2]);
        break;
      case "odd":
        odd(words[1]);
        break;
      case "sizes":
        sizes(words[1]);
        break;
      case "buffers":
        buffers(words[1]);
        break;
      case "hardware":
        hardware(words[1]);
        break;
      case "without":
        without(words[1]);
        break;
      case "refusals":
        refusals(words[1], words[2]);
        break;
      case "names":
        names(words[1]);
        break;
      case "leaks":
        leaks(words[1], Integer.parseInt(words[2]));
        break;
      default:
        throw new IllegalArgumentException(words[0]);
    }
    System.out.println("done");
  }

  /** Typed calls on images in a file; the module from a folder, and from assets in three ways. */
  private static void answers(String folder, String images) throws Exception {
    ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(Paths.get(images)));
    FloatBuffer pixels = data.order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
    File assets = new File(folder).getParentFile();
    Digits[] models = {
      Digits.load(folder),
      new Digits(EdgeAssets.load(new AssetManager(assets, false, 4096), Digits.FOLDER, 1)),
      new Digits(EdgeAssets.load(new AssetManager(assets, false, 4), Digits.FOLDER, 1)),
      new Digits(EdgeAssets.load(new AssetManager(assets, true, 0), Digits.FOLDER, 1)),
    };
    System.out.println(models[0].module().target());
    float[] image = new float[64];
    while (pixels.hasRemaining()) {
      pixels.get(image);
      float[] first = null;
      for (Digits model : models) {
        Digits.MainResult result = model.main(image);
        if (first == null) {
          System.out.println(result.label[0] + " " + Arrays.toString(result.scores));
          first = result.scores;
        }
        expect(Arrays.equals(first, result.scores), "all models answer alike");
      }
    }
    for (Digits model : models) model.close();
  }

  /** Every type and a size chosen at each call. */
  private static void odd(String folder) {
    try (Odd model = Odd.load(folder)) {
      expect(model.module().functions().toString().equals("[open, double, constant]"), "functions");
      expect(model.module().inputs("double").get(0).toString().equals("arg0: f32[arg0_0=1..8, 3]"), "specs");
      Odd.OpenResult open =
          model.open_(
              new byte[] {3, (byte) 200},
              new byte[] {0},
              new float[] {1, -2, 3, -4},
              new short[] {0x3c00, (short) 0xc000});
      expect(open.out0[0] == 6 && open.out0[1] == (byte) 144 && open.out1[0] == 1, "bytes");
      expect(Arrays.equals(open.out2, new float[] {2, -4, 6, -8}), "complex numbers");
      expect(open.out3[0] == 0x3c00 && open.out3[1] == (short) 0xc000, "halves");
      expect(Arrays.equals(model.constant(), new short[] {1, -2, 3}), "a constant");
      float[] rows = {1, 2, 3, 4, 5, 6};
      Odd.DoubleResult twice = model.double_(2, rows, new long[] {1L << 40});
      expect(Arrays.equals(twice.out0.shape(), new long[] {2, 3}), "the shape");
      expect(twice.out0.floats()[5] == 12 && twice.out1[0] == 1L << 40, "the numbers");
      twice.out0.close();
      refused(EdgeException.INVALID_ARGUMENT, "6 numbers given", () -> model.double_(3, rows, null));
    }
  }

  /** Sizes out of the range that the model declares are refused, however they are given. */
  private static void sizes(String folder) {
    try (Odd model = Odd.load(folder)) {
      EdgeModule module = model.module();
      expect(module.inputs("double").get(0).size(0).most == 8, "the range");
      expect(module.inputs("double").get(0).size(1) == null, "a number");
      long[] number = {1};
      for (int rows : new int[] {1, 8}) {
        EdgeTensor most = model.double_(rows, new float[3 * rows], number).out0;
        expect(most.shape()[0] == rows, "within the range");
        most.close();
      }
      String refusal = "is arg0: f32[arg0_0=1..8, 3] and got shape [9, 3]: dimension 0 must be";
      for (int rows : new int[] {9, 0}) {
        String words = refusal.replace("[9", "[" + rows);
        float[] values = new float[3 * rows];
        refused(
            EdgeException.INVALID_ARGUMENT, words, () -> model.double_(rows, values, number));
        EdgeTensor own = module.tensor(EdgeType.F32, rows, 3);
        EdgeTensor one = module.tensor(EdgeType.I64);
        refused(EdgeException.INVALID_ARGUMENT, words, () -> module.call("double", own, one));
      }
    }
  }

  /** Direct buffers are shared where they can be, and results read in place. */
  private static void buffers(String folder) {
    try (EdgeModule model = EdgeModule.load(folder)) {
      ByteBuffer memory = ByteBuffer.allocateDirect(256 + 128).order(ByteOrder.nativeOrder());
      ByteBuffer aligned = memory.alignedSlice(64).order(ByteOrder.nativeOrder());
      for (int shift : new int[] {0, 4}) {
        ByteBuffer data = aligned.duplicate().order(ByteOrder.nativeOrder());
        data.position(shift).limit(shift + 24);
        for (int i = 0; i < 6; ++i) data.putFloat(shift + 4 * i, i);
        ByteBuffer n = ByteBuffer.allocateDirect(8).order(ByteOrder.nativeOrder());
        try (EdgeTensor rows = model.wrap(data, EdgeType.F32, 2, 3);
            EdgeTensor number = model.wrap(n, EdgeType.I64)) {
          data.putFloat(shift + 20, 100);
          EdgeTensor[] results = model.call("double", rows, number);
          float last = results[0].buffer().asFloatBuffer().get(5);
          expect(last == (shift == 0 ? 200 : 10), "shared at 64 bytes, else copied: " + last);
          for (EdgeTensor result : results) result.close();
        }
      }
      long before = Held.objects();
      for (int i = 0; i < 1000; ++i) {
        ByteBuffer direct = ByteBuffer.allocateDirect(2);
        EdgeTensor[] forgotten = model.call("constant");
        // A view outlives the tensor that it is of.
        ByteBuffer view = forgotten[0].buffer();
        forgotten = null;
        if (i % 100 == 0) System.gc();
        expect(view.asShortBuffer().get(1) == -2, "views keep memory");
      }
      for (int i = 0; i < 100 && Held.objects() > before + 10; ++i) {
        System.gc();
        pause();
        model.call("constant")[0].close();
      }
      expect(Held.objects() <= before + 10, "forgotten tensors are freed: " + Held.objects());
      ByteBuffer big = ByteBuffer.allocateDirect(8).order(ByteOrder.BIG_ENDIAN);
      refused(
          EdgeException.INVALID_ARGUMENT, "byte order", () -> model.wrap(big, EdgeType.I64));
    }
  }

  /** Images and blobs of Android's go into tensors, or are refused with what they are. */
  private static void hardware(String folder) {
    try (EdgeModule model = EdgeModule.load(folder);
        EdgeTensor last = model.tensor(EdgeType.U8, 2, 3, 4);
        EdgeTensor three = model.tensor(EdgeType.F32, 1, 2, 3, 3);
        EdgeTensor first = model.tensor(EdgeType.F32, 1, 3, 2, 3);
        EdgeTensor blob = model.tensor(EdgeType.F32, 6)) {
      for (int format : new int[] {1, 2, 3}) {
        int step = format == 3 ? 3 : 4;
        HardwareBuffer image = new HardwareBuffer(format, 3, 2, 1, 5, 3, 2 * 5 * step);
        for (int i = 0; i < 2 * 5 * step; ++i) {
          image.memory.put(HardwareBuffer.HEAD + i, (byte) (7 * i));
        }
        three.setHardwareBuffer(image, 0.5f, -3);
        first.setHardwareBuffer(image, 0.5f, -3);
        if (format == 1) last.setHardwareBuffer(image, 1, 0);
        if (format != 1) unfit(last, "2x3x3", image);
        for (int i = 0; i < 6 * step; ++i) {
          int y = i / step / 3;
          int x = i / step % 3;
          int c = i % step;
          int is = 7 * ((y * 5 + x) * step + c) & 255;
          if (format == 1) expect((last.bytes()[(y * 3 + x) * 4 + c] & 255) == is, "bytes");
          if (c == 3) continue;
          expect(three.floats()[(y * 3 + x) * 3 + c] == is * 0.5f - 3, "channels last");
          expect(first.floats()[(c * 2 + y) * 3 + x] == is * 0.5f - 3, "channels first");
        }
        expect(image.memory.getInt(28) == 0, "unlocked");
        image.memory.putInt(24, 0);
        refused(EdgeException.DEVICE_FAILED, "lock", () -> three.setHardwareBuffer(image, 1, 0));
      }
      HardwareBuffer bytes = new HardwareBuffer(0x21, 24, 1, 1, 24, 3, 24);
      for (int i = 0; i < 6; ++i) bytes.memory.putFloat(HardwareBuffer.HEAD + 4 * i, i - 0.25f);
      expect(blob.setHardwareBuffer(bytes, 1, 0).floats()[5] == 4.75f, "blobs are copied");
      unfit(blob, "23 bytes", new HardwareBuffer(0x21, 23, 1, 1, 23, 3, 24));
      unfit(three, "2 x 3", new HardwareBuffer(1, 2, 3, 1, 2, 3, 24));
      unfit(blob, "the tensor has to be", new HardwareBuffer(1, 3, 2, 1, 3, 3, 24));
      unfit(three, "USAGE_CPU_READ_OFTEN", new HardwareBuffer(1, 3, 2, 1, 3, 0, 24));
      refused(
          EdgeException.UNSUPPORTED,
          "format is 22",
          () -> three.setHardwareBuffer(new HardwareBuffer(0x16, 3, 2, 1, 3, 3, 48), 1, 0));
      refused(
          EdgeException.INVALID_ARGUMENT,
          "HardwareBuffer is needed",
          () -> three.setHardwareBuffer(null, 1, 0));
    }
  }

  private static void unfit(EdgeTensor tensor, String words, HardwareBuffer buffer) {
    refused(
        EdgeException.INVALID_ARGUMENT, words, () -> tensor.setHardwareBuffer(buffer, 1, 0));
  }

  /** Where there is no Android, its buffers are refused with that reason. */
  private static void without(String folder) {
    try (EdgeModule model = EdgeModule.load(folder);
        EdgeTensor image = model.tensor(EdgeType.U8, 2, 3, 4)) {
      HardwareBuffer buffer = new HardwareBuffer(1, 3, 2, 1, 3, 3, 24);
      refused(
          EdgeException.UNSUPPORTED, "Android", () -> image.setHardwareBuffer(buffer, 1, 0));
    }
  }

  /** What goes wrong is an exception with edgert's message, and breaks nothing. */
  private static void refusals(String folder, String foreign) throws Exception {
    refused(EdgeException.NOT_FOUND, "nowhere.vmfb", () -> EdgeModule.load("nowhere.vmfb"));
    refused(EdgeException.IO, "cannot read", () -> EdgeModule.load("nowhere.json"));
    refused(EdgeException.UNSUPPORTED, "arm_32", () -> EdgeModule.load(foreign));
    ByteBuffer noise = ByteBuffer.allocateDirect(1000);
    refused(EdgeException.DAMAGED, "", () -> EdgeModule.load(noise, 1));
    String arm = "{\"file\": \"x\", \"target\": \"cpu:\\u0061rm\", \"needs\": {\"isa\": \"arm_32\"}}";
    EdgeManifest manifest =
        EdgeManifest.parse("{\"schema\": 1, \"variants\": [" + arm + "]}");
    refused(
        EdgeException.UNSUPPORTED,
        "no variant fits this device: cpu:arm: it is for arm_32, and this is x86_64",
        () -> EdgeModule.load(manifest, file -> EdgeModule.load(foreign)));
    String hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    EdgeManifest listed =
        EdgeManifest.parse(
            "{\"schema\": 1, \"variants\": ["
                + arm.replace("\"x\"", "\"x\", \"sha256\": \"" + hash + "\"")
                + "]}");
    ByteBuffer abc = ByteBuffer.wrap(new byte[] {'a', 'b', 'c'});
    listed.check("x", abc);
    listed.check("x", abc);
    refused(EdgeException.DAMAGED, "not the file that", () -> listed.check("x", noise));
    for (String bad : new String[] {"", "{", "[1,]x", "{\"schema\": 1}", "{\"a\" 1}", "\"\\u00"}) {
      refused(EdgeException.DAMAGED, "", () -> EdgeManifest.parse(bad));
    }
    refused(EdgeException.UNSUPPORTED, "format", () -> EdgeManifest.parse("{\"schema\": 2}"));
    refused(
        EdgeException.DAMAGED,
        "outside",
        () -> EdgeManifest.parse("{\"schema\": 1, \"variants\": [{\"file\": \"../x\"}]}"));
    EdgeModule model = EdgeModule.load(folder);
    refused(EdgeException.NOT_FOUND, "no function nothing", () -> model.call("nothing"));
    refused(EdgeException.INVALID_ARGUMENT, "takes 4 inputs", () -> model.call("open", noise));
    refused(EdgeException.INVALID_ARGUMENT, "", () -> model.call("double", model.input("open", 0)));
    refused(EdgeException.INVALID_ARGUMENT, "sizes given", () -> model.input("double", 0));
    refused(EdgeException.INVALID_ARGUMENT, "", () -> model.input("double", 0, -3));
    refused(
        EdgeException.INVALID_ARGUMENT, "another type", () -> model.input("open", 0).set(new int[2]));
    EdgeTensor tensor = model.tensor(EdgeType.F32, 2);
    tensor.close();
    refused(EdgeException.INVALID_ARGUMENT, "the tensor is closed", tensor::floats);
    model.close();
    model.close();
    refused(EdgeException.INVALID_ARGUMENT, "the module is closed", () -> model.call("constant"));
  }

  /** Files by any name, and messages that hold names whole, or are cut between letters. */
  private static void names(String folder) {
    EdgeModule.load(folder).close();
    String smile = "\uD83D\uDE42";
    for (String name : new String[] {"nowhere " + smile + ".vmfb", "n\u00f6where.vmfb"}) {
      refused(EdgeException.NOT_FOUND, name, () -> EdgeModule.load(name));
    }
    for (String letter : new String[] {"\u00df", smile}) {
      for (int shift = 0; shift < 4; ++shift) {
        String name = "abcd".substring(shift) + String.join("", Collections.nCopies(300, letter));
        try {
          EdgeModule.load(name + ".vmfb");
        } catch (EdgeException error) {
          String said = error.getMessage().replaceFirst("^.*?(?=" + letter + ")", "");
          said = said.replace(letter, "");
          expect(said.replace(".", "").isEmpty(), "what is left of the message: " + said);
        }
      }
    }
  }

  /** Calls again and again; what native code and the process hold stays what it was. */
  private static void leaks(String folder, int calls) throws Exception {
    long empty = Held.objects();
    long emptyBytes = Held.bytes();
    float[] rows = {1, 2, 3, 4, 5, 6};
    long[] number = {7};
    try (Odd model = new Odd(EdgeModule.load(folder, 1))) {
      for (int i = 0; i < calls / 10; ++i) model.double_(2, rows, number).out0.close();
      long objects = Held.objects();
      long bytes = Held.bytes();
      long resident = resident();
      for (int i = 0; i < calls; ++i) model.double_(2, rows, number).out0.close();
      expect(Held.objects() == objects, "objects: " + objects + " " + Held.objects());
      expect(Held.bytes() == bytes, "bytes: " + bytes + " " + Held.bytes());
      long grown = resident() - resident;
      System.out.println("resident memory grew by " + grown + " KiB");
      expect(grown < 20_000, "grown by KiB: " + grown);
    }
    expect(Held.objects() == empty && Held.bytes() == emptyBytes, "all given back");
  }

  private static long resident() throws Exception {
    for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
      if (line.startsWith("VmRSS:")) return Long.parseLong(line.replaceAll("\\D", ""));
    }
    throw new IllegalStateException("no VmRSS");
  }

  private static void refused(int status, String words, Runnable action) {
    try {
      action.run();
    } catch (EdgeException error) {
      expect(error.status() == status, "status " + error.status() + ": " + error.getMessage());
      expect(error.getMessage().contains(words), error.getMessage());
      expect(!error.getMessage().isEmpty(), "a message");
      return;
    }
    throw new AssertionError("not refused: " + words);
  }

  private static void expect(boolean right, String what) {
    if (!right) throw new AssertionError(what);
  }

  private static void pause() {
    try {
      Thread.sleep(10);
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }
}
