"""A made case compiled for a target, run there and compared. One process, without JAX.

python -m benchmarks.operators.check FOLDER TARGET edgec|plain|drivers|without:PASS

Keys come from stdin, a line for each. `drivers` runs the very same module on IREE's driver and on
edgert's, and says of both what became of it, and whether the bits are the same.
"""

import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.operators.make import Made, load_made
from edgec import runtime
from edgec.runtime import Tolerance
from edgec.runtime.comparison import compare
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import EdgecError
from edgec.targets import Backend, Target, find
from edgec.toolchain import diagnostics
from edgec.toolchain.flags import command_line, compile_flags, without_tiling
from edgec.toolchain.precision import Integers
from edgec.toolchain.prepare import describe_file, prepare_file
from edgec.toolchain.process import Finished, compiler_path, compiler_version, run_compiler
from edgec.toolchain.settings import Settings

__all__ = ["Outcome"]

_COMPILE_LIMIT = 60.0
_CANCELLED = 0.05
"""Of the largest answer, for f32 eight units of its last place."""
_PLAIN: dict[Backend, tuple[str, ...]] = {
    Backend.CPU: (
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=host",
    ),
    Backend.VULKAN: (
        "--iree-hal-target-device=vulkan",
        "--iree-vulkan-target=vp_android_baseline_2022",
    ),
}
_DEVICES = {Backend.CPU: "local-sync", Backend.VULKAN: "vulkan"}
_EDGERT = {Backend.CPU: "edgert://cpu", Backend.VULKAN: "edgert://vulkan"}


class Outcome(Enum):
    """What became of a case."""

    RIGHT = "right"
    WRONG = "wrong"
    REFUSED = "refused"
    FAILED = "failed"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OUTSIDE = "outside"


@dataclass(frozen=True, kw_only=True)
class _Stop(Exception):
    """The end of a case before its answers were compared."""

    outcome: Outcome
    reason: str


def _check(
    made: Made,
    target: Target,
    *,
    plain: bool,
    folder: Path,
    disabled: Sequence[str] = (),
    beside: bool = False,
) -> tuple[Outcome, str]:
    """What became of a case; with `beside`, on IREE's driver and edgert's."""
    note, inputs, expected = load_made(made)
    if not target.limits.f64 and any(
        k in ("f64", "c128") for k in note["inputs"] + note["outputs"]
    ):
        return Outcome.OUTSIDE, "the device has no 64-bit floats"
    refused = note["plain_refused" if plain else "refused"]
    if refused:
        return Outcome.REFUSED, refused
    tries = (Integers.DECLARED,) if plain or target.limits.i64 else tuple(Integers)
    refusals: list[_Stop] = []
    for integers in tries:
        try:
            module = folder / "case.vmfb"
            if plain:
                _compile(made.plain, module, target, _plain_flags(target))
            elif not _prepared(made, module, target, integers, disabled=disabled):
                continue
            if beside:
                return Outcome.RIGHT, _beside(module, target, inputs, expected, note)
            _compared(module, _DEVICES[target.backend], inputs, expected, note)
            return Outcome.RIGHT, ""
        except _Stop as stop:
            refusals.append(stop)
    return refusals[0].outcome, refusals[0].reason


def _plain_flags(target: Target) -> list[str]:
    return ["--iree-input-type=stablehlo", *_PLAIN[target.backend]]


def _prepared(
    made: Made, module: Path, target: Target, integers: Integers, *, disabled: Sequence[str]
) -> bool:
    """Run edgec's passes and the compiler; False where no integer is another for it."""
    source = module.with_suffix(".mlirbc")
    facts = {
        "target": target.name,
        "driver": target.driver,
        "edgec": metadata.version("edgec"),
        "compiler": compiler_version(),
        "cpu_features": list(target.required_features),
        "weights": None,
        "states": [],
    }
    settings = Settings(disabled=tuple(disabled))
    try:
        info = describe_file(made.program)
        done = prepare_file(made.program, source, info, facts, target, settings, integers=integers)
    except EdgecError as error:
        raise _Stop(outcome=Outcome.REFUSED, reason=error.what) from error
    if integers.value and not done.changes.get(integers.value):
        return False
    flags = compile_flags(target, dialect=info.dialect, doubles=info.needs_doubles)
    _compile(source, module, target, flags)
    return True


