package dev.edgec;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A compiled model, ready to be called.
 *
 * <pre>
 * try (EdgeModule model = EdgeModule.load("digits.vmfb");
 *     EdgeTensor image = model.input("main", 0).set(pixels)) {
 *   EdgeTensor[] results = model.call("main", image);
 *   float[] scores = results[1].floats();
 * }
 * </pre>
 *
 * <p>Every method may be called by any thread; calls take turns. What fails throws {@link
 * EdgeException} with edgert's message.
 */
public final class EdgeModule implements AutoCloseable {
  /** Computes on as many threads as there are processors. */
  public static final int ALL_THREADS = 0;

  private static final class Function {
    int index;
    boolean checked; // whether it has sizes with a name and a range
    final List<EdgeSpec> inputs = new ArrayList<>();
    final List<EdgeSpec> outputs = new ArrayList<>();
  }

  /** Where the weights of a module are that keeps them in a file of their own. */
  private interface Weights {
    /** A handle on the file of this name. */
    long open(String file);
  }

  private final Handle device;
  private final Handle host; // the same, unless it is a GPU
  private final Handle module;
  private final Handle session;
  private final Map<String, Function> functions = new LinkedHashMap<>();
  private final String target;
  private final boolean stateful;
  private List<String> passedOver = Collections.emptyList();

  private EdgeModule(long address, Weights place, EdgeOptions options) {
    module = Handle.of(this, Native.MODULE, address);
    Handle opened = null;
    Handle own = null;
    Handle made = null;
    long weights = 0;
    try {
      String facts = Native.attribute(address, -1, "edgec.module");
      Object value = facts == null ? null : Json.parse(facts);
      boolean far = isForGpu(value, options.device);
      weights = weights(value, place);
      long computing = Native.deviceCreate(far ? "vulkan" : "cpu", options.threads, path(options.cache));
      opened = Handle.of(this, Native.DEVICE, computing);
      own = far ? Handle.of(this, Native.DEVICE, Native.deviceCreate("cpu", 1, null)) : opened;
      long running = Native.sessionCreate(address, computing, weights);
      made = Handle.of(this, Native.SESSION, running);
      boolean asked = options.prove != null ? options.prove
          : far && Native.attribute(address, -1, "edgec.golden") != null;
      if (asked) Native.prove(running, path(options.verdicts));
      for (int i = 0, count = Native.functionCount(address); i < count; ++i) {
        Function function = new Function();
        function.index = i;
        String signature = Native.attribute(address, i, "edgec.signature");
        read(address, i, false, EdgeSize.read(signature, "inputs"), function.inputs);
        read(address, i, true, EdgeSize.read(signature, "outputs"), function.outputs);
        for (EdgeSpec spec : function.inputs) function.checked |= spec.hasSizes();
        functions.put(Native.functionName(address, i), function);
      }
      Object states = value instanceof Map ? ((Map<?, ?>) value).get("states") : null;
      Object said = value instanceof Map ? ((Map<?, ?>) value).get("target") : null;
      target = said instanceof String ? (String) said : "";
      stateful = !(states instanceof List) || !((List<?>) states).isEmpty();
    } catch (RuntimeException error) {
      if (made != null) made.release();
      if (own != null) own.release();
      if (opened != null) opened.release();
      module.release();
      throw error;
    } finally {
      if (weights != 0) Native.release(Native.WEIGHTS, weights); // the session has its own
    }
    device = opened;
    host = own;
    session = made;
  }

  /** Whether the module is for GPUs; refuses one that is not for what was chosen. */
  private static boolean isForGpu(Object facts, EdgeDevice chosen) {
    Object driver = facts instanceof Map ? ((Map<?, ?>) facts).get("driver") : null;
    boolean far = "vulkan".equals(driver);
    if (chosen != EdgeDevice.AUTO && far != (chosen == EdgeDevice.GPU)) {
      throw new EdgeException(
          EdgeException.UNSUPPORTED,
          "it is for a " + (far ? "GPU, and a CPU" : "CPU, and a GPU") + " was asked for");
    }
    return far;
  }

  private static String path(File file) {
    return file == null ? null : file.getPath();
  }

