"""The web package: what is in it, the same answers in node and in Chromium, its page, its types."""

import gzip
import hashlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.web.chromium import WEBGPU, Chromium, serve
from edgec import runtime, toolchain
from edgec.packaging import Made, PackageOptions, make_package, web_runtime
from edgec.packaging.bom import BOM
from edgec.packaging.web_runtime import BUILDS, EXPORTS, runtime_files, write_runtime
from edgec.runtime.errors import MissingExtra
from edgec.toolchain import Program
from edgec.toolchain.linker import LIBRARY
from tests.js.node import need_chromium, need_node, run_node, write_runtime_once


@pytest.fixture(scope="module")
def made(digits: Program, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The digits sample, packaged once."""
    write_runtime_once(tmp_path_factory.mktemp("warm"))  # one process at a time compiles edgert
    folder = tmp_path_factory.mktemp("web") / "digits-web"
    return make_package(digits, "web", folder, PackageOptions(name="digits"))


@pytest.fixture(scope="module")
def expected(digits: Program, images: np.ndarray, tmp_path_factory: pytest.TempPathFactory):
    """Python's scores, f32[8, 10], by the reference runtime on this machine."""
    options = toolchain.CompileOptions(output=tmp_path_factory.mktemp("cpu") / "digits.vmfb")
    module = toolchain.compile(digits, "cpu", options)
    with runtime.load(module, device="local-sync") as model:
        return np.stack([np.asarray(model.main(image[None])["scores"])[0] for image in images])


def test_the_folder_holds_the_module_thrice_the_runtime_and_a_page(made: Made) -> None:
    assert {
        *(f"digits.{target}.vmfb" for target in ("webgpu", "wasm", "wasm-plain")),
        *("digits.safetensors", "digits.js", "digits.d.ts", "README.md"),
        *("index.html", "try.js", "package.json", "manifest.json"),
        *(f"edgec-runtime/{name}" for name in (*runtime_files(), *BUILDS)),
        "selftest/selftest.mjs",
        *(f"licences/{name}.txt" for name in ("README", "edgec", "apache-llvm", "musl")),
        "licences/cloudlibc.txt",
    } == set(made.files) - {BOM}
    needs = [variant.needs for variant in made.manifest.variants]
    assert [each.device for each in needs] == ["webgpu", "wasm", "wasm"]
    assert [each.features for each in needs] == [(), ("simd128",), ()]
    for variant in made.manifest.variants:
        data = (made.folder / variant.file).read_bytes()
        assert hashlib.sha256(data).hexdigest() == variant.sha256
    assert "@" not in re.sub(r"@media", "", (made.folder / "index.html").read_text())


def test_what_a_page_with_a_gpu_loads_beside_the_model_is_small(made: Made) -> None:
    runtime_folder = made.folder / "edgec-runtime"
    scripts = [*runtime_folder.glob("*.js"), *runtime_folder.glob("*.mjs")]
    loaded = [file.read_bytes() for file in [runtime_folder / "edgert.wasm", *scripts]]
    assert sum(map(len, loaded)) <= 250_000
    assert sum(len(gzip.compress(data)) for data in loaded) <= 100_000


def test_bindings_name_types_and_shapes(made: Made) -> None:
    types = (made.folder / "digits.d.ts").read_text()
    assert "/** f32[1, 8, 8] */\n  readonly images: Value<Float32Array>;" in types
    assert "/** i32[1] */\n  readonly label: Tensor<Int32Array>;" in types
    assert "readonly main: MainFunction;" in types
    package = json.loads((made.folder / "package.json").read_text())
    assert package["types"] == "./digits.d.ts"


@pytest.mark.parametrize("variant", [1, 2], ids=["simd", "plain"])
def test_node_answers_as_python_does(
    variant: int, made: Made, images: np.ndarray, expected: np.ndarray
) -> None:
    need_node()
    names, scores, labels, device, passed_over = run_node(
        """
        const { load: loadDigits, variants } = await import('./digits.js');
        const chosen = await loadDigits();
        const model = await load([variants[variant]]);
        const results = [];
        for (const image of images) results.push(await model.main({ images: [image] }));
        print([[chosen.variant, model.variant], results.map((each) => each.scores),
          results.map((each) => each.label[0]), chosen.device, chosen.passedOver]);
        """,
        made.folder,
        images=images.tolist(),
        variant=variant,
    )
    assert names == ["wasm", ["webgpu", "wasm", "wasm:plain"][variant]]
    assert (device, passed_over) == ("wasm", ["webgpu: there is no WebGPU here"])
    np.testing.assert_allclose(scores, expected, atol=1e-5, rtol=1e-5)
    np.testing.assert_array_equal(labels, expected.argmax(1))


def test_chromium_answers_as_python_does_keeps_the_module_and_shows_the_page(
    made: Made, images: np.ndarray, expected: np.ndarray
) -> None:
    need_chromium()
    call = """(async (images, worker) => {
        const { load } = await import('./digits.js');
        const states = [];
        const model = await load({ worker, progress: (state) => states.push(state) });
        const scores = [];
        for (const image of images)
            scores.push(Array.from((await model.main({ images: [image] })).scores));
        model.close();
        return [scores, states.at(-1), model.variant];
    })(%s, %s)"""
    with serve(made.folder) as address, Chromium() as browser:
        page = browser.open(f"{address}/README.md")
        for worker, source in (("false", "network"), ("true", "cache")):
            scores, state, variant = page.run(call % (json.dumps(images.tolist()), worker))
            np.testing.assert_allclose(scores, expected, atol=1e-5, rtol=1e-5)
            size = made.files["digits.wasm.vmfb"]
            assert (variant, state) == (
                "wasm",
                {"loaded": size, "total": size, "source": source},
            )
        assert address.seen.count("/digits.wasm.vmfb") == 1
        # What was damaged in the cache is downloaded again.
        page.run("""(async () => {
            const cache = await caches.open('edgec-modules');
            for (const request of await cache.keys()) await cache.put(request, new Response('x'));
        })()""")
        _, state, _ = page.run(call % ("[]", "false"))
        assert state["source"] == "network"
        # The page that comes with it, as somebody who presses its button.
        page.go(f"{address}/index.html")
        page.wait("document.documentElement.dataset.state === 'ready'")
        page.run("document.querySelector('button.first').click()")
        text = page.wait("document.querySelector('.result .numbers')?.textContent")
        assert "ms a call" in page.run("document.body.textContent")
        assert re.match(r"\s*\d\s*$", text)  # the label, one number
        page.close()


def test_a_page_with_a_gpu_computes_there_and_says_so_and_why_not(
    made: Made, images: np.ndarray, expected: np.ndarray
) -> None:
    need_chromium()
    call = """(async (images, options) => {
        const { load } = await import('./digits.js');
        const model = await load({ cache: false, prove: true, ...options });
        const scores = await Promise.all(images.map(async (image) =>
            Array.from((await model.main({ images: [image] })).scores)));
        model.close();
        return [scores, model.variant, model.device, model.passedOver];
    })(%s, %s)"""
    with serve(made.folder) as address, Chromium(*WEBGPU) as browser:
        page = browser.open(f"{address}/README.md")
        for options in ({"device": "gpu"}, {"device": "gpu", "worker": True}, {}):
            arguments = (json.dumps(images.tolist()), json.dumps(options))
            scores, variant, device, passed_over = page.run(call % arguments)
            np.testing.assert_allclose(scores, expected, atol=1e-5, rtol=1e-5)
            if options:
                assert (variant, passed_over) == ("webgpu", [])
                assert "swiftshader" in device.lower()
            else:  # nobody asked for a GPU that is a program
                assert (variant, device) == ("wasm", "wasm")
                assert passed_over == ["webgpu: the GPU here is a program on the CPU"]
        page.go(f"{address}/index.html")
        page.wait("document.documentElement.dataset.state === 'ready'")
        state = page.run("document.getElementById('state').textContent")
        assert "Not taken: webgpu: the GPU here is a program on the CPU." in state


def test_a_missing_compiler_is_named_with_the_extra_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_runtime, "_kept_at", lambda source: tmp_path)
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with pytest.raises(MissingExtra, match="ziglang") as caught:
        write_runtime(tmp_path / "edgec-runtime")
    assert "edgec[web]" in caught.value.hint


