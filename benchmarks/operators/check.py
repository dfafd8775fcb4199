"""A made case compiled for a target, run there and compared. One process, without JAX.

python -m benchmarks.operators.check FOLDER TARGET edgec|plain|module|without:PASS

Keys come from stdin, a line for each. What edgec compiled runs on edgert's driver, and the very
same module on IREE's, too: what became of it there is told beside, and whether the bits are the
same. What the compiler alone made runs on IREE's driver. `module` only compiles, into
the case's folder, for `benchmarks.operators.elsewhere`.
"""

import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from benchmarks.operators.answers import RIGHT, Outcome, Stop, run_module, said, short
from benchmarks.operators.make import Made, load_made
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

_COMPILE_LIMIT = 60.0
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


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """What became of a case.

    Attributes:
        here: on the driver that counts.
        iree: on IREE's driver, beside edgert's; None where no module was made, or that one counts.
        same: whether both drivers gave the same bits of one module.
    """

    here: Stop
    iree: Stop | None = None
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
        return _Ended(here=Stop(outcome=Outcome.OUTSIDE, reason="the device has no 64-bit floats"))
    refused = note["plain_refused" if plain else "refused"]
    if refused:
        return _Ended(here=Stop(outcome=Outcome.REFUSED, reason=refused))
    tries = (Integers.DECLARED,) if plain or target.limits.i64 else tuple(Integers)
    ends: list[_Ended] = []
    module = folder / "case.vmfb"
    for integers in tries:
        try:
            if plain:
                _compile(made.plain, module, target, _plain_flags(target))
            elif not _prepared(made, module, target, integers, disabled=disabled):
                continue
        except Stop as stop:
            ends.append(_Ended(here=stop))
            continue
        other, its_bits = run_module(module, _IREE[target.backend], inputs, expected, note)
        if plain:
            return _Ended(here=other)
        here, bits = run_module(module, _EDGERT[target.backend], inputs, expected, note)
        ends.append(_Ended(here=here, iree=other, same=bool(bits) and bits == its_bits))
        if here is RIGHT:
            break
    # What is right on either driver counts for it, in whichever way its integers were compiled.
    best = next((end for end in ends if end.here is RIGHT), ends[0])
    iree = next((end.iree for end in ends if end.iree is RIGHT), best.iree)
    return _Ended(here=best.here, iree=iree, same=best.same)


def _module(made: Made, target: Target) -> _Ended:
    """A case's module beside it, or why there is none."""
    note, _, _ = load_made(made)
    made.module.unlink(missing_ok=True)
    if note["refused"]:
        return _Ended(here=Stop(outcome=Outcome.REFUSED, reason=note["refused"]))
    try:
        _prepared(made, made.module, target, Integers.DECLARED, disabled=())
    except Stop as stop:
        return _Ended(here=stop)
    return _Ended(here=Stop(outcome=Outcome.COMPILED))


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
        raise Stop(outcome=Outcome.REFUSED, reason=error.what) from error
    if integers.pass_name and not done.changes.get(integers.pass_name):
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
        raise Stop(outcome=Outcome.TIMEOUT, reason=f"compiler: over {_COMPILE_LIMIT:.0f} s")
    if _died(finished):
        said = re.search(r"(?:Assertion|LLVM ERROR:|UNREACHABLE).*", finished.stderr)
        raise Stop(outcome=Outcome.CRASH, reason=said[0] if said else f"signal {-finished.code}")
    if finished.code != 0:
        texts = [message.text for message in diagnostics.messages(finished.stderr)]
        known = diagnostics.explain(finished, target, None).what
        raise Stop(outcome=Outcome.FAILED, reason=f"{short(texts[0] if texts else '')} ({known})")


def _died(finished: Finished) -> bool:
    return not finished.timed_out and (finished.code < 0 or "Stack dump" in finished.stderr)


def main() -> None:
    folder, name, how = sys.argv[1:]
    target = find(name)
    with tempfile.TemporaryDirectory(prefix="edgec-operators-") as scratch:
        for line in sys.stdin:
            made = Made(Path(folder), line.strip())
            without = how.removeprefix("without:") if how.startswith("without:") else None
            disabled = () if without is None else (without,)
            plain = how == "plain"
            ended = (
                _module(made, target)
                if how == "module"
                else _check(made, target, plain=plain, folder=Path(scratch), disabled=disabled)
            )
            answer = {
                "outcome": ended.here.outcome.value,
                "reason": ended.here.reason,
                "iree": said(ended.iree),
                "same": ended.same,
            }
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