  /** A handle on the weights that a module keeps outside; 0 where it has them inside. */
  private static long weights(Object facts, Weights place) {
    Object outside = facts instanceof Map ? ((Map<?, ?>) facts).get("weights") : null;
    Object file = outside instanceof Map ? ((Map<?, ?>) outside).get("file") : null;
    if (!(file instanceof String)) return 0;
    if (place != null) return place.open((String) file);
    throw new EdgeException(
        EdgeException.NOT_FOUND,
        "the module keeps its weights in " + file + ": load it together with that file");
  }

  private static EdgeModule open(final File module, EdgeOptions options) {
    return new EdgeModule(
        Native.moduleOpen(module.getPath(), options.key),
        name -> Native.weightsOpen(new File(module.getParentFile(), name).getPath()),
        options);
  }

  /** Loads a module file, or from a package (its folder or manifest) the first variant that fits. */
  public static EdgeModule load(String path) {
    return load(path, new EdgeOptions());
  }

  /** The same, computing on so many threads. */
  public static EdgeModule load(String path, int threads) {
    return load(path, new EdgeOptions().threads(threads));
  }

  /** The same on this device. */
  public static EdgeModule load(String path, EdgeDevice device) {
    return load(path, new EdgeOptions().device(device));
  }

  /** The same, as the options say. */
  public static EdgeModule load(String path, final EdgeOptions options) {
    File file = new File(path);
    if (file.isDirectory()) file = new File(file, EdgeManifest.FILE);
    if (!file.getName().endsWith(".json")) {
      return open(file, options);
    }
    final File folder = file.getParentFile();
    try (InputStream stream = new FileInputStream(file)) {
      final EdgeManifest manifest = EdgeManifest.parse(text(stream));
      return load(
          manifest,
          name -> {
            File module = new File(folder, name);
            check(manifest, name, module);
            return open(module, options);
          });
    } catch (IOException error) {
      throw new EdgeException(EdgeException.IO, "cannot read " + file + ": " + error.getMessage());
    }
  }

