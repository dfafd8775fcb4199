package dev.edgec;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A size that is chosen at each call: its name, and the least and the most that it may be. */
public final class EdgeSize {
  /** One size in a call: where two inputs have it, they agree. */
  public final String name;

  public final long least;

  /** {@link Long#MAX_VALUE} where nothing is said. */
  public final long most;

  EdgeSize(String name, long least, long most) {
    this.name = name;
    this.least = least;
    this.most = most;
  }

  /** `batch=1..8`, as edgec writes it. */
  @Override
  public String toString() {
    boolean open = most == Long.MAX_VALUE;
    if (open && least == 1) return name;
    return name + "=" + least + ".." + (open ? "" : Long.toString(most));
  }

  /**
   * For each input or output of a function (`inputs`, `outputs`) the names and bounds along its
   * axes, null where a size is a number; empty where the module does not say.
   */
  static List<EdgeSize[]> read(String signature, String which) {
    List<EdgeSize[]> found = new ArrayList<>();
    if (signature == null) return found;
    try {
      for (Object tensor : (List<?>) ((Map<?, ?>) Json.parse(signature)).get(which)) {
        List<?> shape = (List<?>) ((Map<?, ?>) tensor).get("shape");
        EdgeSize[] sizes = new EdgeSize[shape.size()];
        for (int axis = 0; axis < sizes.length; ++axis) {
          if (!(shape.get(axis) instanceof Map)) continue;
          Map<?, ?> size = (Map<?, ?>) shape.get(axis);
          Object most = size.get("max");
          sizes[axis] =
              new EdgeSize(
                  (String) size.get("name"),
                  ((Double) size.get("min")).longValue(),
                  most == null ? Long.MAX_VALUE : ((Double) most).longValue());
        }
        found.add(sizes);
      }
    } catch (ClassCastException | NullPointerException error) {
      throw new EdgeException(EdgeException.DAMAGED, "the module's signature cannot be read");
    }
    return found;
  }
}
