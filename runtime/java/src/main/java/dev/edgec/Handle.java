package dev.edgec;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.Collections;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Native memory with a Java object for its owner: freed by `release`, or at the latest some time
 * after the owner was forgotten. `java.lang.ref.Cleaner` does the same, but not on older Androids.
 */
final class Handle extends PhantomReference<Object> {
  private static final ReferenceQueue<Object> FORGOTTEN = new ReferenceQueue<>();
  private static final Set<Handle> LIVE =
      Collections.newSetFromMap(new ConcurrentHashMap<Handle, Boolean>());

  private final int kind;
  private long address;
  private int users;
  private boolean closed;

  private Handle(Object owner, int kind, long address) {
    super(owner, FORGOTTEN);
    this.kind = kind;
    this.address = address;
  }

  static Handle of(Object owner, int kind, long address) {
    for (Object found = FORGOTTEN.poll(); found != null; found = FORGOTTEN.poll()) {
      ((Handle) found).release();
    }
    Handle handle = new Handle(owner, kind, address);
    LIVE.add(handle);
    return handle;
  }

  /** The address, which stays good until `giveBack`; `what` is closed where there is none. */
  synchronized long borrow(String what) {
    if (closed) {
      throw new EdgeException(EdgeException.INVALID_ARGUMENT, "the " + what + " is closed");
    }
    ++users;
    return address;
  }

  synchronized void giveBack() {
    --users;
    free();
  }

  /** No one may borrow it any more; it is freed when the last has given it back. */
  synchronized void release() {
    closed = true;
    free();
  }

  private void free() {
    if (!closed || users > 0 || address == 0) return;
    LIVE.remove(this);
    Native.release(kind, address);
    address = 0;
  }
}
