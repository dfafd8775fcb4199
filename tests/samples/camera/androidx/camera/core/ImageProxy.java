package androidx.camera.core;

import java.nio.ByteBuffer;

public interface ImageProxy extends AutoCloseable {
  /** A part of an image: of RGBA there is one. */
  interface PlaneProxy {
    ByteBuffer getBuffer();

    int getPixelStride();

    int getRowStride();
  }

  @Override
  void close();

  int getHeight();

  ImageInfo getImageInfo();

  PlaneProxy[] getPlanes();

  int getWidth();
}
