import dev.edgec.EdgeDevice;
import dev.edgec.EdgeException;
import dev.edgec.EdgeModule;
import dev.edgec.EdgeOptions;
import dev.edgec.models.digits.Digits;
import java.io.File;
import java.util.Arrays;

/** What test_gpus.py asks: {@code java Devices FOLDER DEVICE VERDICTS}, zeros as an image. */
public final class Devices {
  private Devices() {}

  public static void main(String[] words) {
    EdgeOptions options =
        new EdgeOptions().device(EdgeDevice.valueOf(words[1])).verdicts(new File(words[2]));
    try (Digits model = Digits.load(words[0], options)) {
      EdgeModule module = model.module();
      System.out.println("target " + module.target());
      System.out.println("device " + module.device());
      for (String reason : module.passedOver()) System.out.println("passed over " + reason);
      float[] image = new float[64];
      for (int i = 0; i < image.length; ++i) image[i] = i % 17;
      for (int i = 0; i < 3; ++i) {
        System.out.println("scores " + Arrays.toString(model.main(image).scores));
      }
    } catch (EdgeException error) {
      System.out.println("failed " + error.status() + " " + error.getMessage());
    }
  }
}
