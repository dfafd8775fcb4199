"""`edgec-runtime` in node: answers like Python's, checked arguments, clear failures."""

import base64
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from benchmarks.web.chromium import serve
from edgec import runtime, toolchain
from tests.js.node import need_node, run_node, write_runtime_once

TYPES = """
func.func public @main(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>)
    -> (tensor<2x3xf32>, tensor<2xf32>) {
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.tanh %0 : tensor<2x3xf32>
  %2 = stablehlo.reduce(%0 init: %least) applies stablehlo.maximum across dimensions = [1]
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  return %1, %2 : tensor<2x3xf32>, tensor<2xf32>
}
func.func public @types(%a: tensor<3xi8>, %b: tensor<3xui8>, %c: tensor<3xi16>, %d: tensor<3xi32>,
    %e: tensor<3xi64>, %f: tensor<3xf64>, %g: tensor<3xi1>, %h: tensor<i32>)
    -> (tensor<3xi8>, tensor<3xui8>, tensor<3xi16>, tensor<3xi32>, tensor<3xi64>, tensor<3xf64>,
        tensor<3xi1>, tensor<i32>) {
  %0 = stablehlo.add %a, %a : tensor<3xi8>
  %1 = stablehlo.add %b, %b : tensor<3xui8>
  %2 = stablehlo.add %c, %c : tensor<3xi16>
  %3 = stablehlo.add %d, %d : tensor<3xi32>
  %4 = stablehlo.add %e, %e : tensor<3xi64>
  %5 = stablehlo.multiply %f, %f : tensor<3xf64>
  %6 = stablehlo.not %g : tensor<3xi1>
  %7 = stablehlo.add %h, %h : tensor<i32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<3xi8>, tensor<3xui8>, tensor<3xi16>,
    tensor<3xi32>, tensor<3xi64>, tensor<3xf64>, tensor<3xi1>, tensor<i32>
}
func.func public @close(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = stablehlo.add %x, %x : tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
"""
X = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runtime and the program's modules, `wasm.vmfb` and `plain.vmfb`."""
    need_node()
    folder = tmp_path_factory.mktemp("js")
    write_runtime_once(folder / "edgec-runtime")
    (folder / "program.mlir").write_text(TYPES)
    for target, name in (("wasm", "wasm.vmfb"), ("wasm:plain", "plain.vmfb"), ("cpu", "cpu.vmfb")):
        options = toolchain.CompileOptions(output=folder / name)
        toolchain.compile(folder / "program.mlir", target, options)
    return folder


def _sha(folder: Path, name: str) -> str:
    return hashlib.sha256((folder / name).read_bytes()).hexdigest()


@pytest.mark.parametrize("worker", [False, True], ids=["here", "worker"])
@pytest.mark.parametrize("module", ["wasm.vmfb", "plain.vmfb"])
def test_answers_are_those_of_python(module: str, worker: bool, folder: Path) -> None:
    found = run_node(
        """
        const model = await load(module, { worker });
        const named = await model.main({ [model.main.inputs[0].name]: Float32Array.from(x.flat()),
          [model.main.inputs[1].name]: Float32Array.from(w.flat()) });
        const [y, most] = await model.main(x, w); // nested numbers, in order
        print({ y, most, named: Object.values(named), shape: y.shape, dtype: y.dtype,
          kind: y.constructor.name });
        """,
        folder,
        module=module,
        worker=worker,
        x=X.tolist(),
        w=W.tolist(),
    )
    with runtime.load(folder / "cpu.vmfb", device="local-sync") as model:
        y, most = map(np.asarray, model.main(X, W))
    assert (found["shape"], found["dtype"], found["kind"]) == ([2, 3], "f32", "Float32Array")
    for got in ([found["y"], found["most"]], found["named"]):
        np.testing.assert_allclose(np.reshape(got[0], (2, 3)), y, atol=1e-5, rtol=0)
        np.testing.assert_allclose(got[1], most, atol=1e-5, rtol=0)
    np.testing.assert_allclose(y, np.tanh(X @ W), atol=1e-5)


