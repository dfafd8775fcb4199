"""The functions of floats that edgert brings along for WebAssembly, against this machine's."""

import math
import shutil
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.c.conftest import SOURCE, run

HERE = Path(__file__).parent
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, math.inf, -math.inf, math.nan, 5e-324, 1e300)
ONE = {
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "tanh": np.tanh,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "cbrt": np.cbrt,
}
TWO = {"pow": np.power, "atan2": np.arctan2, "remainder": None}
ONE_F = {"expf": np.exp, "logf": np.log, "tanhf": np.tanh, "sinf": np.sin, "exp2f": np.exp2}
TWO_F = {"powf": np.power, "atan2f": np.arctan2, "fmodf": np.fmod}

Evaluate = Callable[[str, Sequence[float]], list[float]]


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory: pytest.TempPathFactory) -> Evaluate:
    """`evaluate(name, numbers)` → what the function gives in WebAssembly."""
    pytest.importorskip("ziglang")
    if shutil.which("node") is None:
        pytest.skip("no node: run scripts/setup")
    program = tmp_path_factory.mktemp("math") / "math.wasm"
    run(
        *(sys.executable, "-m", "ziglang", "cc", "-target", "wasm32-wasi", "-std=c11", "-Oz"),
        *("-Wall", "-Wextra", "-Wpedantic", "-Werror", SOURCE / "src" / "approximations.c"),
        # As packages for the web have it: else zig would build another C library for the target.
        *("-Xclang", "-Oz", "-flto"),
        *(HERE / "wasm_math.c", "-lm", "-s", "-o", program),
        cwd=program.parent,
    )
    script = program.with_name("run.mjs")
    script.write_text(
        "import { readFileSync } from 'node:fs';\n"
        "import { WASI } from 'node:wasi';\n"
        "const args = ['math', ...process.argv.slice(3)];\n"
        "const wasi = new WASI({ version: 'preview1', args });\n"
        "const module = await WebAssembly.compile(readFileSync(process.argv[2]));\n"
        "const imports = { wasi_snapshot_preview1: wasi.wasiImport };\n"
        "process.exit(wasi.start(await WebAssembly.instantiate(module, imports)));\n"
    )

    def call(name: str, numbers: Sequence[float]) -> list[float]:
        words = [struct.pack(">d", number).hex() for number in numbers]
        lines = run("node", "--no-warnings", script, program, name, *words).split()
        return [struct.unpack(">d", bytes.fromhex(line))[0] for line in lines]

    return call


def _numbers(seed: int) -> list[float]:
    random = np.random.default_rng(seed)
    spread = random.standard_normal(300) * 10.0 ** random.integers(-6, 3, 300)
    near_one = 1 + random.standard_normal(100) * 1e-4
    return [*SPECIAL, *spread.tolist(), *near_one.tolist()]


def _pairs(seed: int) -> list[tuple[float, float]]:
    crossed = [(x, y) for x in SPECIAL for y in SPECIAL]
    x, y = np.abs(_numbers(seed)), np.array(_numbers(seed + 1)) / 3
    return [*crossed, *zip(x.tolist(), y.tolist(), strict=True)]


def _agree(actual: Sequence[float], expected: np.ndarray, places: int) -> None:
    found = np.array(actual)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))
    finite = numbers & np.isfinite(expected)
    np.testing.assert_array_equal(found[numbers & ~finite], expected[numbers & ~finite])
    unit = np.finfo(np.float64).eps if places == 64 else np.finfo(np.float32).eps
    least = 2e-323 if places == 64 else 3e-45
    np.testing.assert_allclose(found[finite], expected[finite], rtol=4 * unit, atol=least)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_function_of_one_number(name: str, evaluate: Evaluate) -> None:
    numbers = _numbers(1)
    _agree(evaluate(name, numbers), ONE[name](np.array(numbers)), 64)


@pytest.mark.parametrize("name", TWO)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_function_of_two_numbers(name: str, evaluate: Evaluate) -> None:
    pairs = _pairs(2)
    actual = evaluate(name, [number for pair in pairs for number in pair])
    if name == "remainder":  # exact; numpy has none
        expected = [
            math.remainder(x, y) if math.isfinite(x) and y != 0 else math.nan for x, y in pairs
        ]
        np.testing.assert_array_equal(actual, expected)
    else:
        _agree(actual, TWO[name](*np.array(pairs).T), 64)


@pytest.mark.parametrize("name", [*ONE_F, *TWO_F])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_function_in_f32(name: str, evaluate: Evaluate) -> None:
    if name in ONE_F:
        numbers = np.array(_numbers(3)).astype(np.float32)
        actual = evaluate(name, numbers.astype(np.float64).tolist())
        expected = ONE_F[name](numbers.astype(np.float64))
    else:
        pairs = np.array(_pairs(4)).astype(np.float32)
        actual = evaluate(name, pairs.astype(np.float64).ravel().tolist())
        expected = TWO_F[name](*pairs.astype(np.float64).T)
    _agree(actual, expected.astype(np.float32).astype(np.float64), 32)
