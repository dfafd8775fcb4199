// A model in a worker, so that the page stays quick while it computes.
import { EdgeError } from './errors.js';
import { inNode } from './platform.js';
import { forgotten, nodeWorker, wire } from './workers.js';

const start = async () => (inNode
  ? nodeWorker(new URL('./worker.js', import.meta.url))
  : new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }));

/** The backend of a model that a worker loads and calls. */
export async function remote(variant, { progress, signal, ...options }) {
  const waiting = new Map();
  let dead;
  const die = (error) => {
    dead = error;
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  };
  const worker = wire(
    await start(),
    ({ id, result, error, progress: state }) => {
      if (state) return progress?.(state);
      const { resolve, reject } = waiting.get(id);
      waiting.delete(id);
      if (!waiting.size) worker.busy(false);
      if (!error) return resolve(result);
      const told = error.code ? new EdgeError(error.code, error.message) : new Error(error.message);
      return reject(told);
    },
    (error) => die(new EdgeError('DEVICE_FAILED', `the worker failed: ${error.message}`, { cause: error })),
  );
  let count = 0;
  const ask = (action, words, keep) => new Promise((resolve, reject) => {
    if (dead) return reject(dead);
    worker.busy(true);
    waiting.set(++count, { resolve, reject, keep }); // or it could be forgotten meanwhile
    return worker.post({ id: count, action, ...words });
  });
  const stop = () => {
    worker.stop();
    die(new EdgeError('CLOSED', 'the model is closed'));
  };
  const aborted = () => { worker.stop(); die(signal.reason); };
  if (signal?.aborted) aborted();
  signal?.addEventListener('abort', aborted);
  try {
    const words = { variant, options: { ...options, progress: !!progress } };
    const { functions, states, threads, device } = await ask('load', words);
    const backend = {
      functions,
      states,
      threads,
      device,
      variant: variant.name,
      call: (index, inputs) => ask('call', { index, inputs }, backend),
      memory: () => ask('memory', {}, backend),
      attribute: (key) => ask('attribute', { key }, backend),
      identity: variant.integrity,
      prove: () => ask('prove', {}, backend),
      close() {
        forgotten.unregister(backend);
        stop();
      },
    };
    forgotten.register(backend, stop, backend);
    return backend;
  } catch (error) {
    worker.stop();
    throw error;
  } finally {
    signal?.removeEventListener('abort', aborted);
  }
}
