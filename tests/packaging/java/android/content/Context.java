package android.content;

import android.content.res.AssetManager;
import java.io.File;

/** As much of Android's as the Kotlin of a package needs. */
public class Context {
  private final AssetManager assets;

  public Context(AssetManager assets) {
    this.assets = assets;
  }

  public File getNoBackupFilesDir() {
    return new File(System.getProperty("java.io.tmpdir"));
  }

  public AssetManager getAssets() {
    return assets;
  }
}
