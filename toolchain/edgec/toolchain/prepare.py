"""A program's bytes to the compiler's input: parse, edgec's passes, write.

This is what runs in a process of its own (`isolate`): the bindings may die on a damaged file.
"""

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.runtime.errors import ProgramError
from edgec.runtime.files import read_bytes, write_atomically
from edgec.runtime.kernel_share import KernelShare
from edgec.targets import Backend, Target
from edgec.toolchain.describe import describe, operations
from edgec.toolchain.diagnostics import explain_unreadable, messages, shorten
from edgec.toolchain.early_refusals import (
    refuse_calls,
    refuse_doubles,
    refuse_half_types,
    refuse_operations,
)
from edgec.toolchain.ir.bytes import holds_bytes
from edgec.toolchain.kernels.spec import Declined, Kernel
from edgec.toolchain.match.validation import Validation, validating
from edgec.toolchain.passes import Pass, Situation, passes_for
from edgec.toolchain.passes.simplify.half_precision import HalfPrecision
from edgec.toolchain.precision import F32, Integers, Precision
from edgec.toolchain.program import Dialect, ProgramInfo
from edgec.toolchain.settings import Settings
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["Prepared", "describe_file", "prepare_file"]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What `prepare_file` did.

    Attributes:
        seconds: how long reading, each pass and writing took, by name.
        changes: in how many places each pass changed the program, by name; only those that ran.
        least_precise: `bf16` or `f16` if the program multiplies matrices in it; else empty.
        validated: how many matches of each kind agree with their operations, if that was asked for.
        unvalidated: why other matches were not compared.
        kernels: what share of the work edgec's own kernels do; None for another dialect.
        tiled: how many kernels there are of each key that a tile is chosen by.
        notes: what became of kernels of the user's own, and what passes remarked.
        roomy: whether a kernel takes more memory during a call than a plainer one.
        bytes: whether kernels may hold elements of a byte or less, on devices where that matters.
    """

    seconds: Mapping[str, float]
    changes: Mapping[str, int]
    least_precise: str
    validated: Mapping[str, int]
    unvalidated: tuple[str, ...]
    kernels: KernelShare | None
    tiled: Mapping[str, int]
    notes: tuple[str, ...] = ()
    roomy: bool = False
    bytes: bool = False


def _tiled(situation: Situation) -> dict[str, int]:
    outcomes = [answer.outcome for answer in situation.answers]
    return dict(Counter(each.key for each in outcomes if isinstance(each, Kernel) and each.key))


def _own_notes(situation: Situation) -> Iterator[str]:
    """What became of the user's own kernels, once each."""
    said = dict.fromkeys(
        (each.what, each.outcome)
        for each in situation.answers
        if each.operation == "stablehlo.composite"
    )
    for what, outcome in said:
        if isinstance(outcome, Declined):
            yield f"{what}: not used: {outcome.reason}"
        else:
            yield f"{what}: in its place" + (f", by {outcome.by}" if outcome.by else "")


def _dialect_note(info: ProgramInfo, module: Any) -> Iterator[str]:
    """Why passes mend nothing and place no kernel in a program that is not in StableHLO."""
    if info.dialect is Dialect.STABLEHLO:
        return
    why = info.kept
    if not why:
        prefix = f"{info.dialect.value}."
        names = (op.name for op in operations(module))
        first = next((name for name in names if name.startswith(prefix)), "")
        why = f"its first operation there is {first}" if first else "it has none of StableHLO's"
    yield (
        f"the program is in the {info.dialect.value} dialect, in which edgec mends nothing that "
        f"the compiler is known to get wrong, and no kernel of edgec's own is placed: {why}"
    )


def describe_file(path: Path) -> ProgramInfo:
    """What the program at `path` is; its bytes are parsed, nothing is rewritten.

    Raises:
        FileError: it cannot be read.
        ProgramError: it is no MLIR that the compiler can read, or has no functions.
    """
    from iree.compiler import ir

    return describe(_parse(read_bytes(path), ir.Context()), str(path))


