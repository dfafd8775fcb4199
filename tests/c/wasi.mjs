// Runs a WebAssembly program of the WASI kind, with all files in sight:
//
//     node wasi.mjs PROGRAM.wasm WORDS...
import { readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';
import { Kernels } from '../../runtime/c/wasm/kernels.mjs';

const [program, ...words] = process.argv.slice(2);
const wasi = new WASI({ version: 'preview1', args: ['edgert', ...words], preopens: { '/': '/' } });
const module = await WebAssembly.compile(readFileSync(program));
const kernels = new Kernels();
// What node 20 has getImportObject() for, in a way that node 18 knows, too.
const imports = { wasi_snapshot_preview1: wasi.wasiImport, edgert: kernels.imports };
const instance = await WebAssembly.instantiate(module, imports);
kernels.attach(instance);
process.exit(wasi.start(instance));
