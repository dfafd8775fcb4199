package dev.edgec.samples.camera;

import android.Manifest;
import android.content.pm.PackageManager;
import android.os.Bundle;
import android.widget.LinearLayout;
import android.widget.TextView;
import androidx.activity.ComponentActivity;
import androidx.camera.core.ImageAnalysis;
import androidx.camera.core.ImageProxy;
import androidx.camera.view.CameraController;
import androidx.camera.view.LifecycleCameraController;
import androidx.camera.view.PreviewView;
import dev.edgec.EdgeDevice;
import dev.edgec.EdgeException;
import dev.edgec.EdgeModule;
import dev.edgec.EdgeOptions;
import dev.edgec.android.EdgeAssets;
import dev.edgec.models.photos.Photos;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** What the camera sees, named: a preview, the likeliest name, what it took and on what. */
public final class MainActivity extends ComponentActivity {
  private static final String NAMES = "names.txt";

  // Loads, looks and closes, one after the other; CameraX drops frames that come meanwhile.
  private final ExecutorService worker = Executors.newSingleThreadExecutor();
  private LifecycleCameraController camera;
  private TextView name;
  private TextView facts;
  private Classifier classifier; // the worker's

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    PreviewView preview = new PreviewView(this);
    name = new TextView(this);
    name.setTextSize(32);
    facts = new TextView(this);
    LinearLayout all = new LinearLayout(this);
    all.setOrientation(LinearLayout.VERTICAL);
    all.setFitsSystemWindows(true);
    all.addView(preview, new LinearLayout.LayoutParams(-1, 0, 1));
    all.addView(name);
    all.addView(facts);
    setContentView(all);
    camera = new LifecycleCameraController(this);
    camera.setEnabledUseCases(CameraController.IMAGE_ANALYSIS);
    camera.setImageAnalysisOutputImageFormat(ImageAnalysis.OUTPUT_IMAGE_FORMAT_RGBA_8888);
    camera.setImageAnalysisBackpressureStrategy(ImageAnalysis.STRATEGY_KEEP_ONLY_LATEST);
    camera.setImageAnalysisAnalyzer(worker, this::look);
    preview.setController(camera);
    worker.execute(this::load);
    if (checkSelfPermission(Manifest.permission.CAMERA) == PackageManager.PERMISSION_GRANTED) {
      camera.bindToLifecycle(this);
    } else {
      requestPermissions(new String[] {Manifest.permission.CAMERA}, 0);
    }
  }

  @Override
  public void onRequestPermissionsResult(int request, String[] asked, int[] answers) {
    super.onRequestPermissionsResult(request, asked, answers);
    if (answers.length > 0 && answers[0] == PackageManager.PERMISSION_GRANTED) {
      camera.bindToLifecycle(this);
    } else {
      name.setText("The camera is not allowed.");
    }
  }

  @Override
  protected void onDestroy() {
    camera.clearImageAnalysisAnalyzer();
    camera.unbind();
    worker.execute(() -> {
      if (classifier != null) classifier.close();
    });
    worker.shutdown();
    super.onDestroy();
  }

  /** The first variant that fits this phone and is right here: a GPU's, or the processor's. */
  private void load() {
    File kept = new File(getNoBackupFilesDir(), "edgec");
    kept.mkdirs();
    EdgeOptions options =
        new EdgeOptions()
            .device(EdgeDevice.AUTO)
            .verdicts(new File(kept, "verdicts"))
            .cache(new File(kept, "photos.kernels"));
    try {
      List<String> names = new ArrayList<>();
      try (BufferedReader lines =
          new BufferedReader(
              new InputStreamReader(getAssets().open(NAMES), StandardCharsets.UTF_8))) {
        for (String line = lines.readLine(); line != null; line = lines.readLine()) names.add(line);
      }
      EdgeModule model = EdgeAssets.load(getAssets(), Photos.FOLDER, options);
      classifier = new Classifier(model, names);
    } catch (EdgeException | IOException error) {
      show(error.getMessage(), "");
    }
  }

  private void look(ImageProxy image) {
    try (ImageProxy held = image) {
      if (classifier == null) return;
      ImageProxy.PlaneProxy plane = held.getPlanes()[0]; // all of RGBA_8888
      Classifier.Guess guess =
          classifier.look(
              new Frame(
                  plane.getBuffer(),
                  held.getWidth(),
                  held.getHeight(),
                  plane.getRowStride(),
                  plane.getPixelStride(),
                  held.getImageInfo().getRotationDegrees()));
      show(
          String.format(Locale.ROOT, "%s %.0f %%", guess.name, 100 * guess.share),
          String.format(Locale.ROOT, "%.1f ms, %s", guess.milliseconds, classifier.computing()));
    } catch (EdgeException error) {
      show(error.getMessage(), "");
    }
  }

  private void show(String first, String second) {
    runOnUiThread(() -> {
      name.setText(first);
      facts.setText(second);
    });
  }
}
