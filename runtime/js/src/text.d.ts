import type { LoadOptions, ModelBase, Variant } from './index.js';

export interface Message {
  readonly role: string;
  readonly content: string;
}

/** How an answer is written; without a temperature and a penalty the likeliest tokens are taken. */
export interface AnswerOptions {
  /** The most tokens that are made. */
  readonly limit?: number;
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  readonly repetitionPenalty?: number;
  readonly seed?: number;
  /** What becomes of a text that outgrows the context: the answer ends (`stop`), or goes on. */
  readonly whenFull?: 'stop' | 'slide';
  /** How many tokens at the beginning stay when it slides; all before the first question in a chat. */
  readonly keep?: number;
  /** `false`: guesses are not read along with tokens, where the module could; the text is the same. */
  readonly speculate?: boolean;
  /**
   * Each token is one of those that this allows: it sets their bits in words of 32, the first the lowest,
   * which are all zero. `last` is the answer's last token, undefined before the first. `false` ends it.
   * Nothing is guessed meanwhile.
   */
  readonly allow?: (last: number | undefined, mask: Uint32Array) =>
    boolean | void | Promise<boolean | void>;
  /** Breaks the answer off. */
  readonly signal?: AbortSignal;
}

/** An answer as it is written: `for await` gives its pieces. */
export interface Answer extends AsyncIterableIterator<string> {
  readonly tokens: readonly number[];
  readonly finish: 'stop' | 'limit' | 'context' | 'broken off';
  /** Tokens of the prompt, how many were known, tokens so far; seconds to the first, and after it. */
  readonly stats: {
    readonly prompt: number;
    readonly reused: number;
    readonly tokens: number;
    readonly first: number;
    readonly seconds: number;
  };
  /** What was written so far. */
  readonly text: string;
  /** Write it to its end; all of its text. */
  whole(): Promise<string>;
}

export interface TextStream {
  /** The text that is known now and was not before. */
  add(token: number): string;
  /** What is left; the stream can be used no more. */
  end(): string;
}

/** Text to tokens and back. */
export class Tokenizer {
  static open(form: string, wasm?: string | URL | BufferSource): Promise<Tokenizer>;
  readonly context: number;
  readonly vocabulary: number;
  readonly prefill: readonly number[];
  /** Whether the model keeps what all tokens so far have left, of which none can be taken back. */
  readonly recurrent: boolean;
  /** The chunk by which the next call reads a text of which so many tokens are left; 1: `decode`. */
  chunk(left: number): number;
  encode(text: string, options?: { readonly special?: boolean }): Int32Array;
  decode(tokens: ArrayLike<number>): string;
  prompt(messages: readonly Message[]): string;
  stops(token: number): boolean;
  stream(): TextStream;
  close(): void;
}

/** A language model, and the tokens that it has read. One answer at a time. */
export class TextModel {
  readonly model: ModelBase;
  readonly tokenizer: Tokenizer;
  readonly context: number;
  generate(prompt: string | ArrayLike<number>, options?: AnswerOptions): Answer;
  chat(messages: string | readonly Message[], options?: AnswerOptions): Answer;
  /** What was read, as bytes for a file; C, Java and Python write the same. */
  save(): Promise<Uint8Array>;
  /** Know it again; refuses what is damaged, or of another model, and then what was known is known still. */
  restore(bytes: Uint8Array): Promise<void>;
  close(): void;
}

export interface TextOptions extends LoadOptions {
  /** Where edgert-text.wasm is, if not beside this module. */
  readonly wasmText?: string | URL | BufferSource;
}

/** Load a module that holds a language model. */
export function loadText(
  source: string | URL | BufferSource | readonly Variant[], options?: TextOptions,
): Promise<TextModel>;

/** A language model of a model that was loaded otherwise. */
export function textOf(
  model: ModelBase, options?: { readonly wasmText?: string | URL | BufferSource },
): Promise<TextModel>;
