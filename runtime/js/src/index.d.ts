/** Types of elements, as edgec spells them. */
export type DType =
  | 'bool' | 'i8' | 'i16' | 'i32' | 'i64' | 'u8' | 'u16' | 'u32' | 'u64'
  | 'f16' | 'bf16' | 'f32' | 'f64' | 'c64' | 'c128';

/**
 * The arrays that hold them. `bool` is a Uint8Array of 0 and 1; `f16` a Float16Array where the
 * engine has it, else its bits in a Uint16Array, as `bf16` always; `c64` and `c128` have real and
 * imaginary parts in turns.
 */
export type TypedArray =
  | Int8Array | Uint8Array | Uint8ClampedArray | Int16Array | Uint16Array | Int32Array | Uint32Array
  | BigInt64Array | BigUint64Array | Float32Array | Float64Array;

/** A typed array that knows its shape; what functions give. */
export type Tensor<Data extends TypedArray = TypedArray> = Data & {
  readonly shape: readonly number[];
  readonly dtype?: DType;
};

type Nested<Item> = Item | readonly Nested<Item>[];

/**
 * What functions take: a typed array of the right kind (its shape need only be told, by `tensor`,
 * where more than one dimension is open), or plain numbers, nested or not.
 */
export type Value<Data extends TypedArray = TypedArray> = Data | Nested<number | bigint | boolean>;

/** A dimension: its size, or for a size chosen at each call its name and bounds. */
export type Dim = number | { readonly name: string; readonly min: number; readonly max: number | null };

export interface TensorSpec {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly Dim[];
}

export type Outputs = { readonly [name: string]: Tensor } & Iterable<Tensor>;