def test_every_kind_of_array_goes_in_and_comes_out(folder: Path) -> None:
    found = run_node(
        """
        const model = await load('wasm.vmfb');
        const given = [Int8Array.of(-3, 0, 60), Uint8Array.of(100, 127, 3), Int16Array.of(-9, 0, 9),
          Int32Array.of(-70000, 0, 70000), BigInt64Array.of(-(2n ** 40n), 0n, 5n),
          Float64Array.of(0.1, 2, -3), Uint8Array.of(1, 0, 1), 21];
        const found = [...await model.types(...given)];
        print(found.map((each) => [each.constructor.name, each.dtype, each.shape, each]));
        """,
        folder,
    )
    assert found == [
        ["Int8Array", "i8", [3], [-6, 0, 120]],
        ["Uint8Array", "u8", [3], [200, 254, 6]],
        ["Int16Array", "i16", [3], [-18, 0, 18]],
        ["Int32Array", "i32", [3], [-140000, 0, 140000]],
        ["BigInt64Array", "i64", [3], [-(2**41), 0, 10]],
        ["Float64Array", "f64", [3], [0.1 * 0.1, 4, 9]],
        ["Uint8Array", "bool", [3], [0, 1, 0]],
        ["Int32Array", "i32", [], [42]],
    ]


def test_open_dimensions_take_any_shape_and_taken_names_are_reached_through_functions(
    folder: Path,
) -> None:
    found = run_node(
        """
        const model = await load('wasm.vmfb');
        const double = model.functions.close;
        const [first] = await double(tensor(Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]));
        const [again] = await double(first); // results can be given back as they are
        const [third] = await model.call('close', [[1], [2]]);
        const told = await failure(double(Float32Array.of(1, 2)));
        model.close();
        print([first, again, again.shape, third.shape, told[0], model.closed,
          await failure(model.main(1)), await failure(double(first))]);
        """,
        folder,
    )
    first, again, shape, third, told, closed, *after = found
    assert (first, again, shape) == ([2, 4, 6, 8, 10, 12], [4, 8, 12, 16, 20, 24], [2, 3])
    assert third == [2, 1]
    assert (told, closed) == ("INVALID_ARGUMENT", True)
    assert after == [["CLOSED", "the model is closed"]] * 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "takes 2 values and was given 0"),
        ("X, W, 1", "takes 2 values and was given 3"),
        ("{ [A]: X }", "was not given"),
        ("{ [A]: X, [B]: W, more: 1 }", "does not take more"),
        ("new Float64Array(8), W", "f32[2, 4], a Float32Array, and was given a Float64Array"),
        ("new Float32Array(7), W", "was given 7 numbers"),
        ("tensor(new Float32Array(8), [4, 2]), W", "was given shape [4, 2]"),
        ("['a'], W", "was given a string"),
        ("null, W", "was given nothing"),
    ],
)
def test_wrong_arguments_are_refused_with_what_is_wanted(
    arguments: str, words: str, folder: Path
) -> None:
    code, message = run_node(
        f"""
        const model = await load('wasm.vmfb');
        const [A, B] = model.main.inputs.map(({{ name }}) => name);
        const [X, W] = [new Float32Array(8), new Float32Array(12)];
        print(await failure(model.main({arguments})));
        """,
        folder,
    )
    assert code == "INVALID_ARGUMENT"
    assert message.startswith("main")
    assert words in message


