// Text for modules that hold a language model: prompts and conversations to answers, piece by piece.
//
//     import { loadText } from 'edgec-runtime/text.js';
//     const model = await loadText('smol.vmfb', { worker: true });
//     for await (const piece of model.chat('What is the capital of France?')) show(piece);
import { EdgeError } from './errors.js';
import { load } from './index.js';
import { restore, save } from './saved.js';
import { Tokenizer } from './tokenizer.js';

export { Tokenizer };

const FORM = 'edgec.text.form';
const IDENTITY = 'edgec.text.identity';
const SINKS = 4; // tokens at a text's beginning that attention leans on, whatever they say
const WORTH = 2; // tokens that calls with guesses have to read on average: one takes as long as so many
const WEIGHT = 0.3; // of the newest such call in that average
const LIKELIEST = { temperature: 0, top_k: 0, top_p: 1, min_p: 0, repetition_penalty: 1, seed: 0 };
const PATIENCE = 0.125; // what each guess that was not tried adds to it, to be tried again some day

/** Load a module that holds a language model; the options are those of `load`, and `wasmText`. */
export async function loadText(source, options = {}) {
  return textOf(await load(source, options), options);
}

/** A language model of a model that was loaded: by a package's own `load`, for example. */
export async function textOf(model, { wasmText } = {}) {
  const form = await model.attribute(FORM);
  if (!form) throw new EdgeError('NOT_FOUND', 'the module holds no language model');
  return new TextModel(model, await Tokenizer.open(form, wasmText));
}

/** A language model, and the tokens that it has read. One answer at a time. */
export class TextModel {
  #held = []; // tokens whose keys and values the module keeps
  #verify = 0; // how many tokens the function that checks guesses takes; 0: there is none
  #turn = 0;

  constructor(model, tokenizer) {
    this.model = model;
    this.tokenizer = tokenizer;
    this.context = tokenizer.context;
    for (const name of Object.keys(model.functions))
      if (/^verify_\d+$/.test(name)) this.#verify = Number(name.slice(7));
  }

  /** Go on with a text, or with tokens. */
  generate(prompt, options = {}) {
    const tokens = typeof prompt === 'string' ? this.tokenizer.encode(prompt, { special: true }) : prompt;
    return this.#answer([...tokens], options);
  }

  /** Answer a question, or the last of messages as `{ role, content }`. */
  chat(messages, options = {}) {
    const given = typeof messages === 'string' ? [{ role: 'user', content: messages }] : messages;
    const tokens = this.#promptOf(given);
    if (options.whenFull !== 'slide') return this.#answer(tokens, options);
    return this.#answer(tokens, { keep: this.#beginning(given, tokens), ...options });
  }

  /** What was read, as bytes for a file or a page's storage; ends the answer that is being written. */
  async save() {
    this.#turn += 1;
    const state = this.#state();
    await this.model.call('reset', this.#held.length);
    const held = [...this.#held];
    const identity = await this.model.attribute(IDENTITY);
    return save(await state.get(), held, this.context, identity);
  }

  /** Know again what was known when the bytes were saved, by this model: those of another are refused. */
  async restore(bytes) {
    this.#turn += 1;
    const state = this.#state();
    const identity = await this.model.attribute(IDENTITY);
    const { held, states } = restore(bytes, state.specs, this.context, identity);
    this.#held = [];
    await state.set(states);
    this.#held = held;
  }

  #state() {
    const { state } = this.model;
    if (!state) throw new EdgeError('UNSUPPORTED', 'the module does not give what it has read');
    return state;
  }

  close() {
    this.#turn += 1;
    this.model.close();
    this.tokenizer.close();
  }

  #promptOf(messages) {
    return [...this.tokenizer.encode(this.tokenizer.prompt(messages))];
  }

