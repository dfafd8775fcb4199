import dev.edgec.EdgeException;
import dev.edgec.EdgeModule;
import dev.edgec.EdgeOptions;
import dev.edgec.EdgeTensor;

/** Loads a module by a key, calls it, and prints what came of it. */
public final class Signed {
  private Signed() {}

  public static void main(String[] arguments) {
    byte[] key = new byte[32];
    for (int i = 0; i < key.length; ++i) {
      key[i] = (byte) Integer.parseInt(arguments[1].substring(2 * i, 2 * i + 2), 16);
    }
    try (EdgeModule model = EdgeModule.load(arguments[0], new EdgeOptions().key(key))) {
      EdgeTensor[] results = model.call("itself");
      System.out.println(results[0].floats().length);
    } catch (EdgeException error) {
      System.out.println(
          (error.status() == EdgeException.UNTRUSTED ? "UNTRUSTED " : "") + error.getMessage());
    }
  }
}
