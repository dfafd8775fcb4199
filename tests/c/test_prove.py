"""A module proves itself in C as in Python: the same inputs and verdicts, and nothing believed."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime.dtypes import DType
from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession
from edgec.runtime.errors import ModuleError, WrongAnswer
from edgec.runtime.module import GOLDEN_ATTRIBUTE
from edgec.runtime.sampled_output import SampledOutput
from edgec.runtime.seeded_calls import SeededCall, SeededCalls
from edgec.runtime.seeded_input import SeededInput
from edgec.runtime.tolerance import Tolerance
from tests.c.bytecode import Function, Program, ref
from tests.runtime.hostile_golden import damaged_calls

RANDOM = np.random.default_rng(8)
_LEAST = np.float32(np.finfo(np.float32).min)

Open = Callable[..., EdgertSession]


def same(golden: str, output: str = "same") -> bytes:
    """A module whose function gives what it takes, with these golden calls."""
    signature = {
        "name": "main",
        "inputs": [{"name": "x", "shape": [1], "dtype": "f32"}],
        "outputs": [{"name": output, "shape": [1], "dtype": "f32"}],
    }
    attributes = {"edgec.signature": json.dumps(signature), GOLDEN_ATTRIBUTE: golden}
    body = [("block", "start"), ("return", [ref(0)])]
    main = Function(name="main", convention="0r_r", body=body, attributes=attributes)
    return Program(functions=[main]).build()


@pytest.fixture
def open_same(library: object) -> Open:
    device = EdgertDevice(threads=1, library=library)

    def opened(golden: str, **names: str) -> EdgertSession:
        return EdgertSession(EdgertModule(same(golden, **names), library=library), device)

    return opened


def calls(given: SeededInput, known: SampledOutput) -> SeededCalls:
    call = SeededCall(function="main", inputs=(given,), outputs=(known,))
    return SeededCalls(calls=(call,), source="a test")


EXAMPLES = {
    **{
        dtype.value: RANDOM.normal(0 if dtype.value[0] in "ifbc" else 60, 20, (7, 90))
        .clip(0 if dtype.value[0] in "u" else -120, 120)
        .astype(dtype.numpy)
        for dtype in DType
    },
    "small f16": (RANDOM.standard_normal(50) * 1e-6).astype(np.float16),
    "large f16": (RANDOM.standard_normal(50) * 2e4).astype(np.float16),
    "small f32": (RANDOM.standard_normal(50) * 1e-42).astype(np.float32),
    "large f64": RANDOM.standard_normal(50) * 1e250,
    "mask": np.where(RANDOM.random(90) < 0.5, 0, _LEAST).astype(np.float32),
    "positions": np.tile(np.arange(12), (3, 1)),
    "wide i64": RANDOM.integers(-(2**51), 2**51, 40),
    "one": np.float32(0.1).reshape(()),
    "none": np.zeros((0, 3), np.float32),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_inputs_are_the_same_numbers_bit_for_bit(name: str, open_same: Open) -> None:
    """Nothing may be off, and the sums see every number."""
    given = SeededInput.like(EXAMPLES[name], seed=11)
    array = given.array()
    known = SampledOutput.of(array, Tolerance(), seed=3)
    open_same(calls(given, known).text()).prove()
    if array.size:
        at, value, within = known.samples[-1]
        moved = (*known.samples[:-1], (at, value + 2 + within, within))
        with pytest.raises(WrongAnswer, match=f"same .output 0. of main is wrong: number {at} is"):
            open_same(calls(given, replace(known, samples=moved)).text()).prove()


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I32, DType.C64])
def test_verdicts_are_those_of_python(dtype: DType, open_same: Open) -> None:
    """The module gives its input; what is expected is off by more or less, here and there."""
    example = RANDOM.normal(0, 40, (9, 50)).astype(dtype.numpy)
    given = SeededInput.like(example, seed=21)
    array = given.array()
    found = set()
    for size in (0, 1e-6, 1e-4, 1e-3, 1e-2, 1):
        for count in (1, 40, array.size):
            expected = array.copy().reshape(-1)
            places = RANDOM.permutation(array.size)[:count]
            noise = size * 40 * RANDOM.standard_normal(count)
            expected[places] += noise.astype(dtype.numpy)
            expected = expected.reshape(array.shape)
            known = SampledOutput.of(expected, Tolerance.of(dtype), seed=1)
            is_right = not known.judge(array).problem
            session = open_same(calls(given, known).text())
            if is_right:
                session.prove()
            else:
                with pytest.raises(WrongAnswer):
                    session.prove()
            found.add(is_right)
    assert found == {True, False}


def test_a_wrong_sum_says_where(open_same: Open) -> None:
    given = SeededInput.like(RANDOM.standard_normal(1000).astype(np.float32), seed=2)
    known = SampledOutput.of(given.array(), Tolerance.of(DType.F32))
    quiet = replace(known, samples=())
    text = calls(given, replace(quiet, sums=((known.sums[0][0] + (1 << 39), 5), *known.sums[1:])))
    with pytest.raises(WrongAnswer, match=r"the signed sum from number 0 is .* and should be"):
        open_same(text.text()).prove()


def test_another_shape_is_wrong(open_same: Open) -> None:
    given = SeededInput.like(np.zeros((2, 3), np.float32), seed=2)
    known = SampledOutput.of(np.zeros((3, 2), np.float32), Tolerance())
    with pytest.raises(WrongAnswer, match="another type or shape"):
        open_same(calls(given, known).text()).prove()


@pytest.mark.parametrize("name, text", damaged_calls(), ids=[n for n, _ in damaged_calls()])
def test_hostile_texts_are_refused(name: str, text: str, open_same: Open) -> None:
    with pytest.raises(ModuleError, match="golden calls"):
        open_same(text).prove()


def test_every_cut_of_a_text_is_refused(open_same: Open) -> None:
    given = SeededInput.like(np.zeros((2, 3), np.float32), seed=2)
    known = SampledOutput.of(given.array(), Tolerance(absolute=1))
    text = calls(given, known).text()
    open_same(text).prove()
    for end in range(1, len(text) - 1):
        with pytest.raises(ModuleError):
            open_same(text[:end]).prove()


def test_a_module_without_golden_calls_says_so(library: object) -> None:
    main = Function(name="main", convention="0v_v", body=[("block", "a"), ("return", [])])
    module = EdgertModule(Program(functions=[main]).build(), library=library)
    session = EdgertSession(module, EdgertDevice(threads=1, library=library))
    with pytest.raises(ModuleError, match="not found: the module brings no golden calls"):
        session.prove()


def test_verdicts_are_kept_by_module_and_device(
    open_same: Open, library: object, tmp_path: Path
) -> None:
    kept = tmp_path / "verdicts"
    given = SeededInput.like(RANDOM.standard_normal(10).astype(np.float32), seed=2)
    known = SampledOutput.of(given.array(), Tolerance())
    right = calls(given, known).text()
    wrong = calls(given, SampledOutput.of(given.array() + 1, Tolerance())).text()
    session = open_same(right)
    session.prove(kept)
    line = f"{session.identity:016x} right\n"
    assert kept.read_text() == line
    session.prove(kept)
    assert kept.read_text() == line
    with pytest.raises(WrongAnswer) as first:
        open_same(wrong).prove(kept)
    with pytest.raises(WrongAnswer) as again:
        open_same(wrong).prove(kept)
    assert again.value.what == f"{first.value.what} (found before)"
    assert kept.read_text().startswith(line)
    assert len(kept.read_text().splitlines()) == 2
    # It was not called again: the file is believed.
    kept.write_text(f"{session.identity:016x} said so\n")
    with pytest.raises(WrongAnswer, match="said so"):
        session.prove(kept)
    null = EdgertSession(session.module, EdgertDevice("null", library=library))
    assert null.identity != session.identity != open_same(wrong).identity


def test_a_verdict_that_names_lines_is_one_line(open_same: Open, tmp_path: Path) -> None:
    """A module could else say of another module that it computes right answers."""
    kept = tmp_path / "verdicts"
    given = SeededInput.like(np.zeros(3, np.float32), seed=2)
    right = open_same(calls(given, SampledOutput.of(given.array(), Tolerance())).text())
    wrong = calls(given, SampledOutput.of(given.array() + 1, Tolerance())).text()
    forged = f"x\n{right.identity:016x} right\ny"
    session = open_same(wrong, output=forged)
    with pytest.raises(WrongAnswer):
        session.prove(kept)
    (line,) = kept.read_text().splitlines()
    assert line.startswith(f"{session.identity:016x} ")
    with pytest.raises(WrongAnswer, match="found before"):
        session.prove(kept)


@pytest.mark.parametrize("content", [b"", b"\xff\0 right\n", b"\n" * 99, b"x" * 70000, None])
def test_damaged_verdicts_were_never_found_out(
    content: bytes | None, open_same: Open, tmp_path: Path
) -> None:
    kept = tmp_path / "verdicts"
    if content is None:
        kept.mkdir()  # cannot be written either
    else:
        kept.write_bytes(content)
    given = SeededInput.like(np.zeros(3, np.float32), seed=2)
    session = open_same(calls(given, SampledOutput.of(given.array(), Tolerance())).text())
    session.prove(kept)
    if content is not None:
        assert kept.read_bytes().endswith(f"{session.identity:016x} right\n".encode())
        assert kept.stat().st_size < 20000
