package dev.edgec;

import java.util.Locale;

/** An input or output as the module declares it. */
public final class EdgeSpec {
  /** A size that is chosen at each call. */
  public static final long DYNAMIC = -1;

  private final String name;
  private final EdgeType type;
  private final long[] shape;

  EdgeSpec(String name, EdgeType type, long[] shape) {
    this.name = name;
    this.type = type;
    this.shape = shape;
  }

  /** As the model calls it; empty where it has no name. */
  public String name() {
    return name;
  }

  /** The type of its elements. */
  public EdgeType type() {
    return type;
  }

  /** Its sizes; {@link #DYNAMIC} for one that is chosen at each call. */
  public long[] shape() {
    return shape.clone();
  }

  @Override
  public String toString() {
    StringBuilder text = new StringBuilder(name.isEmpty() ? "" : name + ": ");
    text.append(type.name().toLowerCase(Locale.ROOT)).append('[');
    for (int i = 0; i < shape.length; ++i) {
      text.append(i == 0 ? "" : ", ").append(shape[i] < 0 ? "?" : Long.toString(shape[i]));
    }
    return text.append(']').toString();
  }
}
