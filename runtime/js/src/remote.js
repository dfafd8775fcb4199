// A model in a worker, so that the page stays quick while it computes.
import { EdgeError } from './errors.js';
import { inNode, node } from './platform.js';

/** Ends the workers of models that nobody closed and nobody has any more. */
const forgotten = new FinalizationRegistry((stop) => stop());

/** The worker as `{ post, stop, busy }`; what it says goes to `hear`, that it died to `died`. */
async function start(hear, died) {
  if (inNode) {
    const { Worker } = await node('worker_threads');
    const worker = new Worker(new URL('./worker.js', import.meta.url));
    worker.on('message', hear);
    worker.on('error', died);
    return {
      post: (message) => worker.postMessage(message),
      stop: () => { worker.terminate(); },
      busy: (is) => (is ? worker.ref() : worker.unref()), // an idle model keeps no program alive
    };
  }
  const worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data }) => hear(data);
  worker.onerror = (event) => died(new Error(event.message ?? 'its script cannot be loaded'));
  return { post: (message) => worker.postMessage(message), stop: () => worker.terminate(), busy() {} };
}

/** The backend of a model that a worker loads and calls. */
export async function remote(variant, { progress, signal, ...options }) {
  const waiting = new Map();
  let dead;
  const die = (error) => {
    dead = error;
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  };
  const worker = await start(
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
    const { functions } = await ask('load', { variant, options: { ...options, progress: !!progress } });
    const backend = {
      functions,
      variant: variant.name,
      call: (index, inputs) => ask('call', { index, inputs }, backend),
      memory: () => ask('memory', {}, backend),
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
