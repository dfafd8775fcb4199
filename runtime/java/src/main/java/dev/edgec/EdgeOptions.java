package dev.edgec;

import java.io.File;

/** How a module is loaded: {@code new EdgeOptions().device(EdgeDevice.GPU).verdicts(file)}. */
public final class EdgeOptions {
  EdgeDevice device = EdgeDevice.AUTO;
  int threads = EdgeModule.ALL_THREADS;
  Boolean prove;
  File verdicts;
  File cache;
  byte[] key;

  /** What to compute on; {@link EdgeDevice#AUTO} if nothing is said. */
  public EdgeOptions device(EdgeDevice chosen) {
    device = chosen;
    return this;
  }

  /** How many threads of the processor compute; all of them if nothing is said. */
  public EdgeOptions threads(int count) {
    threads = count;
    return this;
  }

  /**
   * Whether the module makes its golden calls when it is loaded, and is refused where an answer is
   * off. If nothing is said, those for GPUs do that have such calls.
   */
  public EdgeOptions prove(boolean proves) {
    prove = proves;
    return this;
  }

  /** A file that keeps what came of that, until the module, the device or its driver changes. */
  public EdgeOptions verdicts(File file) {
    verdicts = file;
    return this;
  }

  /**
   * An Ed25519 public key, 32 bytes: a module that its owner did not sign, or that changed since, is
   * {@link EdgeException#UNTRUSTED}; so are its weights, when they are first used.
   */
  public EdgeOptions key(byte[] publicKey) {
    key = publicKey.clone();
    return this;
  }

  /** A file in which a GPU's driver keeps compiled kernels, so that the next start is quicker. */
  public EdgeOptions cache(File file) {
    cache = file;
    return this;
  }
}