  private static void check(EdgeManifest manifest, String name, File module) {
    try (FileInputStream stream = new FileInputStream(module)) {
      FileChannel channel = stream.getChannel();
      manifest.check(name, channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()));
    } catch (IOException error) {
      throw new EdgeException(
          EdgeException.IO, "cannot read " + module + ": " + error.getMessage());
    }
  }

  /**
   * Loads a module from memory: a direct buffer, such as a mapped file, from its position to its
   * limit. It is used in place where it begins at a multiple of 64 bytes, else copied, and must
   * not change.
   */
  public static EdgeModule load(ByteBuffer data, int threads) {
    return load(data, null, new EdgeOptions().threads(threads));
  }

  /** The same with the file of weights that the module keeps outside; null where it has none. */
  public static EdgeModule load(
      ByteBuffer data, final ByteBuffer weights, EdgeOptions options) {
    if (!data.isDirect() || (weights != null && !weights.isDirect())) {
      throw new EdgeException(
          EdgeException.INVALID_ARGUMENT, "a module is loaded from a direct buffer");
    }
    Weights place = weights == null ? null : name -> Native.weightsWrap(weights.slice());
    return new EdgeModule(Native.moduleWrap(data.slice(), options.key), place, options);
  }

  /**
   * The first variant that fits this device, and is right here where it is proved; where none does,
   * the message says of each why not.
   */
  public static EdgeModule load(EdgeManifest manifest, EdgeManifest.Source source) {
    List<String> refused = new ArrayList<>();
    for (EdgeManifest.Variant variant : manifest.variants()) {
      boolean near = "cpu".equals(variant.device);
      if (near && !Native.isa().equals(variant.isa)) {
        refused.add(variant.target + ": it is for " + variant.isa + ", and this is " + Native.isa());
        continue;
      }
      try {
        EdgeModule module = source.open(variant.file);
        module.passedOver = Collections.unmodifiableList(refused);
        return module;
      } catch (EdgeException error) {
        if (near && !isPassedOver(error.status())) throw error;
        refused.add(variant.target + ": " + error.getMessage());
      }
    }
    throw new EdgeException(
        EdgeException.UNSUPPORTED,
        "no variant fits this device: "
            + (refused.isEmpty() ? "there is none" : String.join("; ", refused)));
  }

  private static boolean isPassedOver(int status) {
    return status == EdgeException.UNSUPPORTED || status == EdgeException.WRONG_ANSWER;
  }

  /** Of each variant of the package that was passed over for this one, its target and why. */
  public List<String> passedOver() {
    return passedOver;
  }

  /** What computes: {@code cpu}, or the name of a GPU. */
  public String device() {
    long computing = device.borrow("module");
    try {
      return Native.deviceName(computing);
    } finally {
      device.giveBack();
    }
  }

  /** The target that the module was compiled for, as edgec calls it. */
  public String target() {
    return target;
  }

  /** The functions that can be called. */
  public List<String> functions() {
    return Collections.unmodifiableList(new ArrayList<>(functions.keySet()));
  }

  /** What a function takes. */
  public List<EdgeSpec> inputs(String function) {
    return Collections.unmodifiableList(find(function).inputs);
  }

  /** What a function gives. */
  public List<EdgeSpec> outputs(String function) {
    return Collections.unmodifiableList(find(function).outputs);
  }

  /**
   * A new tensor for an input, to be filled; it may be filled and given to calls again and again,
   * unless the model keeps it as state. `sizes` are those that are chosen at each call, in order.
   */
  public EdgeTensor input(String function, int index, long... sizes) {
    List<EdgeSpec> specs = find(function).inputs;
    if (index < 0 || index >= specs.size()) {
      throw new EdgeException(
          EdgeException.INVALID_ARGUMENT, function + " has no input " + index);
    }
    EdgeSpec spec = specs.get(index);
    long[] shape = spec.shape();
    int next = 0;
    for (int i = 0; i < shape.length; ++i) {
      if (shape[i] >= 0) continue;
      if (next == sizes.length) throw wrongSizes(spec, sizes);
      shape[i] = sizes[next++];
    }
    if (next != sizes.length) throw wrongSizes(spec, sizes);
    spec.check(shape, new HashMap<>());
    return tensor(spec.type(), shape);
  }

  /** A new tensor of any type and shape. */
  public EdgeTensor tensor(EdgeType type, long... shape) {
    long near = host.borrow("module");
    try {
      return new EdgeTensor(Native.tensorCreate(near, type.code, shape));
    } finally {
      host.giveBack();
    }
  }

  /**
   * A tensor over a direct buffer's memory, from its position to its limit: without a copy where it
   * begins at a multiple of 64 bytes (and the model keeps no state), else copied. The buffer is in
   * the machine's byte order and must not change while it is computed on.
   */
  public EdgeTensor wrap(ByteBuffer data, EdgeType type, long... shape) {
    if (!data.isDirect()) {
      throw new EdgeException(EdgeException.INVALID_ARGUMENT, "a direct buffer is needed");
    }
    if (type.bytes() > 1 && data.order() != ByteOrder.nativeOrder()) {
      throw new EdgeException(
          EdgeException.INVALID_ARGUMENT,
          "the buffer is not in the machine's byte order; call order(ByteOrder.nativeOrder())");
    }
    long near = host.borrow("module");
    int at = data.position();
    int size = data.remaining();
    try {
      return new EdgeTensor(
          Native.tensorWrap(near, type.code, shape, data, at, size, !stateful));
    } finally {
      host.giveBack();
    }
  }

  /** Calls a function that takes nothing. */
  public EdgeTensor[] call(String function) {
    return call(function, new EdgeTensor[0]);
  }

  /** Calls a function and waits for it; the results are the caller's to close. */
  public EdgeTensor[] call(String function, EdgeTensor... inputs) {
    Function found = find(function);
    if (found.checked) check(found, inputs);
    long[] given = new long[inputs.length];
    long[] results = new long[found.outputs.size()];
    int borrowed = 0;
    try {
      for (; borrowed < given.length; ++borrowed) {
        given[borrowed] = inputs[borrowed].handle.borrow("tensor");
      }
      long running = session.borrow("module");
      try {
        long computing = device.borrow("module");
        try {
          long near = host.borrow("module");
          try {
            Native.call(running, found.index, given, results, inputs, computing, near);
          } finally {
            host.giveBack();
          }
        } finally {
          device.giveBack();
        }
      } finally {
        session.giveBack();
      }
    } finally {
      while (borrowed > 0) inputs[--borrowed].handle.giveBack();
    }
    EdgeTensor[] made = new EdgeTensor[results.length];
    int next = 0;
    try {
      while (next < results.length) {
        long address = results[next];
        results[next] = 0;
        made[next++] = new EdgeTensor(address);
      }
    } catch (RuntimeException error) {
      for (EdgeTensor tensor : made) if (tensor != null) tensor.close();
      for (long address : results) if (address != 0) Native.release(Native.TENSOR, address);
      throw error;
    }
    return made;
  }

  /** The same with direct buffers, for functions all of whose sizes are fixed. */
  public EdgeTensor[] call(String function, ByteBuffer... inputs) {
    List<EdgeSpec> specs = find(function).inputs;
    if (inputs.length != specs.size()) {
      throw new EdgeException(
          EdgeException.INVALID_ARGUMENT,
          function + " takes " + specs.size() + " inputs and got " + inputs.length);
    }
    EdgeTensor[] tensors = new EdgeTensor[inputs.length];
    try {
      for (int i = 0; i < tensors.length; ++i) {
        tensors[i] = wrap(inputs[i], specs.get(i).type(), specs.get(i).shape());
      }
      return call(function, tensors);
    } finally {
      for (EdgeTensor tensor : tensors) if (tensor != null) tensor.close();
    }
  }

  /**
   * Makes the golden calls that the module brings on this device, and compares; state stays as it is.
   *
   * @param verdicts a file that keeps what came of it, so that it is done once for a module, a device
   *     and a driver's version; or null
   * @throws EdgeException with {@code WRONG_ANSWER} where an answer is off: which, and by how much
   */
  public void prove(File verdicts) {
    long running = session.borrow("module");
    try {
      Native.prove(running, path(verdicts));
    } finally {
      session.giveBack();
    }
  }

  /** A handle on the language model that the module holds. */
  long text() {
    long described = module.borrow("module");
    try {
      long running = session.borrow("module");
      try {
        long computing = device.borrow("module");
        try {
          return Native.textCreate(described, running, computing);
        } finally {
          device.giveBack();
        }
      } finally {
        session.giveBack();
      }
    } finally {
      module.giveBack();
    }
  }

  @Override
  public void close() {
    session.release();
    module.release();
    host.release();
    device.release();
  }

  /** Refuses inputs whose sizes the model does not take, before anything is computed. */
  private static void check(Function function, EdgeTensor[] inputs) {
    Map<String, Long> chosen = new HashMap<>();
    for (int i = 0; i < inputs.length && i < function.inputs.size(); ++i) {
      function.inputs.get(i).check(inputs[i].shape(), chosen);
    }
  }

  private Function find(String name) {
    Function function = functions.get(name);
    if (function != null) return function;
    throw new EdgeException(
        EdgeException.NOT_FOUND, "no function " + name + "; there are " + functions.keySet());
  }

  private static void read(
      long module, int function, boolean output, List<EdgeSize[]> said, List<EdgeSpec> specs) {
    for (int i = 0, n = Native.argumentCount(module, function, output); i < n; ++i) {
      long[] found = Native.argument(module, function, output, i);
      long[] shape = new long[found.length - 2];
      System.arraycopy(found, 2, shape, 0, shape.length);
      String name = Native.argumentName(module, function, output, i);
      EdgeSize[] sizes = i < said.size() ? said.get(i) : null;
      if (sizes == null || sizes.length != shape.length) sizes = new EdgeSize[shape.length];
      specs.add(new EdgeSpec(name, EdgeType.of((int) found[1]), shape, sizes));
    }
  }

  private static EdgeException wrongSizes(EdgeSpec spec, long[] sizes) {
    return new EdgeException(
        EdgeException.INVALID_ARGUMENT, sizes.length + " sizes given for " + spec);
  }

  static String text(InputStream stream) throws IOException {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    byte[] part = new byte[8192];
    for (int n = stream.read(part); n >= 0; n = stream.read(part)) all.write(part, 0, n);
    return all.toString("UTF-8");
  }
}
