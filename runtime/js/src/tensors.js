// Values of JavaScript to the tensors that a function takes, and back.
import { EdgeError } from './errors.js';

/** For each type of elements: edgert's number for it, the array that holds it, items an element. */
const TYPES = {
  bool: [0x13000008, Uint8Array, 1],
  i8: [0x11000008, Int8Array, 1],
  i16: [0x11000010, Int16Array, 1],
  i32: [0x11000020, Int32Array, 1],
  i64: [0x11000040, BigInt64Array, 1],
  u8: [0x12000008, Uint8Array, 1],
  u16: [0x12000010, Uint16Array, 1],
  u32: [0x12000020, Uint32Array, 1],
  u64: [0x12000040, BigUint64Array, 1],
  f16: [0x21000010, globalThis.Float16Array ?? Uint16Array, 1],
  f32: [0x21000020, Float32Array, 1],
  f64: [0x21000040, Float64Array, 1],
  bf16: [0x22000010, Uint16Array, 1],
  c64: [0x23000040, Float32Array, 2],
  c128: [0x23000080, Float64Array, 2],
};
const NAMES = new Map(Object.entries(TYPES).map(([name, [number]]) => [number, name]));
// Programs of other makers may say "integer" without a sign.
for (const [bits, name] of [[8, 'i8'], [16, 'i16'], [32, 'i32'], [64, 'i64']])
  NAMES.set(0x10000000 | bits, name);

export const typeName = (number) => NAMES.get(number >>> 0);
export const typeNumber = (name) => TYPES[name][0];
export const arrayOf = (name) => TYPES[name][1];
export const itemsOf = (name) => TYPES[name][2];

const count = (shape) => shape.reduce((product, size) => product * size, 1);
const isTypedArray = (value) => ArrayBuffer.isView(value) && !(value instanceof DataView);

/** Give a typed array the shape and type that its elements have; they stay where they are. */
export function tensor(data, shape, dtype) {
  if (!isTypedArray(data)) throw new EdgeError('INVALID_ARGUMENT', 'a tensor is a typed array');
  const sizes = Array.from(shape, Number);
  if (!sizes.every((size) => Number.isSafeInteger(size) && size >= 0))
    throw new EdgeError('INVALID_ARGUMENT', `[${sizes}] is no shape`);
  const items = dtype ? itemsOf(dtype) : 1;
  if (count(sizes) * items !== data.length)
    throw new EdgeError('INVALID_ARGUMENT',
      `shape [${sizes.join(', ')}] has ${count(sizes) * items} numbers, and the array has ${data.length}`);
  Object.defineProperty(data, 'shape', { value: sizes, configurable: true });
  if (dtype) Object.defineProperty(data, 'dtype', { value: dtype, configurable: true });
  return data;
}

/** `f32[batch=1..8, 28, 28]` */
export function describe({ dtype, shape }) {
  const size = (dim) => {
    if (typeof dim === 'number') return dim < 0 ? '?' : `${dim}`;
    const bounded = dim.min !== 1 || dim.max != null;
    return bounded ? `${dim.name}=${dim.min}..${dim.max ?? ''}` : dim.name;
  };
  return `${dtype}[${shape.map(size).join(', ')}]`;
}

/**
 * What the caller gave for one input, checked: `{ dtype, shape, data }`, its elements not copied
 * where they are in the right kind of array. `sizes` collects what each named dimension stands for.
 */
export function toTensor(value, spec, where, sizes) {
  const fail = (got) => {
    const kind = arrayOf(spec.dtype).name;
    throw new EdgeError('INVALID_ARGUMENT',
      `${where} takes ${describe(spec)}, a ${kind}, and was given ${got}`);
  };
  const data = toArray(value, spec.dtype, fail);
  const given = shapeOf(value);
  const items = itemsOf(spec.dtype);
  const shape = given ?? inferShape(spec.shape, data.length / items);
  if (!shape) fail(`${data.length} numbers`);
  const words = `shape [${shape.join(', ')}]`;
  if (count(shape) * items !== data.length) fail(`${data.length} numbers as ${words}`);
  if (shape.length !== spec.shape.length) fail(words);
  spec.shape.forEach((want, axis) => {
    const size = shape[axis];
    if (typeof want === 'number') {
      if (want >= 0 && want !== size) fail(words);
      return;
    }
    if (size < want.min || (want.max != null && size > want.max)) fail(words);
    if (sizes.has(want.name) && sizes.get(want.name) !== size)
      fail(`${words}, where ${want.name} is ${sizes.get(want.name)} in another input`);
    sizes.set(want.name, size);
  });
  return { dtype: spec.dtype, shape, data };
}

/** What edgert gave, as a typed array with its shape. */
export const fromTensor = ({ dtype, shape, data }) => tensor(data, shape, dtype);

function toArray(value, dtype, fail) {
  const Kind = arrayOf(dtype);
  if (isTypedArray(value)) {
    if (value instanceof Kind && (!value.dtype || value.dtype === dtype)) return value;
    if (dtype === 'u8' && value instanceof Uint8ClampedArray) return value;
    return fail(`a ${value.constructor.name}${value.dtype ? ` of ${value.dtype}` : ''}`);
  }
  if (value === undefined || value === null) return fail('nothing');
  const flat = Array.isArray(value) ? value.flat(Infinity) : [value];
  const big = Kind === BigInt64Array || Kind === BigUint64Array;
  const legal = (item) => ['number', 'boolean', 'bigint'].includes(typeof item);
  if (!flat.every(legal)) return fail(`a ${typeof flat.find((item) => !legal(item))}`);
  try {
    return Kind.from(flat, big ? BigInt : Number);
  } catch {
    return fail('a fraction'); // BigInt refuses it
  }
}

/** The shape that a value says it has; undefined: it does not say. */
function shapeOf(value) {
  if (isTypedArray(value)) return value.shape;
  if (!Array.isArray(value)) return [];
  if (!Array.isArray(value[0])) return undefined;
  const shape = [];
  for (let inner = value; Array.isArray(inner); inner = inner[0]) shape.push(inner.length);
  return shape;
}

/** The shape that so many elements have, where at most one dimension is open. */
function inferShape(shape, length) {
  const open = shape.findIndex((dim) => typeof dim !== 'number' || dim < 0);
  const known = shape.filter((dim) => typeof dim === 'number' && dim >= 0);
  if (open < 0) return count(known) === length ? known : undefined;
  const size = length / count(known);
  if (known.length !== shape.length - 1 || !Number.isInteger(size)) return undefined;
  return shape.map((dim, axis) => (axis === open ? size : dim));
}
