package androidx.camera.view;

import android.content.Context;
import androidx.lifecycle.LifecycleOwner;

public final class LifecycleCameraController extends CameraController {
  public LifecycleCameraController(Context context) {}

  public void bindToLifecycle(LifecycleOwner owner) {}

  public void unbind() {}
}