/** A function of a model: takes an object with its inputs by name, or the inputs in order. */
export interface ModelFunction {
  (inputs: { readonly [name: string]: Value }): Promise<Outputs>;
  (...inputs: Value[]): Promise<Outputs>;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

/** What a model has beside its functions. */
export interface ModelBase {
  /** All functions by name, also those whose name means something else here (`close`). */
  readonly functions: { readonly [name: string]: ModelFunction };
  /** Call a function by its name. */
  call(name: string, ...inputs: Value[]): Promise<Outputs>;
  call(name: string, inputs: { readonly [name: string]: Value }): Promise<Outputs>;
  /** Which variant was taken, where there was a choice. */
  readonly variant?: string;
  /** What computes: `wasm`, or a GPU's name. */
  readonly device: string;
  /** Why variants before the one that was taken were not, a sentence each. */
  readonly passedOver: readonly string[];
  /** How many threads compute; 1 where threads cannot share memory. */
  readonly threads: number;
  /** Bytes of WebAssembly memory in use. */
  memory(): Promise<number>;
  /** An attribute of the module, such as `edgec.text.form`. */
  attribute(key: string): Promise<string | undefined>;
  /**
   * Make the golden calls that the module brings here, and compare; fails with `WRONG_ANSWER`. State
   * stays as it is. A `store` keeps what came of it by module (one with an `integrity`) and engine.
   */
  prove(options?: ProveOptions): Promise<Proof>;
  /** Give all memory back; calls that wait fail. Without it the garbage collector will. */
  close(): void;
  readonly closed: boolean;
}

export interface ProveOptions {
  readonly store?: {
    get(key: string): string | null | undefined | Promise<string | null | undefined>;
    set(key: string, value: string): void | Promise<void>;
  };
}

/** What a module that gave right answers proved; `share` is how much of what rounding may do was needed. */
export interface Proof {
  readonly kept: boolean;
  readonly calls?: number;
  readonly outputs?: number;
  readonly share?: number;
  readonly source?: string;
}

/** A loaded module with its functions: `await model.main({ image })`. */
export type Model = ModelBase & { readonly [name: string]: ModelFunction };
export const Model: { readonly prototype: ModelBase };

export interface Progress {
  /** Bytes so far. */
  readonly loaded: number;
  /** Bytes in all, where that is known. */
  readonly total?: number;
  readonly source: 'network' | 'cache' | 'file';
}

/** One of several modules of the same model. */
export interface Variant {
  readonly url: string | URL;
  /** For messages. */
  readonly name?: string;
  /** What runs it; `wasm` if it is not said. */
  readonly device?: 'webgpu' | 'wasm';
  /** Features of WebAssembly that it takes, by LLVM's names: `simd128`. */
  readonly needs?: readonly string[];
  readonly integrity?: string;
  /** Bytes, for `progress`. */
  readonly size?: number;
  /** The file of weights that it shares with other variants. */
  readonly weights?: {
    readonly url: string | URL;
    readonly integrity?: string;
    readonly size?: number;
  };
}

export interface LoadOptions {
  /** Compute in a worker, so that the page stays quick. Default: false. */
  readonly worker?: boolean;
  /**
   * How many threads compute a call, where they can share memory: in node, and in pages that are
   * cross-origin isolated. Elsewhere it is one; `model.threads` tells. Default: as many as there
   * are processors, at most 4; one where they cannot be started, or where `wasm` alone was given.
   * Who names a number gets an error where so many cannot be started.
   */
  readonly threads?: number;
  /**
   * Of several variants only those for the GPU, or only those for WebAssembly; for a module alone, what
   * it was compiled for. A GPU that a program on the CPU plays is taken only for `gpu`.
   */
  readonly device?: 'gpu' | 'wasm';
  /** Prove the module before it is given; of several variants, one that fails is passed over. */
  readonly prove?: boolean | ProveOptions;
  /** Told of the download, often. */
  readonly progress?: (state: Progress) => void;
  /**
   * The SHA-256 that the file must have: `sha256-` and base64, or hexadecimal. With it the file is
   * kept in the Cache API and not downloaded again.
   */
  readonly integrity?: string;
  /** The file of weights beside a module that keeps them outside, or its bytes. */
  readonly weights?: string | URL | BufferSource;
  /** Whether to keep a file that has an `integrity`. Default: true. */
  readonly cache?: boolean;
  /**
   * An Ed25519 public key, 32 bytes: fails with `UNTRUSTED` where the module, or the weights beside it,
   * are not as its owner signed them (`edgec sign`). Needs Web Crypto with Ed25519, and so a page that
   * came by HTTPS.
   */
  readonly key?: BufferSource;
  /** Ends the download. */
  readonly signal?: AbortSignal;
  /** Where edgert.wasm is, if not beside this module; the first load decides. */
  readonly wasm?: string | URL | BufferSource;
  /** The same for edgert-threads.wasm, which is loaded instead where several threads compute. */
  readonly wasmThreads?: string | URL | BufferSource;
}

/**
 * Load a module.
 *
 * `source` is the URL of a `.vmfb` or of a package's `manifest.json` (in node a path will do), a
 * module's bytes, or variants, of which the first that runs here is taken.
 *
 * Fails with an EdgeError, or with `signal`'s reason.
 */
export function load(
  source: string | URL | BufferSource | readonly Variant[],
  options?: LoadOptions,
): Promise<Model>;

/** Give a typed array a shape (and a type, where several share an array); nothing is copied. */
export function tensor<Data extends TypedArray>(
  data: Data, shape: readonly number[], dtype?: DType,
): Tensor<Data>;

/** The features of WebAssembly that variants may need and this engine has. */
export function features(): Set<string>;

export type ErrorCode =
  | 'OUT_OF_MEMORY' | 'INVALID_ARGUMENT' | 'NOT_FOUND' | 'DAMAGED' | 'UNSUPPORTED'
  | 'PROGRAM_FAILED' | 'OUT_OF_RANGE' | 'IO' | 'DEVICE_FAILED' | 'LIMIT'
  | 'CANCELLED' | 'TIMED_OUT' | 'WRONG_ANSWER' | 'PENDING' | 'UNTRUSTED' | 'DOWNLOAD' | 'INTEGRITY' | 'CLOSED';

/** What goes wrong, with a sentence that says what and a code to tell the causes apart. */
export class EdgeError extends Error {
  readonly code: ErrorCode;
}