def test_a_missing_minifier_is_named_with_the_extra_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rjsmin", None)
    with pytest.raises(MissingExtra, match="rjsmin") as caught:
        write_runtime(tmp_path / "edgec-runtime")
    assert "edgec[web]" in caught.value.hint


def test_scripts_go_out_without_comments_but_those_for_bundlers(made: Made) -> None:
    folder = made.folder / "edgec-runtime"
    scripts = {
        file.name: file.read_text() for kind in ("js", "mjs") for file in folder.glob(f"*.{kind}")
    }
    assert "webpackIgnore: true" in scripts.pop("platform.js")
    assert scripts
    for name, script in scripts.items():
        assert not re.search(r"^\s*(//|/\*)", script, re.MULTILINE), name
    smaller = sum(map(len, scripts.values())) / sum(
        len(file.read_text()) for name, file in runtime_files().items() if name in scripts
    )
    assert smaller < 0.75


def test_what_edgert_js_calls_is_exported() -> None:
    code = runtime_files()["edgert.js"].read_text()
    called = set(re.findall(r"\bc\.(edgert_\w+|free)\b", code))
    made_anyway = {"edgert_kernels_allocate", "edgert_kernels_release"}
    assert called - made_anyway == set(EXPORTS)
    assert not set(EXPORTS) & set(LIBRARY)
