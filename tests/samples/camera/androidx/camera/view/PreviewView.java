package androidx.camera.view;

import android.content.Context;
import android.view.View;

public final class PreviewView extends View {
  public PreviewView(Context context) {
    super(context);
  }

  public void setController(CameraController controller) {}
}
