// Threads that share edgert's memory: workers, each with an instance of edgert and of the kernels.
import { EdgeError } from './errors.js';
import { waiting } from './imports.js';
import { MOST_PAGES } from './shared.mjs';
import { inNode, node } from './platform.js';
import { nodeWorker, wire } from './workers.js';

const DEFAULT_MOST = 4;
const MOST = 128; // edgert's own limit
const FIRST_PAGES = 32; // as edgert is linked
const STACK = 1 << 20; // bytes; kernels may use 256 KiB

/** Whether threads can share memory here: in node, and in pages that are cross-origin isolated. */
const isShared = () => typeof SharedArrayBuffer === 'function' && (inNode || globalThis.crossOriginIsolated === true);

/** How many threads compute, where `wanted` were asked for; undefined: as many as are good. */
export async function threadCount(wanted) {
  if (wanted !== undefined && !(Number.isInteger(wanted) && wanted > 0))
    throw new EdgeError('INVALID_ARGUMENT', `threads must be a whole number from 1 on, not ${wanted}`);
  if (!isShared()) return 1;
  return Math.min(wanted ?? Math.min(await processorCount(), DEFAULT_MOST), MOST);
}

async function processorCount() {
  if (!inNode) return navigator.hardwareConcurrency || 1;
  const os = await node('os');
  return os.availableParallelism?.() ?? os.cpus().length;
}

/** The main thread of a page must not sleep. */
function mayBlock() {
  try {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 1);
    return true;
  } catch {
    return false;
  }
}

/** Some engines do not give as much room for addresses as one may ask for. */
function sharedMemory() {
  for (let maximum = MOST_PAGES; ; maximum >>= 1) {
    try {
      return new WebAssembly.Memory({ initial: FIRST_PAGES, maximum, shared: true });
    } catch (error) {
      if (maximum < 4096) throw error; // 256 MiB
    }
  }
}

export class Team {
  #helpers;
  #started = [];

  memory = sharedMemory();

  /** For so many threads, the caller's among them; their workers start at once. */
  constructor(threads) {
    this.#helpers = Array.from({ length: threads - 1 }, startHelper);
    for (const helper of this.#helpers) helper.catch(() => {}); // told when it is needed
  }

  /** What edgert imports for threads. */
  get imports() {
    return {
      ...waiting(this.memory, mayBlock()),
      start_thread: (self, run, argument) => {
        if (this.#started.length === this.#helpers.length) return 0;
        this.#started.push({ self, run, argument });
        return 1;
      },
    };
  }

  /** Let the threads that edgert has started begin, when no more kernels will be loaded. */
  async begin(module, { exports }, kernels) {
    const { memory } = this;
    await Promise.all(this.#started.map(async (thread, i) => {
      const stack = exports.edgert_kernels_allocate(STACK, 16);
      if (!stack) throw new EdgeError('OUT_OF_MEMORY', 'there is no memory for the stack of a thread');
      const helper = await this.#helpers[i];
      await helper.begin({ module, memory, kernels, thread, stack: stack + STACK });
    }));
  }

  /** End them, whatever they do. */
  stop = () => {
    for (const helper of this.#helpers) helper.then(({ stop }) => stop(), () => {});
  };
}

/** A worker that will be a thread: `{ begin, stop }`. */
async function startHelper() {
  const worker = inNode
    ? await nodeWorker(new URL('./thread.js', import.meta.url))
    : new Worker(new URL('./thread.js', import.meta.url), { type: 'module' });
  let ready;
  let fail;
  const begun = new Promise((resolve, reject) => {
    ready = resolve;
    fail = (error) => reject(new EdgeError('DEVICE_FAILED', `a thread cannot start: ${error.message}`, { cause: error }));
  });
  begun.catch(() => {});
  const { post, stop, busy } = wire(worker, ({ error }) => (error ? fail(error) : ready()), fail);
  return {
    stop,
    async begin(words) {
      post(words);
      await begun;
      busy(false);
    },
  };
}
