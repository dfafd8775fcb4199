package android.content.res;

import java.io.Closeable;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;

public final class AssetFileDescriptor implements Closeable {
  private final File file;
  private final long start;
  private final long length;

  AssetFileDescriptor(File file, long start, long length) {
    this.file = file;
    this.start = start;
    this.length = length;
  }

  public FileInputStream createInputStream() throws IOException {
    return new FileInputStream(file);
  }

  public long getStartOffset() {
    return start;
  }

  public long getDeclaredLength() {
    return length;
  }

  @Override
  public void close() {}
}
