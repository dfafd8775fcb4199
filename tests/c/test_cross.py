"""edgert on other machines, emulated: 64-bit and 32-bit Arm, RISC-V and WebAssembly.

The command is built by clang with musl, statically, and runs the conformance programs, compiled
for that machine. Numbers are compared with the reference runtime's on this machine; integers and
byte code exactly, floats within what another order of operations makes.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec import runtime
from edgec.toolchain.linker import LIBRARY
from tests.c.bytecode import Program as ByteCode
from tests.c.conftest import BUILD, SOURCE, run
from tests.c.programs import PROGRAMS
from tests.c.vm_programs import HAND_MADE, Case, agree, pure_cases


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine: how to build for it, how to be it, what to compile modules for."""

    name: str
    triple: str
    emulator: tuple[str, ...]
    target: str
    flags: tuple[str, ...] = ("-static",)


MACHINES = (
    Machine(
        name="aarch64",
        triple="aarch64-linux-musl",
        emulator=("qemu-aarch64", "-cpu", "max"),
        target="cpu:arm64-v8.2",
    ),
    Machine(
        name="cortex-a57",
        triple="aarch64-linux-musl",
        emulator=("qemu-aarch64", "-cpu", "cortex-a57"),
        target="cpu:arm64",
    ),
    Machine(
        name="armv7",
        triple="arm-linux-musleabihf",
        emulator=("qemu-arm", "-cpu", "max"),
        target="cpu:armv7",
    ),
    Machine(
        name="riscv64",
        triple="riscv64-linux-musl",
        emulator=("qemu-riscv64",),
        target="cpu:riscv64",
    ),
    Machine(
        name="wasm32",
        triple="wasm32-wasi",
        emulator=("node", "--no-warnings", str(Path(__file__).with_name("wasi.mjs"))),
        target="wasm",
        flags=(
            # As packages for the web have it: else zig would build another C library.
            *("-Oz", "-Xclang", "-Oz", "-flto"),
            *("-Wl,--export-table", "-Wl,--growable-table", "-Wl,--export=__stack_pointer"),
            *(f"-Wl,--export={name}" for name in LIBRARY),
        ),
    ),
)

Command = Callable[..., subprocess.CompletedProcess[str]]


def _build(machine: Machine) -> Path:
    """The command for another machine; built again when a source is newer.

    From the library's one file, which takes a third of the time that its many take.
    """
    output = BUILD / "cross" / machine.triple / "edgert"
    newest = max(file.stat().st_mtime for file in SOURCE.glob("**/*.[ch]"))
    if not output.exists() or output.stat().st_mtime < newest:
        output.parent.mkdir(parents=True, exist_ok=True)
        run(sys.executable, SOURCE / "amalgamate.py", output.parent)
        sources = [output.parent / "edgert.c", *SOURCE.glob("cli/*.c")]
        run(
            *(sys.executable, "-m", "ziglang", "cc", "-target", machine.triple, "-std=c11", "-O2"),
            *("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_POSIX_C_SOURCE=200809L"),
            *(f"-I{SOURCE / 'include'}", *sources, "-lm", *machine.flags, "-s", "-o", output),
            # In a folder above its own files zig would build another C library, too.
            cwd=output.parent,
        )
    return output


def _parameter(machine: Machine) -> Any:
    """`make test` has Arm's 64 bits and WebAssembly's 32; `make test-all` has the others."""
    marks = [pytest.mark.slow] if machine.name in ("riscv64", "armv7") else []
    return pytest.param(machine, id=machine.name, marks=marks)


@pytest.fixture(scope="module", params=map(_parameter, MACHINES))
def machine(request: pytest.FixtureRequest) -> Machine:
    """Every machine that can be emulated here, one after the other."""
    pytest.importorskip("ziglang")
    if shutil.which(request.param.emulator[0]) is None:
        if os.environ.get("CI"):
            pytest.fail(f"{request.param.emulator[0]} is missing: scripts/setup installs it")
        pytest.skip(f"no {request.param.emulator[0]}: run scripts/setup")
    return request.param


