package dev.edgec.samples.camera;

import dev.edgec.EdgeModule;
import dev.edgec.EdgeTensor;
import java.nio.FloatBuffer;
import java.util.List;

/** The network with the names of what it knows, and memory for one photograph. */
final class Classifier implements AutoCloseable {
  /** What a frame shows most likely. */
  static final class Guess {
    final String name;
    /** How sure that is, 0 to 1. */
    final float share;
    /** What the network alone took. */
    final double milliseconds;

    Guess(String name, float share, double milliseconds) {
      this.name = name;
      this.share = share;
      this.milliseconds = milliseconds;
    }
  }

  private static final String FUNCTION = "main";

  private final EdgeModule model;
  private final List<String> names;
  private final EdgeTensor photo;
  private final FloatBuffer numbers; // the tensor's own
  private final int side;

  /** Takes the model over, and closes it. */
  Classifier(EdgeModule model, List<String> names) {
    this.model = model;
    this.names = names;
    photo = model.input(FUNCTION, 0);
    numbers = photo.buffer().asFloatBuffer();
    side = (int) photo.shape()[0];
  }

  /** Of all kinds of things the likeliest; frames are looked at one after the other. */
  synchronized Guess look(Frame frame) {
    frame.write(side, numbers);
    long begin = System.nanoTime();
    EdgeTensor[] results = model.call(FUNCTION, photo);
    float[] shares = results[0].floats();
    double milliseconds = (System.nanoTime() - begin) / 1e6;
    for (EdgeTensor result : results) result.close();
    int best = 0;
    for (int i = 1; i < shares.length; ++i) if (shares[i] > shares[best]) best = i;
    return new Guess(names.get(best), shares[best], milliseconds);
  }

  /** What computes ({@code cpu}, or a GPU's name), and why nothing that was to be tried before does. */
  String computing() {
    StringBuilder text = new StringBuilder(model.device());
    for (String why : model.passedOver()) text.append("\nnot ").append(why);
    return text.toString();
  }

  @Override
  public synchronized void close() {
    photo.close();
    model.close();
  }
}
