package dev.edgec;

import java.util.Arrays;
import java.util.Locale;
import java.util.Map;

/** An input or output as the module declares it. */
public final class EdgeSpec {
  /** A size that is chosen at each call. */
  public static final long DYNAMIC = -1;

  private final String name;
  private final EdgeType type;
  private final long[] shape;
  private final EdgeSize[] sizes;

  EdgeSpec(String name, EdgeType type, long[] shape) {
    this(name, type, shape, new EdgeSize[shape.length]);
  }

  /** `sizes`: what is said of each size that is chosen at each call; null of the others. */
  EdgeSpec(String name, EdgeType type, long[] shape, EdgeSize[] sizes) {
    this.name = name;
    this.type = type;
    this.shape = shape;
    this.sizes = sizes;
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

  /** What is said of the size along an axis that is chosen at each call; null of a number. */
  public EdgeSize size(int axis) {
    return sizes[axis];
  }

  /** Whether a size is chosen at each call and something is said of it. */
  boolean hasSizes() {
    for (EdgeSize size : sizes) if (size != null) return true;
    return false;
  }

  /** Refuses sizes out of their range; `chosen` collects what each name stands for in a call. */
  void check(long[] given, Map<String, Long> chosen) {
    if (given.length != sizes.length) return; // edgert says it
    for (int axis = 0; axis < sizes.length; ++axis) {
      EdgeSize size = sizes[axis];
      if (size == null) continue;
      if (given[axis] < size.least || given[axis] > size.most) {
        throw refused(given, "dimension " + axis + " must be " + size);
      }
      Long other = chosen.putIfAbsent(size.name, given[axis]);
      if (other != null && other != given[axis]) {
        throw refused(given, size.name + " is " + other + " in this call already");
      }
    }
  }

  private EdgeException refused(long[] given, String why) {
    return new EdgeException(
        EdgeException.INVALID_ARGUMENT,
        "the input is " + this + " and got shape " + Arrays.toString(given) + ": " + why);
  }

  @Override
  public String toString() {
    StringBuilder text = new StringBuilder(name.isEmpty() ? "" : name + ": ");
    text.append(type.name().toLowerCase(Locale.ROOT)).append('[');
    for (int i = 0; i < shape.length; ++i) {
      text.append(i == 0 ? "" : ", ");
      text.append(sizes[i] != null ? sizes[i] : shape[i] < 0 ? "?" : Long.toString(shape[i]));
    }
    return text.append(']').toString();
  }
}
