"""Threads of `edgec-runtime`: the answers of one thread, in node and Chromium, and nothing left."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.web.chromium import Chromium, serve
from edgec import toolchain
from tests.js.node import need_chromium, need_node, run_node, write_runtime_once

ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}
PROGRAM = """
func.func public @products(%x: tensor<96x256xf32>, %w: tensor<256x256xf32>)
    -> (tensor<96x256xf32>, tensor<96xf32>) {
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<96x256xf32>, tensor<256x256xf32>) -> tensor<96x256xf32>
  %1 = stablehlo.tanh %0 : tensor<96x256xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
    : (tensor<96x256xf32>, tensor<256x256xf32>) -> tensor<96x256xf32>
  %3 = stablehlo.reduce(%2 init: %least) applies stablehlo.maximum across dimensions = [1]
    : (tensor<96x256xf32>, tensor<f32>) -> tensor<96xf32>
  return %2, %3 : tensor<96x256xf32>, tensor<96xf32>
}
func.func public @window(%x: tensor<1x40x40x16xf32>, %k: tensor<3x3x16x16xf32>)
    -> tensor<1x40x40x16xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x40x40x16xf32>, tensor<3x3x16x16xf32>) -> tensor<1x40x40x16xf32>
  return %0 : tensor<1x40x40x16xf32>
}
func.func public @steps(%x: tensor<300x300xf32>) -> tensor<300x300xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<300x300xf32>
    cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %turned = stablehlo.transpose %y, dims = [1, 0]
        : (tensor<300x300xf32>) -> tensor<300x300xf32>
      %sum = stablehlo.add %turned, %x : tensor<300x300xf32>
      stablehlo.return %next, %sum : tensor<i32>, tensor<300x300xf32>
    }
  return %0#1 : tensor<300x300xf32>
}
func.func public @double(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = stablehlo.add %x, %x : tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
"""
INPUTS = """
const wave = (count, pace) => Float32Array.from({ length: count }, (_, i) => Math.sin(i * pace));
const inputs = {
  products: [wave(96 * 256, 0.37), wave(256 * 256, 0.11).map((each) => each / 16)],
  window: [wave(40 * 40 * 16, 0.21), wave(3 * 3 * 16 * 16, 0.13)],
  steps: [wave(300 * 300, 0.05)],
};
const same = (one, other) =>
  one.length === other.length && one.every((each, i) => each === other[i]);
/** Whether so many calls of each function give what one thread gives, bit by bit. */
const agrees = async (load, options, calls) => {
  const one = await load('program.vmfb', { threads: 1 });
  const many = await load('program.vmfb', options);
  const found = [one.threads, many.threads, 0];
  for (const [name, values] of Object.entries(inputs)) {
    const wanted = [...await one[name](...values)];
    for (let i = 0; i < calls; ++i)
      found[2] += [...await many[name](...values)].some((each, k) => !same(each, wanted[k]));
  }
  one.close();
  many.close();
  return found;
};
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runtime and the program."""
    need_node()
    folder = tmp_path_factory.mktemp("threads")
    write_runtime_once(folder / "edgec-runtime")
    (folder / "program.mlir").write_text(PROGRAM)
    options = toolchain.CompileOptions(output=folder / "program.vmfb")
    toolchain.compile(folder / "program.mlir", "wasm", options)
    (folder / "inputs.js").write_text(f"{INPUTS}\nexport {{ agrees, inputs, same }};\n")
    return folder


def test_every_number_of_threads_gives_the_answers_of_one_and_of_numpy(folder: Path) -> None:
    found, y, most, window, steps = run_node(
        f"""{INPUTS}
        const found = [];
        for (const options of [{{ threads: 2 }}, {{ threads: 5 }}, {{ threads: 2, worker: true }}])
          found.push(await agrees(load, options, 40));
        const model = await load('program.vmfb', {{ threads: 3 }});
        print([found, ...await model.products(...inputs.products),
          ...await model.window(...inputs.window), ...await model.steps(...inputs.steps)]);
        """,
        folder,
    )
    assert found == [[1, 2, 0], [1, 5, 0], [1, 2, 0]]

    def wave(pace: float, *shape: int) -> np.ndarray:
        return np.sin(np.arange(np.prod(shape)) * pace).astype(np.float32).reshape(shape)

    x, w = wave(0.37, 96, 256), wave(0.11, 256, 256) / 16
    wanted = np.tanh(x @ w) @ w
    np.testing.assert_allclose(np.reshape(y, (96, 256)), wanted, atol=1e-5, rtol=0)
    np.testing.assert_allclose(most, wanted.max(1), atol=1e-5, rtol=0)
    image, kernel = wave(0.21, 40, 40, 16), wave(0.13, 3, 3, 16, 16)
    views = np.lib.stride_tricks.sliding_window_view(
        np.pad(image, ((1, 1), (1, 1), (0, 0))), (3, 3), (0, 1)
    )
    wanted = np.einsum("yxiab,abio->yxo", views, kernel)
    np.testing.assert_allclose(np.reshape(window, wanted.shape), wanted, atol=1e-4, rtol=0)
    start = total = wave(0.05, 300, 300)
    for _ in range(5):
        total = total.T + start
    np.testing.assert_allclose(np.reshape(steps, (300, 300)), total, atol=1e-5, rtol=0)


def test_memory_that_grows_is_seen_by_all_threads(folder: Path) -> None:
    found = run_node(
        """
        const model = await load('program.vmfb', { threads: 2 });
        const found = [];
        for (const rows of [1, 300, 3000]) {
          const before = await model.memory();
          const x = Float32Array.from({ length: rows * 1000 }, (_, i) => i % 1000);
          const [y] = await model.double(tensor(x, [rows, 1000]));
          found.push([y.length, y.every((each, i) => each === 2 * (i % 1000)),
            y.buffer instanceof ArrayBuffer, (await model.memory()) > before]);
        }
        print(found);
        """,
        folder,
    )
    assert [length for length, *_ in found] == [1000, 300_000, 3_000_000]
    assert all(right and own for _, right, own, _ in found)
    assert found[2][3]  # 24 MB do not fit into what there was


def test_threads_end_when_a_model_is_closed_or_forgotten_and_hold_up_no_program(
    folder: Path,
) -> None:
    opened, forgotten, closed = run_node(
        """
        const { readdirSync } = await import('node:fs');
        const { setFlagsFromString } = await import('node:v8');
        const { runInNewContext } = await import('node:vm');
        setFlagsFromString('--expose-gc');
        const collect = runInNewContext('gc');
        const threads = () => readdirSync('/proc/self/task').length;
        const until = async (count) => {
          for (let i = 0; i < 200 && threads() > count; ++i) {
            collect();
            await new Promise((done) => setTimeout(done, 20));
          }
          return threads() - count;
        };
        // What node starts for the first worker, and keeps, is not counted.
        (await load('program.vmfb', { worker: true, threads: 1 })).close();
        await new Promise((done) => setTimeout(done, 200));
        const before = threads();
        const use = async (options) => (await load('program.vmfb', options)).double([[1]]);
        for (const worker of [false, true]) await use({ threads: 3, worker });
        const opened = threads() - before;
        const forgotten = await until(before);
        for (const worker of [false, true])
          (await load('program.vmfb', { threads: 3, worker })).close();
        print([opened, forgotten, await until(before)]);
        await use({ threads: 3 }); // nobody closes it, and node ends
        """,
        folder,
    )
    assert opened >= 2 + 3
    assert (forgotten, closed) == (0, 0)


def test_threads_are_asked_for_in_whole_numbers_and_done_without_where_they_cannot_start(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "edgec-runtime", tmp_path / "edgec-runtime")
    (tmp_path / "edgec-runtime" / "edgert-threads.wasm").unlink()
    shutil.copyfile(folder / "program.vmfb", tmp_path / "program.vmfb")
    wrong, plain, missing, moved = run_node(
        """
        const wrong = [];
        for (const threads of [0, -1, 1.5, '2'])
          wrong.push(await failure(load('program.vmfb', { threads })));
        const model = await load('program.vmfb');
        const [y] = await model.double([[21]]);
        const wasm = new URL('./edgec-runtime/edgert.wasm', import.meta.url);
        print([wrong, [model.threads, y[0]], await failure(load('program.vmfb', { threads: 2 })),
          (await load('program.vmfb', { wasm })).threads]);
        """,
        tmp_path,
    )
    assert {code for code, _ in wrong} == {"INVALID_ARGUMENT"}
    assert (plain, moved) == ([1, 42], 1)
    assert missing[0] == "DOWNLOAD"
    assert "edgert-threads.wasm" in missing[1]


def test_a_thread_whose_kernel_traps_fails_its_call_and_the_others_go_on(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "edgec-runtime", tmp_path / "edgec-runtime")
    shutil.copyfile(folder / "program.vmfb", tmp_path / "program.vmfb")
    thread = tmp_path / "edgec-runtime" / "thread.js"
    # Without its functions in the table, every kernel that this thread calls traps.
    loaded = "await joinKernels(instance,kernels);"
    emptied = (
        "for (const { first, functions } of kernels) for (let i = 0; i < functions; ++i)"
        " exports.__indirect_function_table.set(first + i, null);"
    )
    assert loaded in thread.read_text()
    thread.write_text(thread.read_text().replace(loaded, loaded + emptied))
    failed, after = run_node(
        f"""{INPUTS}
        const alone = await load('program.vmfb', {{ threads: 1 }});
        const [wanted] = await alone.products(...inputs.products);
        const model = await load('program.vmfb', {{ threads: 2 }});
        let failed = ['none', ''];
        for (let i = 0; i < 5000 && failed[0] === 'none'; ++i)
          failed = await failure(model.products(...inputs.products));
        let after = 0;
        for (let i = 0; i < 20; ++i)
          after += same([...await model.products(...inputs.products)][0], wanted);
        print([failed, after]);
        """,
        tmp_path,
    )
    assert failed == ["DEVICE_FAILED", "a kernel reported failure"]
    assert after == 20


def test_chromium_shares_memory_where_the_page_is_isolated_and_computes_alone_elsewhere(
    folder: Path,
) -> None:
    need_chromium()
    (folder / "empty.html").write_text("<!doctype html><link rel='icon' href='data:,'>")
    code = """(async () => {
        const { load } = await import('./edgec-runtime/index.js');
        const { agrees } = await import('./inputs.js');
        const many = await load('program.vmfb');
        return [crossOriginIsolated, many.threads > 1,
            await agrees(load, { threads: 3 }, 20),
            await agrees(load, { threads: 3, worker: true }, 20)];
    })()"""
    with Chromium() as browser:
        with serve(folder, ISOLATED) as address:
            page = browser.open(f"{address}/empty.html")
            processors = page.run("navigator.hardwareConcurrency")
            assert page.run(code) == [True, processors > 1, [1, 3, 0], [1, 3, 0]]
            page.close()
        with serve(folder) as address:
            page = browser.open(f"{address}/empty.html")
            assert page.run(code) == [False, False, [1, 1, 0], [1, 1, 0]]
            assert not any("edgert-threads" in path for path in address.seen)
            page.close()


def test_kernels_of_any_kind_of_import_section_take_a_shared_memory(folder: Path) -> None:
    """The byte is found behind functions, tables and globals, with and without a largest size."""
    results = run_node(
        """
        const { withSharedMemory } = await import('./edgec-runtime/shared.mjs');
        const name = [1, 97, 1];
        const others = [
          ...[...name, 102, 0, 0], // a function
          ...[...name, 116, 1, 0x70, 1, 1, 200, 1], // a table of 1 to 200
          ...[...name, 103, 3, 0x7f, 0], // a global, i32
        ];
        const module = (limits, more) => {
          const imports = [more ? 4 : 1, ...(more ? others : []), ...name, 109, 2, ...limits];
          return Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 8, 2, 0x60, 0, 0, 0x60, 0, 1, 0x7f,
            2, imports.length, ...imports, 3, 2, 1, 1, 7, 5, 1, 1, 108, 0, more ? 1 : 0,
            10, 9, 1, 7, 0, 0x41, 0, 0x28, 2, 0, 0x0b);
        };
        const memory = new WebAssembly.Memory({ initial: 2, maximum: 300, shared: true });
        new Int32Array(memory.buffer)[0] = 77;
        const a = { m: memory, f() {}, g: 5,
          t: new WebAssembly.Table({ element: 'anyfunc', initial: 1, maximum: 200 }) };
        const link = (bytes) => {
          try {
            return new WebAssembly.Instance(new WebAssembly.Module(bytes), { a }).exports.l();
          } catch (error) {
            return error.name;
          }
        };
        const kinds = [[0, 1], [1, 1, 128, 2], [3, 1, 200, 100]].flatMap((limits) =>
          [false, true].map((more) => module(limits, more)));
        print(kinds.map((bytes) => [link(bytes), link(withSharedMemory(bytes))]));
        """,
        folder,
    )
    assert results[:4] == [["LinkError", 77]] * 4
    assert results[4:] == [[77, 77]] * 2  # it was shared already
