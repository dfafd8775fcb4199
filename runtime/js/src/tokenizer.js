// Tokenizers of language models: edgert_text in WebAssembly, an instance each.
import { EdgeError, codeOf } from './errors.js';
import { importsOf } from './imports.js';
import { compile } from './edgert.js';

const ERROR = { size: 256, message: 4 }; // as in edgert.h, where a pointer has 32 bits
const MESSAGE = { size: 8, content: 4 };

export class Tokenizer {
  #c;
  #self = 0;
  #out; // two words and an error

  /** Of a module's attribute `edgec.text.form`. */
  static async open(form, wasm = new URL('./edgert-text.wasm', import.meta.url)) {
    const self = new Tokenizer();
    const module = await compile('text', wasm);
    const instance = await WebAssembly.instantiate(module, importsOf(module, {}));
    const c = instance.exports;
    self.#c = c;
    c._initialize?.();
    self.#out = self.#allocate(8 + ERROR.size);
    const given = self.#put(form);
    self.#do(c.edgert_tokenizer_parse(given.place, given.size, 0, self.#out, self.#error));
    c.free(given.place);
    self.#self = self.#word(self.#out);
    self.context = c.edgert_tokenizer_context(self.#self);
    self.vocabulary = c.edgert_tokenizer_vocabulary(self.#self);
    self.recurrent = c.edgert_tokenizer_recurrent(self.#self) !== 0;
    self.prefill = [];
    for (let size; (size = c.edgert_tokenizer_prefill(self.#self, self.prefill.length));)
      self.prefill.push(size);
    return self;
  }

  /** The chunk by which the next call reads a text of which so many tokens are left; 1: `decode`. */
  chunk(left) {
    return this.#c.edgert_tokenizer_chunk(this.#self, left);
  }

  /** The tokens of a text; `special`: with those that the model's texts begin and end with. */
  encode(text, { special = false } = {}) {
    const given = this.#put(text.toWellFormed?.() ?? text);
    try {
      this.#do(this.#c.edgert_tokenizer_encode(
        this.#self, given.place, given.size, special ? 1 : 0, this.#out, this.#out + 4, this.#error,
      ));
    } finally {
      this.#c.free(given.place);
    }
    const [place, count] = [this.#word(this.#out), this.#word(this.#out + 4)];
    const tokens = new Int32Array(this.#c.memory.buffer, place, count).slice();
    this.#c.edgert_tokenizer_free(this.#self, place);
    return tokens;
  }

  /** The text of tokens, without special ones. */
  decode(tokens) {
    const place = this.#allocate(4 * tokens.length);
    try {
      new Int32Array(this.#c.memory.buffer, place, tokens.length).set(tokens);
      this.#do(this.#c.edgert_tokenizer_decode(
        this.#self, place, tokens.length, this.#out, this.#out + 4, this.#error,
      ));
    } finally {
      this.#c.free(place);
    }
    return this.#taken();
  }

  /** The prompt of a conversation, `{ role, content }` each. */
  prompt(messages) {
    const texts = messages.flatMap(({ role, content }) => [role, content])
      .map((text) => this.#put(`${text}\0`).place);
    const place = this.#allocate(MESSAGE.size * messages.length);
    try {
      const view = new DataView(this.#c.memory.buffer);
      texts.forEach((text, i) => view.setUint32(place + MESSAGE.content * i, text, true));
      this.#do(this.#c.edgert_tokenizer_prompt(
        this.#self, place, messages.length, this.#out, this.#out + 4, this.#error,
      ));
    } finally {
      [...texts, place].forEach((each) => this.#c.free(each));
    }
    return this.#taken();
  }

  /** Whether a token ends an answer. */
  stops(token) {
    return this.#c.edgert_tokenizer_stops(this.#self, token) !== 0;
  }

  /** Tokens one by one to pieces of text: `add(token)`, and `end()` for what is left. */
  stream() {
    const c = this.#c;
    this.#do(c.edgert_text_stream_create(this.#self, this.#out, this.#error));
    const stream = this.#word(this.#out);
    const piece = (status) => {
      this.#do(status);
      return this.#text(this.#word(this.#out), this.#word(this.#out + 4));
    };
    return {
      add: (token) => piece(
        c.edgert_text_stream_add(stream, token, this.#out, this.#out + 4, this.#error)),
      end: () => {
        const text = piece(c.edgert_text_stream_end(stream, this.#out, this.#out + 4, this.#error));
        c.edgert_text_stream_release(stream);
        return text;
      },
    };
  }

  /** All its memory goes with it. */
  close() {
    this.#c = undefined;
  }

  get #error() {
    return this.#out + 8;
  }

  #allocate(size) {
    const place = this.#c.malloc(Math.max(size, 1));
    if (!place) throw new EdgeError('OUT_OF_MEMORY', `WebAssembly has no ${size} bytes left`);
    return place >>> 0;
  }

  #put(text) {
    const bytes = new TextEncoder().encode(text);
    const place = this.#allocate(bytes.length);
    new Uint8Array(this.#c.memory.buffer, place, bytes.length).set(bytes);
    return { place, size: bytes.length };
  }

  #word(place) {
    return new DataView(this.#c.memory.buffer).getUint32(place, true);
  }

  #text(place, size) {
    return new TextDecoder('utf-8', { ignoreBOM: true })
      .decode(new Uint8Array(this.#c.memory.buffer, place, size));
  }

  /** A text that is the caller's. */
  #taken() {
    const place = this.#word(this.#out);
    const text = this.#text(place, this.#word(this.#out + 4));
    this.#c.edgert_tokenizer_free(this.#self, place);
    return text;
  }

  #do(status) {
    if (!status) return;
    const bytes = new Uint8Array(this.#c.memory.buffer, this.#error + ERROR.message, 252);
    throw new EdgeError(codeOf(status), new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0))));
  }
}
