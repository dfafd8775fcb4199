package dev.edgec;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * The test that a package brings along: calls a model as its own framework was called, and compares
 * the answers with that one's. Of {@code selftest.json} and {@code selftest.bin}.
 */
public final class EdgeSelfTest {
  private final List<?> calls;
  private final ByteBuffer data;

  /** Takes the texts of the one file, and the bytes of the other (at most 32 MB). */
  public EdgeSelfTest(String json, ByteBuffer data) {
    try {
      calls = (List<?>) ((Map<?, ?>) Json.parse(json)).get("calls");
    } catch (ClassCastException error) {
      throw new EdgeException(EdgeException.DAMAGED, "this is no selftest.json");
    }
    this.data = data.duplicate().order(ByteOrder.LITTLE_ENDIAN);
  }

  /**
   * Makes the calls on a model that was just opened, and gives the largest difference.
   *
   * @throws EdgeException an answer is off by more than rounding explains
   */
  public double run(EdgeModule model) {
    double most = 0;
    for (Object item : calls) {
      Map<?, ?> call = (Map<?, ?>) item;
      List<?> inputs = (List<?>) call.get("inputs");
      List<?> outputs = (List<?>) call.get("outputs");
      EdgeTensor[] given = new EdgeTensor[inputs.size()];
      EdgeTensor[] found = {};
      try {
        for (int i = 0; i < given.length; ++i) {
          Map<?, ?> input = (Map<?, ?>) inputs.get(i);
          given[i] = model.tensor(type(input), shape(input));
          given[i].buffer().put(numbers(input));
        }
        found = model.call((String) call.get("function"), given);
        for (int i = 0; i < found.length; ++i) {
          most = Math.max(most, compare(found[i], (Map<?, ?>) outputs.get(i)));
        }
      } finally {
        for (EdgeTensor tensor : given) if (tensor != null) tensor.close();
        for (EdgeTensor tensor : found) if (tensor != null) tensor.close();
      }
    }
    return most;
  }

  /** {@code java dev.edgec.EdgeSelfTest PACKAGE SELFTEST}: a package's folder, and its test's. */
  public static void main(String[] words) throws IOException {
    File folder = new File(words[1]);
    try (FileInputStream stream = new FileInputStream(new File(folder, "selftest.bin"));
        InputStream text = new FileInputStream(new File(folder, "selftest.json"));
        EdgeModule model = EdgeModule.load(words[0])) {
      FileChannel channel = stream.getChannel();
      ByteBuffer data = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
      double most = new EdgeSelfTest(EdgeModule.text(text), data).run(model);
      System.out.println(model.target() + ": passed, max abs err " + most);
    } catch (EdgeException error) {
      System.out.println("FAILED: " + error.getMessage());
      System.exit(1);
    }
  }

  private ByteBuffer numbers(Map<?, ?> tensor) {
    int at = ((Double) tensor.get("at")).intValue();
    ByteBuffer numbers = data.duplicate();
    numbers.position(at);
    numbers.limit(at + ((Double) tensor.get("bytes")).intValue());
    return numbers.slice().order(ByteOrder.LITTLE_ENDIAN);
  }

  private static EdgeType type(Map<?, ?> tensor) {
    return EdgeType.valueOf(((String) tensor.get("dtype")).toUpperCase(Locale.ROOT));
  }

  private static long[] shape(Map<?, ?> tensor) {
    List<?> sizes = (List<?>) tensor.get("shape");
    long[] shape = new long[sizes.size()];
    for (int i = 0; i < shape.length; ++i) shape[i] = ((Double) sizes.get(i)).longValue();
    return shape;
  }

  private double compare(EdgeTensor tensor, Map<?, ?> expected) {
    String name = (String) expected.get("name");
    String type = (String) expected.get("dtype");
    ByteBuffer found = tensor.buffer().duplicate().order(ByteOrder.LITTLE_ENDIAN);
    ByteBuffer wanted = numbers(expected);
    if (found.remaining() != wanted.remaining()) {
      throw new EdgeException(
          EdgeException.PROGRAM_FAILED,
          name + " has " + found.remaining() + " bytes, not " + wanted.remaining());
    }
    boolean isFloat = type.contains("f") || type.startsWith("c");
    double absolute = (Double) expected.get("absolute");
    double relative = (Double) expected.get("relative");
    int width = isFloat ? width(type) : 1;
    double most = 0;
    int wrong = 0;
    for (int at = 0; at < wanted.remaining(); at += width) {
      double x = isFloat ? number(type, found, at) : found.get(at);
      double y = isFloat ? number(type, wanted, at) : wanted.get(at);
      if (x == y || (Double.isNaN(x) && Double.isNaN(y))) continue;
      double off = Math.abs(x - y);
      if (isFloat) most = Math.max(most, off);
      if (!isFloat || !(off <= absolute + relative * Math.abs(y))) ++wrong;
    }
    if (wrong == 0) return most;
    throw new EdgeException(
        EdgeException.PROGRAM_FAILED, wrong + " numbers of " + name + " are off, by up to " + most);
  }

  private static int width(String type) {
    return type.endsWith("16") ? 2 : type.equals("f64") || type.equals("c128") ? 8 : 4;
  }

  private static double number(String type, ByteBuffer from, int at) {
    switch (type) {
      case "f16":
        return half(from.getShort(at) & 0xffff);
      case "bf16":
        return Float.intBitsToFloat((from.getShort(at) & 0xffff) << 16);
      case "f64":
      case "c128":
        return from.getDouble(at);
      default:
        return from.getFloat(at);
    }
  }

  private static double half(int bits) {
    int exponent = bits >> 10 & 31;
    int fraction = bits & 1023;
    double size = exponent == 31
        ? (fraction == 0 ? Double.POSITIVE_INFINITY : Double.NaN)
        : exponent == 0 ? fraction * 0x1p-24 : (1024 + fraction) * Math.pow(2, exponent - 25);
    return (bits & 0x8000) == 0 ? size : -size;
  }
}
