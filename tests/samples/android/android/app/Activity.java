package android.app;

import android.content.Context;
import android.os.Bundle;
import android.view.View;

/** As much of Android's as the sample uses. */
public class Activity extends Context {
  public Activity() {
    super(null);
  }

  protected void onCreate(Bundle state) {}

  protected void onDestroy() {}

  public void setContentView(View view) {}
}
