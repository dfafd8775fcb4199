"""A module brings golden calls, proves itself on each device, and a wrong one is found."""

import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec import runtime
from edgec.runtime import DType, Golden, GoldenCall, Module, Tolerance
from edgec.runtime.errors import CompileError, ModuleError, WrongAnswer
from edgec.runtime.seeded_calls import SeededCalls
from edgec.runtime.vmfb import parse
from edgec.toolchain import CompileOptions, Program, compile, load_program
from edgec.toolchain.seeded import Seeded
from edgec.toolchain.seeding import answer_seeds

WEIGHTS = np.random.default_rng(3).standard_normal((16, 24)).astype(np.float32)
NET = f"""
func.func public @main(%x: tensor<5x16xf32>, %n: tensor<3xi32>)
    -> (tensor<5x24xf32>, tensor<3xi32>) {{
  %w = stablehlo.constant dense<"0x{WEIGHTS.tobytes().hex().upper()}"> : tensor<16x24xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<5x16xf32>, tensor<16x24xf32>) -> tensor<5x24xf32>
  %1 = stablehlo.tanh %0 : tensor<5x24xf32>
  %2 = stablehlo.add %n, %n : tensor<3xi32>
  return %1, %2 : tensor<5x24xf32>, tensor<3xi32>
}}
"""
X = np.random.default_rng(4).standard_normal((5, 16)).astype(np.float32)
N = np.array([3, 9, 4], np.int32)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A small network with its golden answers, by NumPy."""
    path = tmp_path_factory.mktemp("seeding") / "net.mlir"
    path.write_text(NET)
    call = GoldenCall(signature="main", inputs=(X, N), outputs=(np.tanh(X @ WEIGHTS), 2 * N))
    Golden(calls=(call,)).save(Golden.path_for(path))
    return load_program(path)


@pytest.fixture(scope="module")
def seeded(program: Program) -> Seeded:
    return answer_seeds(program, CompileOptions())


@pytest.fixture(scope="module")
def module(program: Program, seeded: Seeded, tmp_path_factory: pytest.TempPathFactory) -> Module:
    """The network for this CPU, with golden calls."""
    output = tmp_path_factory.mktemp("seeded") / "net.vmfb"
    return compile(program, "cpu", CompileOptions(output=output, seeded=seeded))


def test_answers_come_from_elsewhere_and_are_those_of_the_model(module: Module) -> None:
    calls = SeededCalls.read(module.golden)
    assert "without edgec's kernels, which gave the framework's answers" in calls.source
    (call,) = calls.calls
    x, n = (given.array() for given in call.inputs)
    assert x.std() == pytest.approx(X.std(), rel=0.2)
    assert set(n.tolist()) <= set(range(3, 10))
    for expected, known in zip((np.tanh(x @ WEIGHTS), 2 * n), call.outputs, strict=True):
        assert not known.judge(expected).problem
    assert len(module.golden) < 4000


@pytest.mark.parametrize("device", ["cpu", "local-sync"])
def test_a_module_proves_itself_on_each_runtime(module: Module, device: str) -> None:
    with runtime.load(module, device=device, prove=True) as loaded:
        proof = loaded.prove()
    assert (proof.calls, proof.outputs, proof.kept) == (1, 2, False)
    assert 0 <= proof.share < 1


@pytest.fixture
def changed(module: Module, tmp_path: Path) -> Iterator[Path]:
    """The module with one of its weights changed, and its checksums made right again."""
    data = bytearray(module.path.read_bytes())
    at = data.find(WEIGHTS[7].tobytes())
    if at < 0:  # packed by columns for the kernel
        at = data.find(WEIGHTS[7, 4].tobytes())
    data[at : at + 4] = np.float32(40).tobytes()
    for entry in parse(memoryview(module.path.read_bytes()), "").archive:
        total = zlib.crc32(data[entry.offset : entry.offset + entry.size])
        for place in entry.checksum_offsets:
            data[place : place + 4] = total.to_bytes(4, "little")
    path = tmp_path / "changed.vmfb"
    path.write_bytes(data)
    return path


def test_a_changed_weight_is_found(changed: Path, tmp_path: Path) -> None:
    with runtime.load(changed) as loaded, pytest.raises(WrongAnswer, match=r"of main: .* are off"):
        loaded.prove()
    with pytest.raises(WrongAnswer, match="and should be"):
        runtime.load(changed, prove=True)


def test_verdicts_are_kept(module: Module, changed: Path, tmp_path: Path) -> None:
    kept = tmp_path / "verdicts"
    with runtime.load(module) as loaded:
        first, again = loaded.prove(kept), loaded.prove(kept)
    assert (first.kept, again.kept, again.calls) == (False, True, 0)
    with runtime.load(changed) as loaded:
        for said in ("and should be", "found before, and kept"):
            with pytest.raises(WrongAnswer, match=said):
                loaded.prove(kept)
    assert len(kept.read_text().splitlines()) == 2


def test_what_is_coarser_may_be_off_by_more(seeded: Seeded) -> None:
    def limits(tolerance: Tolerance | None) -> list[int]:
        known = SeededCalls.read(seeded.text(tolerance)).calls[0].outputs[0]
        return [within for _, _, within in known.samples]

    usual, halves = limits(None), limits(Tolerance.of(DType.F16))
    assert all(20 * one < other for one, other in zip(usual, halves, strict=True))


def test_without_golden_answers_there_is_nothing_to_go_by(program: Program) -> None:
    with pytest.raises(CompileError, match="no golden answers"):
        answer_seeds(replace(program, golden=None), CompileOptions())


def test_a_module_without_golden_calls_says_so(program: Program, tmp_path: Path) -> None:
    plain = compile(program, "cpu", CompileOptions(output=tmp_path / "plain.vmfb"))
    with runtime.load(plain) as loaded, pytest.raises(ModuleError, match="no golden calls"):
        loaded.prove()


def test_damaged_golden_calls_are_refused(module: Module) -> None:
    value = json.loads(module.golden)
    value["calls"][0]["inputs"][0]["shape"] = [1 << 40]
    with runtime.load(module) as loaded:
        loaded.module = replace(module, golden=json.dumps(value))
        with pytest.raises(ModuleError, match="impossible"):
            loaded.prove()
        value["calls"][0]["inputs"] = []
        loaded.module = replace(module, golden=json.dumps(value))
        with pytest.raises(ModuleError, match="of another module"):
            loaded.prove()