@pytest.fixture(scope="module")
def command(machine: Machine) -> Command:
    """`command(words…)` → the finished command on the emulated machine."""
    program = _build(machine)

    def call(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*machine.emulator, str(program), *map(str, words)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return call


def _answers(command: Command, folder: Path, *words: str | Path) -> list[np.ndarray]:
    done = command("run", *words, f"--output={folder / 'out.npz'}")
    assert done.returncode == 0, done.stderr
    with np.load(folder / "out.npz") as archive:
        return [archive[name] for name in archive.files]


def _inputs(folder: Path, arguments: tuple[np.ndarray, ...]) -> list[str]:
    words = []
    for number, array in enumerate(arguments):
        np.save(folder / f"in{number}.npy", array)
        words.append(f"--input=@{folder / f'in{number}.npy'}")
    return words


@pytest.mark.sweep(fast=5)
@pytest.mark.parametrize(
    ("name", "threads"),
    [
        ("layers", 1),
        ("layers", 3),
        ("softmax", 3),
        ("control", 1),
        pytest.param("types", 3, marks=pytest.mark.slow),
    ],
)
def test_programs_compute_the_same(
    name: str,
    threads: int,
    machine: Machine,
    command: Command,
    compile_text: Callable[..., Path],
    tmp_path: Path,
) -> None:
    if name == "softmax" and machine.name == "armv7":
        pytest.skip("the compiler makes maxima a call of fmaxf there, which modules cannot link")
    if name == "types" and machine.name == "wasm32":
        pytest.skip("the compiler's code for f16 is no valid WebAssembly (3.13)")
    program = next(program for program in PROGRAMS if program.name == name)
    module = compile_text(program.text, machine.target)
    with runtime.load(compile_text(program.text), device="local-sync") as reference:
        for call in program.calls:
            actual = _answers(
                *(command, tmp_path, module, f"--function={call.function}"),
                *(f"--threads={threads}", *_inputs(tmp_path, call.arguments)),
            )
            outputs = reference[call.function].call_flat(call.arguments)
            for found, output in zip(actual, outputs, strict=True):
                expected = np.array(output.numpy())
                assert found.dtype == expected.dtype
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_state_is_kept_between_calls(
    machine: Machine, command: Command, compile_text: Callable[..., Path], tmp_path: Path
) -> None:
    program = next(program for program in PROGRAMS if program.name == "state")
    memory, counter = _answers(
        *(command, tmp_path, compile_text(program.text, machine.target), "--function=step"),
        *("--times=5", "--input=4xf32=2"),
    )
    table = np.array([0.5, 1.5, -2.0, 4.0], np.float32)
    np.testing.assert_array_equal(memory, 1 + 5 * 2 * table)
    assert counter == 3 + 5


def _width(letter: str) -> type:
    return np.int32 if letter == "i" else np.int64


def _sample(case: Case, count: int) -> tuple[tuple[int, ...], ...]:
    step = max(1, len(case.arguments) // count)
    return case.arguments[::step][:count]


def _columns(case: Case, rows: tuple[tuple[int, ...], ...]) -> tuple[np.ndarray, ...]:
    """An array an argument, with an element for each call."""
    takes = case.function.convention.partition("_")[0].lstrip("0").replace("v", "")
    return tuple(
        np.array([row[place] for row in rows]).astype(_width(letter))
        for place, letter in enumerate(takes)
    )


def test_byte_code_means_the_same(
    machine: Machine, command: Command, library: object, tmp_path: Path
) -> None:
    """Every instruction, with some of the arguments, against edgert on this machine."""
    from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession

    # Library functions beyond the basic operations may differ in the last digit.
    libm = ("atan", "cos", "sin", "exp", "log", "pow", "tanh", "erf", "fma.f")
    cases = [case for case in HAND_MADE if "hash" not in case.function.name][::3]
    cases += [case for case in pure_cases() if not case.function.name.startswith(libm)][::4]
    module = ByteCode(functions=[case.function for case in cases]).build()
    (tmp_path / "code.vmfb").write_bytes(module)
    device = EdgertDevice("null", library=library)
    session = EdgertSession(EdgertModule(module, library=library), device)
    for case in cases:
        rows = _sample(case, 20)
        columns = _columns(case, rows)
        found = _answers(
            *(command, tmp_path, tmp_path / "code.vmfb", "--device=null"),
            *(f"--function={case.function.name}", *_inputs(tmp_path, columns)),
            *(["--each"] if columns else []),
        )
        for place, arguments in enumerate(rows):
            numbers = [int(column[place] if columns else column) for column in found]
            expected = session.call(case.function.name, arguments)
            assert agree(case, numbers, expected), (case.function.name, arguments, numbers)


def test_a_module_for_a_better_processor_is_refused(
    machine: Machine, command: Command, compile_text: Callable[..., Path]
) -> None:
    if machine.name != "cortex-a57":
        pytest.skip("it is the one machine here that is not the best of its kind")
    program = next(program for program in PROGRAMS if program.name == "state")
    module = compile_text(program.text, "cpu:arm64-v8.2")
    done = command("run", module, "--function=kept")
    assert done.returncode == 1
    assert "a processor with" in done.stderr


def test_a_module_for_another_machine_is_refused(
    machine: Machine, command: Command, compile_text: Callable[..., Path]
) -> None:
    program = next(program for program in PROGRAMS if program.name == "state")
    done = command("run", compile_text(program.text), "--function=kept")
    assert done.returncode == 1
    assert "holds kernels for 'embedded-elf-x86_64'" in done.stderr
