"""A made case compiled for a target, run there and compared. One process, without JAX.

python -m benchmarks.operators.check FOLDER TARGET edgec|plain|without:PASS

Keys come from stdin, a line for each. What edgec compiled runs on edgert's driver, and the very
same module on IREE's, too: what became of it there is told beside, and whether the bits are the
same. What the compiler alone made runs on IREE's driver.
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
from edgec.toolchain.flags import (
    command_line,
    compile_flags,
    without_evaluation,
    without_tiling,
)
from edgec.toolchain.precision import Integers
from edgec.toolchain.prepare import describe_file, prepare_file
from edgec.toolchain.process import Finished, compiler_path, compiler_version, run_compiler
from edgec.toolchain.settings import Settings

__all__ = ["Outcome"]

_COMPILE_LIMIT = 60.0
_TOLERANCES = {
    DType.F16: 1e-2,
    DType.BF16: 5e-2,
    DType.F32: 1e-4,
    DType.F64: 1e-8,
    DType.C64: 1e-4,
    DType.C128: 1e-8,
}
"""What an answer may be off by, as a part of its size and of how far the answers lie apart.

The second is for what terms lose that cancel each other. All others are exact.
"""
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
_IREE = {Backend.CPU: "local-sync", Backend.VULKAN: "vulkan"}
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
    reason: str = ""


_RIGHT = _Stop(outcome=Outcome.RIGHT)


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """What became of a case.

    Attributes:
        here: on the driver that counts.
        iree: on IREE's driver, beside edgert's; None where no module was made, or that one counts.
        same: whether both drivers gave the same bits of one module.
    """

    here: _Stop
    iree: _Stop | None = None
    same: bool = False


def _check(
    made: Made,
    target: Target,
    *,
    plain: bool,
    folder: Path,
    disabled: Sequence[str] = (),
) -> _Ended:
    """What became of a case: the first of its modules that is right, or why the first was not."""
    note, inputs, expected = load_made(made)
    if not target.limits.f64 and any(
        k in ("f64", "c128") for k in note["inputs"] + note["outputs"]
    ):
        return _Ended(here=_Stop(outcome=Outcome.OUTSIDE, reason="the device has no 64-bit floats"))
    refused = note["plain_refused" if plain else "refused"]
    if refused:
        return _Ended(here=_Stop(outcome=Outcome.REFUSED, reason=refused))
    tries = (Integers.DECLARED,) if plain or target.limits.i64 else tuple(Integers)
    ends: list[_Ended] = []
    module = folder / "case.vmfb"
    for integers in tries:
        try:
            if plain:
                _compile(made.plain, module, target, _plain_flags(target))
            elif not _prepared(made, module, target, integers, disabled=disabled):
                continue
        except _Stop as stop:
            ends.append(_Ended(here=stop))
            continue
        other, its_bits = _run(module, _IREE[target.backend], inputs, expected, note)
        if plain:
            return _Ended(here=other)
        here, bits = _run(module, _EDGERT[target.backend], inputs, expected, note)
        ends.append(_Ended(here=here, iree=other, same=bool(bits) and bits == its_bits))
        if here is _RIGHT:
            break
    # What is right on either driver counts for it, in whichever way its integers were compiled.
    best = next((end for end in ends if end.here is _RIGHT), ends[0])
    iree = next((end.iree for end in ends if end.iree is _RIGHT), best.iree)
    return _Ended(here=best.here, iree=iree, same=best.same)


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
    plainer = None
    if _died(finished):
        plainer = without_tiling(line)
    elif finished.code:
        plainer = without_evaluation(line, finished.stderr)
    if plainer is not None:
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


def _run(
    module: Path,
    device: str,
    inputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    note: Mapping[str, Any],
) -> tuple[_Stop, list[tuple[np.dtype, tuple[int, ...], bytes]]]:
    """Run the module on a driver: what became of it, and the bits where they are right."""
    try:
        outputs = _compared(module, device, inputs, expected, note)
    except _Stop as stop:
        return stop, []
    return _RIGHT, [(a.dtype, a.shape, a.tobytes()) for a in outputs]


_CALLS = 3
"""Of each module: what a call leaves behind must not change the answers of the next."""


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
            outputs, *later = (
                [np.array(array.numpy()) for array in loaded["main"].call_flat(given)]
                for _ in range(_CALLS)
            )
    except EdgecError as error:
        raise _Stop(outcome=Outcome.FAILED, reason=f"run: {error.what}") from error
    if any(a.tobytes() != b.tobytes() for a, b in zip(given, inputs, strict=True)):
        raise _Stop(outcome=Outcome.WRONG, reason="the caller's array was changed")
    for actual, right in zip(outputs, expected, strict=True):
        if actual.dtype != right.dtype:
            reason = f"the type is {actual.dtype} and should be {right.dtype}"
            raise _Stop(outcome=Outcome.WRONG, reason=reason)
        kind = DType.of(right.dtype)
        part = _TOLERANCES.get(kind, 0.0) * note["slack"]
        tolerance = Tolerance(absolute=Tolerance.of(kind).absolute, relative=part, spread=part)
        result = compare(actual, right, tolerance)
        if not result.ok:
            raise _Stop(outcome=Outcome.WRONG, reason=result.problem)
    for again in later:
        if any(a.tobytes() != b.tobytes() for a, b in zip(again, outputs, strict=True)):
            raise _Stop(outcome=Outcome.WRONG, reason="another answer at a later call")
    return outputs


def _shared(array: np.ndarray) -> np.ndarray:
    """The array at an address of which the runtime makes no copy."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def main() -> None:
    folder, name, how = sys.argv[1:]
    target = find(name)
    with tempfile.TemporaryDirectory(prefix="edgec-operators-") as scratch:
        for line in sys.stdin:
            made = Made(Path(folder), line.strip())
            without = how.removeprefix("without:") if how.startswith("without:") else None
            ended = _check(
                made,
                target,
                plain=how == "plain",
                folder=Path(scratch),
                disabled=() if without is None else (without,),
            )
            answer = {
                "outcome": ended.here.outcome.value,
                "reason": ended.here.reason,
                "iree": _said(ended.iree),
                "same": ended.same,
            }
            print(json.dumps(answer), flush=True)


def _said(end: _Stop | None) -> str:
    if end is None or end is _RIGHT:
        return "" if end is None else Outcome.RIGHT.value
    return f"{end.outcome.value} ({_short(end.reason)})"


if __name__ == "__main__":
    main()
