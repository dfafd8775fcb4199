// The other side of threads.js: one thread, which computes when edgert tells it to, for ever.
import { importsOf, waiting } from './imports.js';
import { joinKernels } from './kernels.mjs';
import { listen } from './workers.js';

const post = await listen(async ({ module, memory, kernels, thread, stack }) => {
  try {
    const edgert = { ...waiting(memory, true), start_thread: () => 0, load_kernels: () => 0, unload_kernels() {} };
    const instance = await WebAssembly.instantiate(module, importsOf(module, { env: { memory }, edgert }));
    const { exports } = instance;
    exports.__stack_pointer.value = stack;
    await joinKernels(instance, kernels);
    post({});
    compute(exports, thread, stack);
  } catch ({ message }) {
    post({ error: { message } });
  }
});

function compute(exports, { self, run, argument }, stack) {
  try {
    exports.edgert_thread_run(self, run, argument);
  } catch {
    exports.__stack_pointer.value = stack;
    exports.edgert_pool_worker_lost(argument); // the call fails, and this thread is no more
  }
}
