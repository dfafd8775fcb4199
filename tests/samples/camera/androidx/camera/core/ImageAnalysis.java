package androidx.camera.core;

/** As much of CameraX's as the sample uses. */
public final class ImageAnalysis {
  public static final int OUTPUT_IMAGE_FORMAT_RGBA_8888 = 2;
  public static final int STRATEGY_KEEP_ONLY_LATEST = 0;

  /** Told of each image, which it has to close. */
  public interface Analyzer {
    void analyze(ImageProxy image);
  }

  private ImageAnalysis() {}
}
