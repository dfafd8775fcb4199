package dev.edgec;

/** What a model may compute on. */
public enum EdgeDevice {
  /** The first variant of the package that runs here, and is right here where it is proved. */
  AUTO,
  /** The processor. */
  CPU,
  /** A GPU, by Vulkan. */
  GPU
}
