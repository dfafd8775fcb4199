package android.content.res;

import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;

/** As much of Android's as EdgeAssets needs: a folder's files as if they lay inside an APK. */
public final class AssetManager {
  private final File folder;
  private final boolean compressed;
  private final int offset;

  public AssetManager(File folder, boolean compressed, int offset) {
    this.folder = folder;
    this.compressed = compressed;
    this.offset = offset;
  }

  public InputStream open(String name) throws IOException {
    return new FileInputStream(new File(folder, name));
  }

  public AssetFileDescriptor openFd(String name) throws IOException {
    if (compressed) throw new FileNotFoundException("It is probably compressed");
    byte[] data = Files.readAllBytes(new File(folder, name).toPath());
    File apk = File.createTempFile("assets", ".apk");
    apk.deleteOnExit();
    try (FileOutputStream stream = new FileOutputStream(apk)) {
      stream.write(new byte[offset]);
      stream.write(data);
      stream.write(new byte[100]);
    }
    return new AssetFileDescriptor(apk, offset, data.length);
  }
}
