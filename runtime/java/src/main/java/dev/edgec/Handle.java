package dev.edgec;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.Collections;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Native memory with a Java object for its owner: freed by `release`, or at the latest some time
 * after the owner was forgotten. `java.lang.ref.Cleaner` does the same, but not on older Androids.
 */
final class Handle extends PhantomReference<Object> {
  private static final ReferenceQueue<Object> FORGOTTEN = new ReferenceQueue<>();
  private static final Set<Handle> LIVE =
      Collections.newSetFromMap(new ConcurrentHashMap<Handle, Boolean>());

  private final int kind;
  private final AtomicLong address;

  private Handle(Object owner, int kind, long address) {
    super(owner, FORGOTTEN);
    this.kind = kind;
    this.address = new AtomicLong(address);
  }

  static Handle of(Object owner, int kind, long address) {
    for (Object found = FORGOTTEN.poll(); found != null; found = FORGOTTEN.poll()) {
      ((Handle) found).release();
    }
    Handle handle = new Handle(owner, kind, address);
    LIVE.add(handle);
    return handle;
  }

  long get(String what) {
    long found = address.get();
    if (found == 0) {
      throw new EdgeException(EdgeException.INVALID_ARGUMENT, "the " + what + " is closed");
    }
    return found;
  }

  void release() {
    long found = address.getAndSet(0);
    if (found == 0) return;
    LIVE.remove(this);
    Native.release(kind, found);
  }
}