def _compile(source: Path, module: Path, target: Target, flags: Sequence[str]) -> None:
    module.unlink(missing_ok=True)
    line = command_line(compiler_path(), source, module, flags)
    finished = run_compiler(line, timeout=_COMPILE_LIMIT)
    plainer = without_tiling(line)
    if plainer is not None and _died(finished):
        finished = run_compiler(plainer, timeout=_COMPILE_LIMIT)
    if finished.timed_out:
        raise _Stop(outcome=Outcome.TIMEOUT, reason=f"compiler: over {_COMPILE_LIMIT:.0f} s")
    if _died(finished):
        said = re.search(r"(?:Assertion|LLVM ERROR:|UNREACHABLE).*", finished.stderr)
        raise _Stop(outcome=Outcome.CRASH, reason=said[0] if said else f"signal {-finished.code}")
    if finished.code != 0:
        texts = [message.text for message in diagnostics.messages(finished.stderr)]
        known = diagnostics.explain(finished, target, None).what
        raise _Stop(outcome=Outcome.FAILED, reason=f"{_short(texts[0] if texts else '')} ({known})")


def _died(finished: Finished) -> bool:
    return not finished.timed_out and (finished.code < 0 or "Stack dump" in finished.stderr)


def _short(text: str) -> str:
    text = text.partition(" see current operation")[0]
    text = re.sub(r"tensor<[^>]*>+|vector<[^>]*>", "T", text)
    text = re.sub(r"(explicitly marked illegal)?: %.*", "", text)
    return re.sub(r"\b\d+\b", "N", re.sub(r"\s+", " ", text))[:150]


def _beside(
    module: Path,
    target: Target,
    inputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    note: Mapping[str, Any],
) -> str:
    """Run the module on both drivers: the outcome on each, and whether bits are the same; JSON."""
    words, bits = [], []
    for devices in (_DEVICES, _EDGERT):
        try:
            outputs = _compared(module, devices[target.backend], inputs, expected, note)
            words.append(Outcome.RIGHT.value)
        except _Stop as stop:
            words.append(f"{stop.outcome.value} ({_short(stop.reason)})")
            outputs = []
        bits.append([(a.dtype, a.shape, a.tobytes()) for a in outputs])
    return json.dumps({"iree": words[0], "edgert": words[1], "same": bits[0] == bits[1]})


def _compared(
    module: Path,
    device: str,
    inputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    note: Mapping[str, Any],
) -> list[np.ndarray]:
    """Run the module; its answers, all of which are right.

    Raises:
        _Stop: it does not run, or its answers are wrong.
    """
    given = [_shared(array) for array in inputs]
    try:
        with runtime.load(module, device=device) as loaded:
            outputs = [np.array(array.numpy()) for array in loaded["main"].call_flat(given)]
    except EdgecError as error:
        raise _Stop(outcome=Outcome.FAILED, reason=f"run: {error.what}") from error
    if any(a.tobytes() != b.tobytes() for a, b in zip(given, inputs, strict=True)):
        raise _Stop(outcome=Outcome.WRONG, reason="the caller's array was changed")
    for actual, right in zip(outputs, expected, strict=True):
        if actual.dtype != right.dtype:
            reason = f"the type is {actual.dtype} and should be {right.dtype}"
            raise _Stop(outcome=Outcome.WRONG, reason=reason)
        relative = Tolerance.of(DType.of(right.dtype)).relative * note["slack"]
        # Products that are added up cancel each other: what is left is as far off as they are.
        cancelled = _CANCELLED * _largest(right) if note["sums"] else 0.0
        tolerance = Tolerance(absolute=relative * cancelled, relative=relative)
        result = compare(actual, right, tolerance)
        if not result.ok:
            raise _Stop(outcome=Outcome.WRONG, reason=result.problem)
    return outputs


def _shared(array: np.ndarray) -> np.ndarray:
    """The array at an address of which the runtime makes no copy."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _largest(values: np.ndarray) -> float:
    """The largest finite absolute value, or zero."""
    size = np.abs(values.astype(np.complex128 if values.dtype.kind == "c" else np.float64))
    return float(np.max(size, initial=0.0, where=np.isfinite(size)))


def main() -> None:
    folder, name, how = sys.argv[1:]
    target = find(name)
    with tempfile.TemporaryDirectory(prefix="edgec-operators-") as scratch:
        for line in sys.stdin:
            made = Made(Path(folder), line.strip())
            without = how.removeprefix("without:") if how.startswith("without:") else None
            outcome, reason = _check(
                made,
                target,
                plain=how == "plain",
                folder=Path(scratch),
                disabled=() if without is None else (without,),
                beside=how == "drivers",
            )
            print(json.dumps({"outcome": outcome.value, "reason": reason}), flush=True)


if __name__ == "__main__":
    main()
