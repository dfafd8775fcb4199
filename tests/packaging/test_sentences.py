"""The sentences sample, 90 MB of weights, as all four packages, by the command."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from edgec import runtime
from edgec.runtime import Golden, Module
from tests.js.node import need_node, run_node
from tests.packaging.conftest import ROOT, need, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "sentences.mlirbc"
    code = (
        "import sys; from pathlib import Path; import model; from edgec import exporters\n"
        "exporters.export(*model.embedder()).save(Path(sys.argv[1]))\n"
    )
    run(sys.executable, "-c", code, path, cwd=ROOT / "samples" / "sentences")
    return path


def packaged(program: Path, place: Path, *words: str) -> Path:
    edgec = Path(sys.executable).with_name("edgec")
    run(edgec, "package", program, *words, "-o", place)
    return place


def test_c_embeds_them_by_the_assembler(program: Path, tmp_path: Path) -> None:
    need("cmake", "ninja", "cc")
    made = packaged(program, tmp_path / "made", "--c", "--target=cpu:x86-64-v3")
    run("cmake", "-G", "Ninja", "-S", made, "-B", tmp_path / "build")
    run("cmake", "--build", tmp_path / "build")
    (call,) = Golden.load(Golden.path_for(program)).calls
    printed = run(tmp_path / "build" / "sentences_main").replace(" ...", "")
    (module,) = made.glob("modules/*.vmfb")
    (output,) = Module.read(module).signatures["main"].outputs
    (shown,) = re.findall(rf"^{output.name}: (.*)$", printed, re.MULTILINE)
    numbers = np.array(shown.split(), np.float32)
    np.testing.assert_allclose(numbers, call.outputs[0].reshape(-1)[:16], rtol=1e-4, atol=1e-4)


def test_the_modules_for_android_answer(program: Path, tmp_path: Path) -> None:
    """The variant for x86-64, which emulators take, runs here."""
    made = packaged(program, tmp_path / "made", "--android")
    (call,) = Golden.load(Golden.path_for(program)).calls
    with runtime.load(made, device="cpu") as model:
        (answer,) = model.main.call_flat(call.inputs)
        np.testing.assert_allclose(answer.numpy(), call.outputs[0], rtol=1e-4, atol=1e-4)


def test_the_kernels_for_ios_are_linked_libraries(program: Path, tmp_path: Path) -> None:
    made = packaged(program, tmp_path / "made", "--ios")
    libraries = [*made.glob("**/*.xcframework/*/lib*.a")]
    assert len(libraries) == 2
    assert all(path.read_bytes()[:8] == b"!<arch>\n" for path in libraries)


def test_node_answers_as_pytorch_did(program: Path, tmp_path: Path) -> None:
    need_node()
    made = packaged(program, tmp_path / "made", "--web", "--target=wasm")
    (call,) = Golden.load(Golden.path_for(program)).calls
    (module,) = made.glob("*.vmfb")
    inputs = Module.read(module).signatures["main"].inputs
    answer = run_node(
        """
        const model = await (await import('./sentences.js')).load();
        const results = await model.main(given);
        print([...Object.values(results)[0]]);
        """,
        made,
        given={s.name: a.tolist() for s, a in zip(inputs, call.inputs, strict=True)},
    )
    np.testing.assert_allclose(answer, call.outputs[0].reshape(-1), rtol=1e-4, atol=1e-4)
