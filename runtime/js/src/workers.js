// Workers, in a browser and in node alike.
import { inNode, node } from './platform.js';

/** Ends the workers of models that nobody closed and nobody has any more. */
export const forgotten = new FinalizationRegistry((stop) => stop());

/** A worker of node's. In browsers `new Worker` stands where it is needed: bundlers look for it. */
export async function nodeWorker(url) {
  const { Worker } = await node('worker_threads');
  return new Worker(url);
}

/** A worker as `{ post, stop, busy }`; what it says goes to `hear`, that it died to `died`. */
export function wire(worker, hear, died) {
  if (inNode) {
    worker.on('message', hear);
    worker.on('error', died);
  } else {
    worker.onmessage = ({ data }) => hear(data);
    worker.onerror = (event) => died(new Error(event.message ?? 'its script cannot be loaded'));
  }
  return {
    post: (message) => worker.postMessage(message),
    stop: () => { worker.terminate(); },
    // Idle ones keep no program of node's alive.
    busy: (is) => { if (inNode) worker[is ? 'ref' : 'unref'](); },
  };
}

/** The other end, in a worker: hears messages, and gives the function that posts them. */
export async function listen(hear) {
  const port = inNode ? (await node('worker_threads')).parentPort : globalThis;
  if (inNode) port.on('message', hear);
  else port.onmessage = ({ data }) => hear(data);
  return (message, transfer) => port.postMessage(message, transfer);
}
