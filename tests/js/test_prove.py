"""A module proves itself in JavaScript as in Python: verdicts, what is kept, what is refused."""

from pathlib import Path

import numpy as np
import pytest

from edgec import toolchain
from edgec.runtime import DType, Golden, GoldenCall
from edgec.runtime.sampled_output import SampledOutput
from edgec.runtime.seeded_calls import SeededCall, SeededCalls
from edgec.runtime.seeded_input import SeededInput
from edgec.runtime.tolerance import Tolerance
from edgec.toolchain import CompileOptions, load_program
from edgec.toolchain.seeding import answer_seeds
from tests.js.node import need_node, run_node, write_runtime_once
from tests.runtime.hostile_golden import damaged_calls

PROGRAM = """
func.func public @main(%x: tensor<40x3xf32>, %n: tensor<5xi64>)
    -> (tensor<40x3xf32>, tensor<5xi64>) {
  %0 = stablehlo.tanh %x : tensor<40x3xf32>
  %1 = stablehlo.add %n, %n : tensor<5xi64>
  return %0, %1 : tensor<40x3xf32>, tensor<5xi64>
}
"""
X = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
N = np.array([1, -(1 << 40), 5, 7, 9])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runtime, and a module with golden calls."""
    need_node()
    folder = tmp_path_factory.mktemp("prove")
    write_runtime_once(folder / "edgec-runtime")
    (folder / "net.mlir").write_text(PROGRAM)
    call = GoldenCall(signature="main", inputs=(X, N), outputs=(np.tanh(X), 2 * N))
    Golden(calls=(call,)).save(folder / "net.golden.npz")
    program = load_program(folder / "net.mlir")
    seeded = answer_seeds(program, CompileOptions())
    toolchain.compile(
        program, "wasm:plain", CompileOptions(output=folder / "net.vmfb", seeded=seeded)
    )
    return folder


@pytest.mark.parametrize("worker", [False, True], ids=["here", "worker"])
def test_a_module_proves_itself_and_the_verdict_is_kept(worker: bool, folder: Path) -> None:
    found = run_node(
        """
        const kept = new Map();
        const store = { get: (key) => kept.get(key), set: (key, said) => { kept.set(key, said); } };
        const { createHash } = await import('node:crypto');
        const { readFileSync } = await import('node:fs');
        const integrity = createHash('sha256').update(readFileSync('net.vmfb')).digest('hex');
        const model = await load('net.vmfb', { worker, integrity, prove: { store } });
        const again = await model.prove({ store });
        const plain = await model.prove();
        model.close();
        for (const key of kept.keys()) kept.set(key, 'scores are off');
        const error = await load('net.vmfb', { integrity, prove: { store } }).catch((e) => e);
        print({ again, plain, kept: kept.size, code: error.code, message: error.message });
        """,
        folder,
        worker=worker,
    )
    assert found["again"] == {"kept": True}
    assert found["plain"]["calls"] == 1
    assert found["plain"]["outputs"] == 2
    assert 0 <= found["plain"]["share"] < 1
    assert found["kept"] == 1
    assert found["code"] == "UNSUPPORTED"
    assert "computes wrong answers: scores are off (found before)" in found["message"]


EXAMPLES = {
    dtype.value: np.random.default_rng(3).normal(0 if dtype.is_float else 50, 15, (6, 20))
    for dtype in DType
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_inputs_and_verdicts_are_those_of_python(name: str, folder: Path) -> None:
    """The function gives what it takes; what is expected is right, and then off by one number."""
    dtype = DType(name)
    example = np.abs(EXAMPLES[name]) if name[0] == "u" else EXAMPLES[name]
    given = SeededInput.like(example.astype(dtype.numpy), seed=7)
    array = given.array()
    wrong = array.copy()
    wrong.flat[77] = not wrong.flat[77] if name == "bool" else wrong.flat[77] + 60
    texts = [
        SeededCalls(
            calls=(
                SeededCall(
                    function="main",
                    inputs=(given,),
                    outputs=(SampledOutput.of(value, Tolerance(), seed=2),),
                ),
            ),
            source="",
        ).text()
        for value in (array, wrong)
    ]
    found = run_node(
        """
        const { prove, read } = await import('./edgec-runtime/prove.js');
        const same = (name, inputs) => ({ outputs: [{ name: 'same' }], results: inputs });
        const said = [];
        for (const text of texts) said.push(await prove(read(text), same).catch((e) => e.message));
        print(said);
        """,
        folder,
        texts=texts,
    )
    assert found[0]["outputs"] == 1
    assert "same of main is wrong: " in found[1]


def test_hostile_texts_are_refused(folder: Path) -> None:
    texts = [text for _, text in damaged_calls()]
    found = run_node(
        """
        const { prove, read } = await import('./edgec-runtime/prove.js');
        const same = (name, inputs) => ({ outputs: [{ name: 'same' }], results: inputs });
        const said = [];
        for (const text of texts) {
          try {
            said.push(await prove(read(text), same));
          } catch (error) {
            said.push(error.code);
          }
        }
        print(said);
        """,
        folder,
        texts=texts,
    )
    outcomes = {name: said for (name, _), said in zip(damaged_calls(), found, strict=True)}
    assert {said for said in outcomes.values() if isinstance(said, str)} <= {
        "DAMAGED",
        "UNSUPPORTED",
    }
    assert not {name for name, said in outcomes.items() if not isinstance(said, str)}