  /** How many tokens of a conversation stand before its first question. */
  #beginning(messages, tokens) {
    const first = Math.max(0, messages.findIndex(({ role }) => role === 'user'));
    const other = this.#promptOf([...messages.slice(0, first), { role: 'user', content: '?' }]);
    return Math.max(SINKS, alike(tokens, other));
  }

  #answer(tokens, options) {
    const fail = (message) => { throw new EdgeError('INVALID_ARGUMENT', message); };
    if (!tokens.length) fail('the prompt has no tokens');
    if (!['stop', 'slide', undefined].includes(options.whenFull))
      fail(`whenFull is ${options.whenFull}, and can be stop or slide`);
    if (tokens.length > this.context && options.whenFull !== 'slide')
      fail(`the prompt has ${tokens.length} tokens, and the context holds ${this.context}`);
    const wrong = tokens.find((token) => !(token >= 0 && token < this.tokenizer.vocabulary));
    if (wrong !== undefined) fail(`the prompt holds the token ${wrong}, which the model does not know`);
    this.#turn += 1; // ends the answer before it
    return new Answer((answer) => this.#write(answer, tokens, options, this.#turn));
  }

  async* #write(answer, tokens, options, turn) {
    const { limit = Infinity, signal, whenFull = 'stop', keep = SINKS, speculate = true, allow,
      ...sampling } = options;
    const began = performance.now();
    const draw = sampler(sampling);
    const allowed = allow && this.#mask();
    const mayGoOn = async (last) => !allow || await allow(last, allowed.fill(0)) !== false;
    const ended = () => signal?.aborted || this.#turn !== turn;
    const text = [...tokens];
    const seen = () => (whenFull === 'slide' ? windowOf(text, this.context, keep) : text);
    const known = this.#known(seen());
    if (limit <= 0) return 'limit';
    if (!await mayGoOn(undefined)) return 'stop';
    const first = await this.#readAnew(seen(), ended);
    if (first === undefined) return 'broken off';
    let coming = [await this.#chosen(first, draw, allowed)];
    let paid = this.#verify; // tokens that calls with guesses read, on average
    const started = performance.now();
    const stream = this.tokenizer.stream();
    let finish;
    for (;;) {
      const token = coming.shift();
      answer.tokens.push(token);
      Object.assign(answer.stats, {
        prompt: tokens.length,
        reused: known,
        tokens: answer.tokens.length,
        first: (started - began) / 1000,
        seconds: (performance.now() - started) / 1000,
      });
      if (this.tokenizer.stops(token)) finish = 'stop';
      else {
        const piece = stream.add(token);
        if (piece) yield piece;
        if (ended()) return 'broken off';
        if (answer.tokens.length >= limit) finish = 'limit';
        else if (!coming.length && this.#held.length >= this.context && whenFull !== 'slide')
          finish = 'context';
      }
      if (finish) break;
      text.push(token);
      if (coming.length) continue;
      const room = this.context - this.#held.length;
      const guesses = this.#verify && speculate && !draw && !allow && room > 0
        ? guessOf(text, Math.min(this.#verify, room) - 1) : [];
      if (guesses.length && paid >= WORTH) {
        coming = await this.#checked([token, ...guesses]);
        paid += WEIGHT * (coming.length - paid);
      } else {
        if (guesses.length) paid += PATIENCE;
        if (!await mayGoOn(token)) {
          finish = 'stop';
          break;
        }
        const likeliest = room > 0 ? this.#read([token], ended) : this.#readAnew(seen(), ended);
        coming = [await this.#chosen(await likeliest, draw, allowed)];
      }
      if (ended()) return 'broken off';
    }
    const rest = stream.end();
    if (rest) yield rest;
    return finish;
  }

  /** How many tokens of a text are known; the last one is read again, for what follows it. */
  #known(tokens) {
    const known = Math.min(alike(tokens, this.#held), tokens.length - 1);
    // Of what it has read a recurrent model can take nothing back.
    return this.tokenizer.recurrent && known < this.#held.length ? 0 : known;
  }

  /** Read what of a text is not known; as `#read`. */
  async #readAnew(tokens, ended) {
    this.#held.length = this.#known(tokens);
    const [kept] = await this.model.call('reset', this.#held.length);
    this.#held.length = Math.min(this.#held.length, Number(kept[0]));
    return this.#read(tokens.slice(this.#held.length), ended);
  }

  /** Read tokens in chunks; the likeliest next one, or undefined where the answer was ended. */
  async #read(tokens, ended) {
    let token;
    for (let at = 0; at < tokens.length;) {
      if (ended()) return undefined;
      const size = this.tokenizer.chunk(tokens.length - at);
      const part = tokens.slice(at, at + size);
      const chunk = new Int32Array(size);
      chunk.set(part);
      const [found] = await (size === 1
        ? this.model.call('decode', part[0])
        : this.model.call(`prefill_${size}`, chunk, part.length));
      token = Number(found[0]);
      if (token < 0) throw new EdgeError('LIMIT', `the context of ${this.context} tokens is full`);
      this.#held.push(...part);
      at += part.length;
    }
    return token;
  }

  /** Read a token and those guesses behind it that are the likeliest; what is likeliest after each. */
  async #checked(tokens) {
    const chunk = new Int32Array(this.#verify);
    chunk.set(tokens);
    const [found] = await this.model.call(`verify_${this.#verify}`, chunk, tokens.length);
    const likeliest = Array.from(found, Number).filter((token) => token >= 0);
    if (!likeliest.length) throw new EdgeError('LIMIT', `the context of ${this.context} tokens is full`);
    this.#held.push(...tokens.slice(0, likeliest.length));
    return likeliest;
  }

  /** Room for a bit for each token, in words of 32. */
  #mask() {
    const sample = this.model.functions.sample_allowed;
    if (!sample) throw new EdgeError('UNSUPPORTED', 'the module chooses among all tokens: export it again');
    return new Uint32Array(sample.inputs[0].shape[0]);
  }

  async #chosen(likeliest, draw, allowed) {
    if (likeliest === undefined) return likeliest;
    const fits = !allowed || allowed[likeliest >>> 5] >>> (likeliest & 31) & 1;
    if (!draw && fits) return likeliest;
    const how = draw ?? LIKELIEST;
    const [found] = await (allowed
      ? this.model.call('sample_allowed', { allowed: new Int32Array(allowed), ...how })
      : this.model.call('sample', how));
    return Number(found[0]);
  }
}

if (Symbol.dispose) TextModel.prototype[Symbol.dispose] = TextModel.prototype.close;

/** How many tokens two texts begin with alike. */
function alike(one, other) {
  let count = 0;
  while (count < one.length && count < other.length && one[count] === other[count]) count += 1;
  return count;
}

/**
 * The tokens that are read of a text: all of a short one; else its first ones and its end. Of what is
 * between go whole halves of the context, so that a text that grows is read anew once in so many tokens.
 */
function windowOf(tokens, context, asked) {
  if (tokens.length <= context) return tokens;
  const keep = Math.min(asked, Math.floor(context / 2));
  const half = Math.max(1, Math.floor((context - keep) / 2));
  const gone = Math.ceil((tokens.length - context) / half) * half;
  return [...tokens.slice(0, keep), ...tokens.slice(keep + gone)];
}

/** What followed where the last three tokens of a text, or two, stood before: at most `most`. */
function guessOf(tokens, most) {
  for (const size of [3, 2]) {
    const end = tokens.slice(-size);
    for (let place = tokens.length - 1; place >= size && end.length === size; place -= 1)
      if (end.every((token, at) => tokens[place - size + at] === token))
        return tokens.slice(place, place + most);
  }
  return [];
}

/** What `sample` takes, or undefined where the likeliest token is wanted. */
function sampler({ temperature = 0, topK = 0, topP = 1, minP = 0, repetitionPenalty = 1, seed = 0, ...others }) {
  const [unknown] = Object.keys(others);
  if (unknown) throw new EdgeError('INVALID_ARGUMENT', `there is no option ${unknown}`);
  const checks = { temperature: temperature >= 0, topK: topK >= 0, topP: topP > 0 && topP <= 1,
    minP: minP >= 0 && minP <= 1, repetitionPenalty: repetitionPenalty > 0 };
  const wrong = Object.keys(checks).find((name) => !checks[name]);
  if (wrong) throw new EdgeError('INVALID_ARGUMENT', `${wrong} is out of its range`);
  if (temperature === 0 && repetitionPenalty === 1) return undefined;
  return { temperature, top_k: topK, top_p: topP, min_p: minP,
    repetition_penalty: repetitionPenalty, seed: seed | 0 };
}

/** An answer as it is written: `for await` gives its pieces. */
class Answer {
  #pieces;
  #said = '';

  /** What the model has chosen so far. */
  tokens = [];

  /** Why it ended: `stop`, `limit`, `context`, or `broken off` as long as it has not. */
  finish = 'broken off';

  /** Tokens of the prompt, how many of them were known, tokens so far, seconds to the first and after. */
  stats = { prompt: 0, reused: 0, tokens: 0, first: 0, seconds: 0 };

  constructor(write) {
    this.#pieces = write(this);
  }

  async next() {
    const { done, value } = await this.#pieces.next();
    if (!done) this.#said += value;
    else if (value) this.finish = value;
    return { done, value: done ? undefined : value };
  }

  async return() {
    await this.#pieces.return();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** What was written so far. */
  get text() {
    return this.#said;
  }

  /** Write it to its end; all of its text. */
  async whole() {
    while (!(await this.next()).done);
    return this.#said;
  }
}
