// The other side of remote.js: one model in a worker, in a browser or in node.
import { local } from './model.js';
import { listen } from './workers.js';

let model;

const actions = {
  async load({ variant, options }) {
    const progress = options.progress ? (state) => post({ progress: state }) : undefined;
    model = await local(variant, { ...options, progress });
    return { functions: model.functions, states: model.states, threads: model.threads, device: model.device };
  },
  call: ({ index, inputs }) => model.call(index, inputs),
  memory: () => model.memory(),
  attribute: ({ key }) => model.attribute(key),
  prove: () => model.prove(),
};

async function answer({ id, action, ...words }) {
  try {
    const result = await actions[action](words);
    const transfer = action === 'call' ? result.map(({ data }) => data.buffer) : [];
    post({ id, result }, transfer);
  } catch (error) {
    post({ id, error: { code: error.code, name: error.name, message: error.message, stack: error.stack } });
  }
}

// One call after the other: a module has one state.
let last = Promise.resolve();
const post = await listen((message) => { last = last.then(() => answer(message)); });
