package android.content;

import android.content.res.AssetManager;

/** As much of Android's as the Kotlin of a package needs. */
public class Context {
  private final AssetManager assets;

  public Context(AssetManager assets) {
    this.assets = assets;
  }

  public AssetManager getAssets() {
    return assets;
  }
}
