// A module proves itself: the golden calls that it brings, made here and compared.
//
// `runtime/c/SPEC.md` says how inputs come from a seed and what is known of outputs.
import { EdgeError } from './errors.js';
import { arrayOf, itemsOf } from './tensors.js';

const SCHEMA = 1;
const EXACT = 2 ** 53;

const fail = () => { throw new EdgeError('DAMAGED', "the module's golden calls are damaged"); };

const within = (value, least, most) => {
  if (!Number.isSafeInteger(value) || value < least || value > most) fail();
  return value;
};

function hash(seed, position) {
  let x = (Math.imul(position, 0x9e3779b9) + seed) | 0;
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
  return (x ^ (x >>> 16)) >>> 0;
}

const words = new DataView(new ArrayBuffer(8));

/** The bits of a 16-bit float as a number. */
function fromHalf(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const size = exponent === 31 ? (fraction ? NaN : Infinity)
    : exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
  return bits & 0x8000 ? -size : size;
}

/** A number that is a 16-bit float as its bits. */
function toHalf(value) {
  const sign = value < 0 ? 0x8000 : 0;
  const size = Math.abs(value);
  if (!(size < 65536)) return sign | 0x7c00;
  if (size < 2 ** -14) return sign | (size * 2 ** 24);
  words.setFloat64(0, size);
  const high = words.getUint32(0);
  return sign | (((high >>> 20) - 1008) << 10) | ((high >>> 10) & 1023);
}

function fromBrain(bits) {
  words.setUint32(0, bits << 16);
  return words.getFloat32(0);
}

function toBrain(value) {
  words.setFloat32(0, value);
  return words.getUint16(0);
}

/** Numbers to elements of an array, and elements to the numbers that are compared. */
function conversions(dtype) {
  const Kind = arrayOf(dtype);
  if (dtype === 'bf16') return [toBrain, fromBrain];
  if (dtype === 'f16' && Kind === Uint16Array) return [toHalf, fromHalf];
  if (Kind === BigInt64Array || Kind === BigUint64Array) return [BigInt, (value) => Number(BigInt.asIntN(32, value))];
  return [(value) => value, dtype === 'u32' ? (value) => value | 0 : Number];
}

/** The type and shape of a tensor in the text, and how many numbers it has. */
function described({ type, shape }) {
  const Kind = arrayOf(type);
  if (!Array.isArray(shape)) fail();
  const count = shape.reduce((product, size) => product * within(size, 0, 2 ** 28), itemsOf(type));
  return { Kind, count: within(count, 0, 2 ** 28) };
}

function inputOf(given) {
  const { Kind, count } = described(given);
  const { type: dtype, shape, base, step } = given;
  const many = within(given.count, 1, 2 ** 20);
  const seed = within(given.seed, -1, 2 ** 32 - 1);
  const power = 2 ** within(given.exponent, -1000, 1000);
  within(base, -EXACT, EXACT);
  within(step * many, -EXACT, EXACT);
  const [encode] = conversions(dtype);
  const data = new Kind(count);
  for (let i = 0; i < count; ++i) {
    const k = seed < 0 ? i % many : Math.floor((hash(seed, i) * many) / 2 ** 32);
    data[i] = encode((base + step * k) * power);
  }
  return { dtype, shape, data };
}

/** How far off a number is, as a part of what it may be: more than 1 where it is wrong. */
function share(found, wanted, allowed) {
  if (found === wanted) return 0;
  const part = Math.abs(found - wanted) / allowed;
  return part >= 0 ? part : Infinity;
}

const off = (name, what, found, wanted) => {
  throw new EdgeError('WRONG_ANSWER', `${name} is wrong: ${what} is ${found} and should be ${wanted}`);
};

/** The largest share that one of the numbers needs. */
function judge(name, known, { shape, data }) {
  const { Kind, count } = described(known);
  if (`${shape}` !== `${known.shape}` || data.length !== count || !(data instanceof Kind))
    throw new EdgeError('WRONG_ANSWER', `${name} has the shape [${shape}], not [${known.shape}]`);
  const [, decode] = conversions(known.type);
  const power = 2 ** within(known.exponent, -1000, 1000);
  const { samples, sums } = known;
  let worst = [0];
  if (samples.length % 3 || sums.length % 2 || sums.length / 2 > count) fail();
  for (let i = 0; i < samples.length; i += 3) {
    const at = within(samples[i], 0, count - 1);
    const found = decode(data[at]);
    const wanted = within(samples[i + 1], -EXACT, EXACT) * power;
    const part = share(found, wanted, within(samples[i + 2], 0, EXACT) * power);
    if (part > worst[0]) worst = [part, at, found, wanted];
  }
  let [most] = worst;
  if (most > 1) off(name, `number ${worst[1]}`, worst[2], worst[3]);
  const seed = within(known.seed, 0, 2 ** 32 - 1);
  const sumPower = 2 ** within(known.sum_exponent, -1000, 1000);
  const parts = sums.length / 2;
  for (let part = 0, i = 0; part < parts; ++part) {
    const first = i;
    const end = Math.floor(((part + 1) * count) / parts);
    let sum = 0;
    for (; i < end; ++i) sum += hash(seed, i) >>> 31 ? -decode(data[i]) : decode(data[i]);
    const wanted = within(sums[2 * part], -EXACT, EXACT) * sumPower;
    const needed = share(sum, wanted, within(sums[2 * part + 1], 0, EXACT) * sumPower);
    if (needed > 1) off(name, `the signed sum from number ${first}`, sum, wanted);
    most = Math.max(most, needed);
  }
  return most;
}

/** The golden calls of a module's text, read as far as one has to before they are made. */
export function read(text) {
  let golden;
  try {
    golden = JSON.parse(text);
  } catch {
    fail();
  }
  if (golden?.schema !== SCHEMA) throw new EdgeError('UNSUPPORTED', "the module's golden calls are of another edgec");
  if (!Array.isArray(golden.calls) || !golden.calls.length || golden.calls.length > 64) fail();
  return golden;
}

/**
 * Make golden calls with `call(name, inputs)`, which gives the function's `outputs` as `[{ name }]` and
 * its `results` as `[{ dtype, shape, data }]`. Gives how much of what rounding may do was needed, or
 * fails with `WRONG_ANSWER`.
 */
export async function prove({ source, calls }, call) {
  let outputs = 0;
  let most = 0;
  try {
    for (const { function: name, inputs, outputs: known } of calls) {
      const made = await call(name, inputs.map(inputOf));
      if (known.length !== made.results.length) fail();
      known.forEach((one, i) => { most = Math.max(most, judge(`${made.outputs[i].name} of ${name}`, one, made.results[i])); });
      outputs += known.length;
    }
  } catch (error) {
    if (error instanceof TypeError) fail(); // something is not where it should be
    throw error;
  }
  return { calls: calls.length, outputs, share: most, source };
}
