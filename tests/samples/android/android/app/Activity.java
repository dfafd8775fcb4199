package android.app;

import android.content.Context;
import android.os.Bundle;
import android.view.View;

/** As much of Android's as the samples use. */
public class Activity extends Context {
  public Activity() {
    super(null);
  }

  protected void onCreate(Bundle state) {}

  protected void onDestroy() {}

  public void setContentView(View view) {}

  public final void runOnUiThread(Runnable action) {}

  public int checkSelfPermission(String permission) {
    return -1;
  }

  public final void requestPermissions(String[] permissions, int request) {}

  public void onRequestPermissionsResult(int request, String[] permissions, int[] answers) {}
}
