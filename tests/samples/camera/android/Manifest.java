package android;

public final class Manifest {
  /** Names of permissions. */
  public static final class permission {
    public static final String CAMERA = "android.permission.CAMERA";

    private permission() {}
  }

  private Manifest() {}
}
