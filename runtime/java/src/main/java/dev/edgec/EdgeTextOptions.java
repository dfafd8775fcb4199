package dev.edgec;

/** How a language model chooses its words; without any the likeliest ones, as long as it will. */
public final class EdgeTextOptions {
  private int limit;
  private int topK;
  private int seed;
  private boolean slides;
  private int keep;
  private boolean guesses = true;
  private float temperature;
  private float topP;
  private float minP;
  private float repetitionPenalty;
  private EdgeText.Allow allow;

  /** The most tokens that are made; 0: as many as the context holds. */
  public EdgeTextOptions limit(int tokens) {
    if (tokens < 0) throw negative("limit");
    limit = tokens;
    return this;
  }

  /** Scores are divided by it; 0: the best is taken. */
  public EdgeTextOptions temperature(float value) {
    temperature = value;
    return this;
  }

  /** Only so many of the best; 0: all. */
  public EdgeTextOptions topK(int count) {
    if (count < 0) throw negative("top_k");
    topK = count;
    return this;
  }

  /** Only the best that together have this probability; 0: all. */
  public EdgeTextOptions topP(float share) {
    topP = share;
    return this;
  }

  /** Only those at least this part as likely as the best. */
  public EdgeTextOptions minP(float share) {
    minP = share;
    return this;
  }

  /** Scores of tokens that were there already are divided by it; 0: by 1. */
  public EdgeTextOptions repetitionPenalty(float value) {
    repetitionPenalty = value;
    return this;
  }

  /** Another one gives another text, the same one the same. */
  public EdgeTextOptions seed(int value) {
    seed = value;
    return this;
  }

  /**
   * A full context goes on: its first tokens stay, and its last part is read anew.
   *
   * @param first how many stay; 0: 4, or all before a conversation's first question
   */
  public EdgeTextOptions slide(int first) {
    if (first < 0) throw negative("keep");
    slides = true;
    keep = first;
    return this;
  }

  /** What followed the same words before is not read along with a token; the text is the same. */
  public EdgeTextOptions withoutGuesses() {
    guesses = false;
    return this;
  }

  /** Each token is one of those that it allows, and nothing is guessed; null: all may come. */
  public EdgeTextOptions allow(EdgeText.Allow which) {
    allow = which;
    return this;
  }

  EdgeText.Allow allow() {
    return allow;
  }

  /** As edgec_jni_text.h reads them. */
  int[] whole() {
    return new int[] {limit, topK, seed, slides ? 1 : 0, keep, guesses ? 0 : 1};
  }

  /** As edgec_jni_text.h reads them. */
  float[] parts() {
    return new float[] {temperature, topP, minP, repetitionPenalty};
  }

  private static EdgeException negative(String name) {
    return new EdgeException(EdgeException.INVALID_ARGUMENT, name + " must be 0 or more");
  }
}