def prepare_file(
    source: Path,
    output: Path,
    info: ProgramInfo,
    facts: Mapping[str, Any],
    target: Target,
    settings: Settings,
    *,
    integers: Integers = Integers.DECLARED,
    spares: bool = False,
    validate: bool = False,
    f32: F32 = F32.FULL,
    precision: Precision = Precision.DECLARED,
    golden: Mapping[str, str] | None = None,
    identity: str = "",
) -> Prepared:
    """Run edgec's passes on `source` and write `output`, MLIR bytecode with its locations.

    Args:
        source: the program file.
        output: the compiler's input.
        info: the program's description.
        facts: the JSON of the module's facts, without its check.
        target: the device it is for.
        settings: its level, the passes to leave out, and how kernels are cut.
        integers: how 64-bit integers are computed.
        spares: do without kernels that take more memory than plain ones.
        f32: how products of f32 are computed, where the device has a choice.
        precision: what the program computes in.
        golden: the golden calls that the module brings, by the coarsest type that its products
            may be computed in (empty: none coarser than declared); without it it brings none.
        identity: which language model it is, where it is one.
        validate: compare each match with the operations it was read from (`match.description`).

    Raises:
        FileError: a file cannot be read or written.
        ProgramError: the code is damaged or does not fit its description.
        CompileError: no target runs one of its operations, or a match means something else.
        UsageError: `settings.disabled` names no pass, or one that cannot be left out.
    """
    from iree.compiler import ir

    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = work()
        seconds[name] = time.perf_counter() - start
        return result

    data = read_bytes(source)
    module = timed("parse", lambda: _parse(data, ir.Context()))
    situation = Situation(
        info=info,
        facts=facts,
        module=module,
        target=target,
        settings=settings,
        integers=integers,
        spares=spares,
        f32=f32,
        precision=precision,
        golden=golden or {},
        identity=identity,
    )
    if situation.is_stablehlo:
        refuse_operations(module, info.joined)
    least_precise = situation.declared_precision
    changes: dict[str, int] = {}
    with contextlib.ExitStack() as stack:
        compared = Validation()
        if validate:
            stack.enter_context(validating(compared))
        for step in passes_for(situation, settings.disabled):
            changes[step.name] = timed(step.name, functools.partial(run_pass, step, module))
            situation.changed()
    keeps_halves = precision is Precision.F16 and target.backend is Backend.CPU
    if changes.get(HalfPrecision.name) or keeps_halves:
        least_precise = least_precise or precision.value
    if situation.is_stablehlo:
        refuse_calls(module)
        refuse_doubles(module, target)
        refuse_half_types(module, target)
    with module.context, write_atomically(output) as stream:
        timed("write", lambda: module.operation.write_bytecode(stream))
    return Prepared(
        seconds=seconds,
        changes=changes,
        least_precise=least_precise,
        validated=compared.same,
        unvalidated=tuple(compared.left),
        kernels=situation.kernels,
        tiled=_tiled(situation),
        notes=(*_dialect_note(info, module), *_own_notes(situation), *situation.remarks),
        roomy=any(isinstance(a.outcome, Kernel) and a.outcome.roomy for a in situation.answers),
        bytes=target.gpu is not None and target.gpu.words and holds_bytes(module),
    )


def _parse(data: bytes, context: Any) -> Any:
    try:
        return parse_stablehlo(data, context)
    except ProgramError as error:
        raise explain_unreadable(data) or error from error


def run_pass(step: Pass, module: Any) -> int:
    """Run one pass and verify the module after it; in how many places it changed.

    Raises:
        ProgramError: the pass refused the program, or left code that does not verify.
    """
    from iree.compiler import ir

    try:
        result = step.run(module)
        module.operation.verify()
    except ir.MLIRError as error:
        said = next(iter(messages(str(error))), None)
        raise ProgramError(
            f"the pass {step.name} cannot rewrite the program: "
            f"{shorten(said.text if said else str(error))}",
            where=next(iter(said.places), None) if said else None,
            hint=f"leave it out with --disable-pass={step.name}",
        ) from error
    return result
