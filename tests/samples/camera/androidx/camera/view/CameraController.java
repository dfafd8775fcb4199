package androidx.camera.view;

import androidx.camera.core.ImageAnalysis;
import java.util.concurrent.Executor;

public abstract class CameraController {
  public static final int IMAGE_ANALYSIS = 2;

  public void setEnabledUseCases(int cases) {}

  public void setImageAnalysisAnalyzer(Executor executor, ImageAnalysis.Analyzer analyzer) {}

  public void clearImageAnalysisAnalyzer() {}

  public void setImageAnalysisBackpressureStrategy(int strategy) {}

  public void setImageAnalysisOutputImageFormat(int format) {}
}
