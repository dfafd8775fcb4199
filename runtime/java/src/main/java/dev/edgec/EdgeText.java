package dev.edgec;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * A language model in a module: prompts and conversations to text.
 *
 * <pre>
 * try (EdgeModule module = EdgeModule.load("smol.vmfb");
 *     EdgeText model = EdgeText.of(module)) {
 *   model.chat("What is the capital of France?", new EdgeTextOptions().limit(100), piece -> {
 *     System.out.print(piece);
 *     return true;
 *   });
 * }
 * </pre>
 *
 * <p>What two prompts begin with alike is read once: a conversation that goes on costs its new
 * messages alone. Answers take turns; nobody else may call the module's functions meanwhile. The
 * library has text where it was built with `edgert_text.c` beside `edgert.c`.
 */
public final class EdgeText implements AutoCloseable {
  /** Is told an answer as it is written, on the thread that asked. */
  public interface Told {
    /**
     * @param text whole characters; empty once, when the prompt has been read
     * @return false breaks the answer off
     */
    boolean piece(String text);
  }

  /** Says which tokens may come next; libraries that follow a grammar or a schema give such masks. */
  public interface Allow {
    /**
     * @param last the answer's newest token, or -1 where it has none
     * @param mask all zero: set a bit for each token that may come next, the first the lowest of the
     *     first word
     * @return false where none may: the answer ends
     */
    boolean allow(int last, int[] mask);
  }

  /** What somebody said. */
  public static final class Message {
    final String role;
    final String content;

    /** `role` is {@code user}, {@code assistant} or {@code system}. */
    public Message(String role, String content) {
      this.role = role;
      this.content = content;
    }
  }

  /** Why an answer ended; in the order of edgert_text_finish. */
  public enum Finish {
    /** The model ended it. */
    STOP,
    /** It has as many tokens as were asked for. */
    LIMIT,
    /** The context is full. */
    CONTEXT,
    /** The app wanted no more. */
    BROKEN_OFF
  }

  /** A whole answer. */
  public static final class Answer {
    /** All that was told. */
    public final String text;
    public final Finish finish;
    /** Tokens of the prompt. */
    public final int prompt;
    /** How many of them the module still knew. */
    public final int reused;
    /** Tokens of the answer, the one that ended it included. */
    public final int tokens;

    private Answer(String text, long[] stats) {
      this.text = text;
      finish = Finish.values()[(int) stats[0]];
      prompt = (int) stats[1];
      reused = (int) stats[2];
      tokens = (int) stats[3];
    }
  }

  private final Handle model;
  private final Object turn = new Object();

  private EdgeText(long address) {
    model = Handle.of(this, Native.TEXT, address);
  }

  /** The language model of a module, which it keeps. */
  public static EdgeText of(EdgeModule module) {
    try {
      return new EdgeText(module.text());
    } catch (UnsatisfiedLinkError error) {
      throw new EdgeException(
          EdgeException.UNSUPPORTED,
          "this libedgec_jni has no text: build it with edgert_text.c beside edgert.c "
              + "(amalgamate.py FOLDER --text)");
    }
  }

  /** Goes on with a text; `told` may be null. */
  public Answer generate(String prompt, EdgeTextOptions options, Told told) {
    return answer(new byte[][] {prompt.getBytes(StandardCharsets.UTF_8)}, options, told);
  }

  /** Answers a question. */
  public Answer chat(String question, EdgeTextOptions options, Told told) {
    return chat(Collections.singletonList(new Message("user", question)), options, told);
  }

  /** Answers the last message of a conversation, the oldest first. */
  public Answer chat(List<Message> messages, EdgeTextOptions options, Told told) {
    List<byte[]> said = new ArrayList<>();
    for (Message message : messages) {
      if (message.role.indexOf(0) >= 0 || message.content.indexOf(0) >= 0) {
        throw new EdgeException(EdgeException.INVALID_ARGUMENT, "a message holds a zero character");
      }
      said.add(message.role.getBytes(StandardCharsets.UTF_8));
      said.add(message.content.getBytes(StandardCharsets.UTF_8));
    }
    return answer(said.toArray(new byte[0][]), options, told);
  }

  private Answer answer(byte[][] said, EdgeTextOptions options, Told told) {
    StringBuilder whole = new StringBuilder();
    Native.Piece listener =
        bytes -> {
          String piece = new String(bytes, StandardCharsets.UTF_8);
          whole.append(piece);
          return told == null || told.piece(piece);
        };
    synchronized (turn) {
      long address = model.borrow("language model");
      try {
        long[] stats =
            Native.textAnswer(
                address, said, options.whole(), options.parts(), listener, options.allow());
        return new Answer(whole.toString(), stats);
      } finally {
        model.giveBack();
      }
    }
  }

  /**
   * What the model has read, as bytes for a file of the app's: a text that begins alike costs only what
   * follows when it is restored. C and Python write the same.
   */
  public byte[] save() {
    synchronized (turn) {
      long address = model.borrow("language model");
      try {
        return Native.textSave(address);
      } finally {
        model.giveBack();
      }
    }
  }

  /**
   * Knows again what was known when the bytes were saved.
   *
   * @throws EdgeException they are damaged, or of another model, be it one with other weights alone;
   *     what was known is known still
   */
  public void restore(byte[] saved) {
    synchronized (turn) {
      long address = model.borrow("language model");
      try {
        Native.textRestore(address, saved);
      } finally {
        model.giveBack();
      }
    }
  }

  /** Makes the answer that is being written fail as cancelled; from any thread. */
  public void interrupt() {
    long address = model.borrow("language model");
    try {
      Native.textInterrupt(address);
    } finally {
      model.giveBack();
    }
  }

  @Override
  public void close() {
    model.release();
  }
}
