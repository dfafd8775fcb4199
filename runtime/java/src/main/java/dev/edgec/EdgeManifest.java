package dev.edgec;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The manifest of a package: the files of one model, in the order in which they are tried. */
public final class EdgeManifest {
  /** The file's name beside the modules. */
  public static final String FILE = "manifest.json";

  /** One variant: its file, the target it was compiled for, and what it needs. */
  public static final class Variant {
    public final String file;
    public final String target;
    /** The instruction set of a variant for processors; empty for others. */
    public final String isa;
    /** {@code cpu} or {@code vulkan}. */
    public final String device;
    /** The file's hash in hexadecimal digits; null where the manifest has none. */
    public final String sha256;

    Variant(String file, String target, String isa, String device, String sha256) {
      this.file = file;
      this.target = target;
      this.isa = isa;
      this.device = device;
      this.sha256 = sha256;
    }
  }

  /** How the module of a variant is opened; see {@link EdgeModule#load(EdgeManifest, Source)}. */
  public interface Source {
    /** The module in this file of the package. */
    EdgeModule open(String file);
  }

  private final List<Variant> variants;
  private final String weights;

  private EdgeManifest(List<Variant> variants, String weights) {
    this.variants = Collections.unmodifiableList(variants);
    this.weights = weights;
  }

  /** The file of weights that the variants share; null where each has its own inside. */
  public String weights() {
    return weights;
  }

  /** The variants, best first. */
  public List<Variant> variants() {
    return variants;
  }

  /** Refuses a file's bytes, from their position to their limit, that are not those listed. */
  public void check(String file, ByteBuffer data) {
    for (Variant variant : variants) {
      if (!variant.file.equals(file) || variant.sha256 == null) continue;
      if (!variant.sha256.equals(hash(data))) {
        throw new EdgeException(
            EdgeException.DAMAGED, file + " is not the file that the manifest lists");
      }
    }
  }

  private static String hash(ByteBuffer data) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      digest.update(data.duplicate());
      StringBuilder text = new StringBuilder();
      for (byte part : digest.digest()) text.append(String.format(Locale.ROOT, "%02x", part));
      return text.toString();
    } catch (NoSuchAlgorithmException error) {
      throw new EdgeException(EdgeException.UNSUPPORTED, "this system has no SHA-256");
    }
  }

  /** Reads a manifest's text. */
  public static EdgeManifest parse(String text) {
    Object value = Json.parse(text);
    List<Variant> variants = new ArrayList<>();
    String weights = null;
    try {
      Map<?, ?> members = (Map<?, ?>) value;
      if (((Double) members.get("schema")) != 1) {
        throw new EdgeException(
            EdgeException.UNSUPPORTED, "the manifest has another format: " + members.get("schema"));
      }
      for (Object item : (List<?>) members.get("variants")) {
        Map<?, ?> variant = (Map<?, ?>) item;
        String file = inside((String) variant.get("file"));
        Map<?, ?> needs = (Map<?, ?>) variant.get("needs");
        variants.add(new Variant(
                file,
                (String) variant.get("target"),
                (String) needs.get("isa"),
                needs.containsKey("device") ? (String) needs.get("device") : "cpu",
                (String) variant.get("sha256")));
      }
      Map<?, ?> shared = (Map<?, ?>) members.get("weights");
      if (shared != null) weights = inside((String) shared.get("file"));
    } catch (ClassCastException | NullPointerException error) {
      throw new EdgeException(EdgeException.DAMAGED, "this is no manifest of a package");
    }
    return new EdgeManifest(variants, weights);
  }

  private static String inside(String file) {
    if (file.startsWith("/") || file.contains("..") || file.contains("\\")) {
      throw new EdgeException(
          EdgeException.DAMAGED, "the manifest names a file outside the package: " + file);
    }
    return file;
  }
}