def test_what_is_no_module_or_of_another_machine_is_refused(folder: Path) -> None:
    whole = (folder / "wasm.vmfb").read_bytes()
    cuts = [0, 3, 64, 200, len(whole) // 2, len(whole) * 3 // 4]
    found = run_node(
        """
        const { readFileSync } = await import('node:fs');
        const bytes = readFileSync('wasm.vmfb');
        const damaged = [];
        for (const cut of cuts) damaged.push(await failure(load(bytes.subarray(0, cut))));
        const bird = { url: 'wasm.vmfb', name: 'A', needs: ['wings'] };
        print([damaged, await failure(load('cpu.vmfb')), await failure(load('none.vmfb')),
          await failure(load(3)), await failure(load([bird]))]);
        """,
        folder,
        cuts=cuts,
    )
    damaged, machine, missing, no_source, variants = found
    assert {code for code, _ in damaged} == {"DAMAGED"}
    assert machine[0] == "UNSUPPORTED"
    assert "embedded-elf-x86_64" in machine[1]
    assert missing[0] == "NOT_FOUND"
    assert "none.vmfb" in missing[1]
    assert no_source[0] == "INVALID_ARGUMENT"
    assert variants == ["UNSUPPORTED", "no variant of the module runs here: A needs wings"]


@pytest.mark.parametrize("worker", [False, True], ids=["here", "worker"])
def test_a_file_is_checked_by_its_hash(worker: bool, folder: Path) -> None:
    good = _sha(folder, "wasm.vmfb")
    other = _sha(folder, "plain.vmfb")
    base64_form = "sha256-" + base64.b64encode(bytes.fromhex(good)).decode()
    found = run_node(
        """
        const results = [];
        for (const integrity of integrities)
          results.push(await failure(load('wasm.vmfb', { integrity, worker })
            .then((model) => model.close())));
        print(results);
        """,
        folder,
        integrities=[good, base64_form, other, "md5-x"],
        worker=worker,
    )
    assert [code for code, _ in found] == ["none", "none", "INTEGRITY", "INVALID_ARGUMENT"]
    assert good in found[2][1]
    assert other in found[2][1]


def test_sha256_without_the_browsers_own(folder: Path) -> None:
    lengths = [*range(0, 130, 3), 55, 56, 63, 64, 119, 120, 100_000]
    hashes = run_node(
        """
        const { plain } = await import('./edgec-runtime/sha256.js');
        print(lengths.map((length) => Buffer.from(
          plain(Uint8Array.from({ length }, (_, i) => (i * i + length) % 251))).toString('hex')));
        """,
        folder,
        lengths=lengths,
    )
    for length, found in zip(lengths, hashes, strict=True):
        data = bytes((i * i + length) % 251 for i in range(length))
        assert found == hashlib.sha256(data).hexdigest(), length


def test_downloads_tell_how_far_they_are_and_why_they_fail(folder: Path) -> None:
    size = (folder / "wasm.vmfb").stat().st_size
    with serve(folder) as address, _breaking_server(size) as broken:
        found = run_node(
            """
            const states = [];
            const progress = (state) => states.push(state);
            const model = await load(`${address}/wasm.vmfb`, { progress });
            const [y] = await model.main(new Float32Array(8), new Float32Array(12));
            const stop = new AbortController();
            const stopped = failure(load(`${address}/wasm.vmfb`, {
              signal: stop.signal, progress: () => stop.abort() }));
            print([states, y, await failure(load(`${address}/none.vmfb`)),
              await failure(load(broken)), await failure(load('http://127.0.0.1:1/x.vmfb')),
              await stopped]);
            """,
            folder,
            address=address,
            broken=broken,
        )
    states, y, missing, broke_off, refused, stopped = found
    loaded = [state["loaded"] for state in states]
    assert loaded == sorted(loaded)
    assert (loaded[0], loaded[-1]) == (0, size)
    assert {(state["total"], state["source"]) for state in states} == {(size, "network")}
    assert y == [0] * 6
    assert missing[0] == broke_off[0] == refused[0] == "DOWNLOAD"
    assert "404" in missing[1]
    assert "broke off after" in broke_off[1]
    assert stopped[0] == 20 or stopped[0] == "AbortError"  # a DOMException's old number


@contextmanager
def _breaking_server(size: int) -> Iterator[str]:
    """The URL of a file whose download ends before it is whole."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(size))
            self.end_headers()
            self.wfile.write(bytes(1000))

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/x.vmfb"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_manifest_gives_the_first_variant_that_fits(folder: Path) -> None:
    def variant(file: str, features: list[str], device: str = "wasm") -> dict[str, object]:
        needs = {"device": device, "isa": "", "features": features, "formats": []}
        path = folder / file
        return {
            **{"file": file, "target": file, "sha256": _sha(folder, file), "needs": needs},
            "size": path.stat().st_size,
        }

    variants = [
        variant("cpu.vmfb", [], "cpu"),
        variant("wasm.vmfb", ["wings"]),
        variant("plain.vmfb", []),
    ]
    for name, value in (
        ("manifest.json", {"schema": 1, "variants": variants}),
        ("unfit.json", {"schema": 1, "variants": variants[:2]}),
        ("newer.json", {"schema": 99, "variants": variants}),
    ):
        (folder / name).write_text(json.dumps(value))
    with serve(folder) as address:
        found = run_node(
            """
            const results = [];
            for (const url of ['manifest.json', `${address}/manifest.json`]) {
              const model = await load(url);
              results.push([model.variant, (await model.types.inputs).length]);
            }
            print([results, await failure(load('unfit.json')), await failure(load('newer.json'))]);
            """,
            folder,
            address=address,
        )
    results, unfit, newer = found
    assert results == [["plain.vmfb", 8]] * 2
    assert unfit[0] == newer[0] == "UNSUPPORTED"
    assert "cpu.vmfb is for cpu; wasm.vmfb needs wings" in unfit[1]


def test_an_idle_worker_keeps_no_program_alive_and_calls_of_one_take_turns(folder: Path) -> None:
    found = run_node(
        """
        const model = await load('wasm.vmfb', { worker: true });
        const calls = Array.from({ length: 20 }, (_, i) =>
          model.functions.close(tensor(Float32Array.of(i), [1, 1])));
        print((await Promise.all(calls)).map(([y]) => y[0]));
        """,  # nobody closes it, and node ends
        folder,
    )
    assert found == [2 * i for i in range(20)]


def test_workers_of_models_that_nobody_has_any_more_end(folder: Path) -> None:
    ended = run_node(
        """
        const { Worker } = await import('node:worker_threads');
        const { setFlagsFromString } = await import('node:v8');
        const { runInNewContext } = await import('node:vm');
        setFlagsFromString('--expose-gc');
        const collect = runInNewContext('gc');
        let ended = 0;
        const { terminate } = Worker.prototype;
        Worker.prototype.terminate = function () { ended += 1; return terminate.call(this); };
        const use = async () => {
          const model = await load('wasm.vmfb', { worker: true });
          await model.functions.close([[1]]);
        };
        for (let i = 0; i < 3; ++i) await use();
        for (let i = 0; i < 100 && ended < 3; ++i) {
          collect();
          await new Promise((done) => setTimeout(done, 20));
        }
        print(ended);
        """,
        folder,
    )
    assert ended == 3


def test_memory_does_not_grow_with_calls(folder: Path) -> None:
    before, after = run_node(
        """
        const model = await load('wasm.vmfb');
        const big = tensor(new Float32Array(65536), [256, 256]);
        await model.functions.close(big);
        const before = await model.memory();
        for (let i = 0; i < 500; ++i) await model.functions.close(big);
        print([before, await model.memory()]);
        """,
        folder,
    )
    assert after == before


def test_types_and_code_export_the_same_names(folder: Path) -> None:
    names = run_node("print(Object.keys(runtime));", folder)
    declared = (folder / "edgec-runtime" / "index.d.ts").read_text()
    for name in names:
        assert any(
            f"export {kind} {name}" in declared for kind in ("function", "class", "const")
        ), name
