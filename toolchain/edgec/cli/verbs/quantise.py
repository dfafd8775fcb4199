"""`edgec quantise`: a program to one whose weights are integers."""

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgec.cli.given import check_program_name
from edgec.cli.options import complete_target
from edgec.cli.report import Block, Grid, Report
from edgec.cli.rounding import part_of
from edgec.cli.session import Session
from edgec.runtime.errors import UsageError

if TYPE_CHECKING:
    from edgec.quantising import Clock, Line, Quantised, Scheme
    from edgec.runtime.golden import GoldenCall
    from edgec.toolchain import Program

__all__ = ["quantise"]

_NONE = "none"


def quantise(
    session: Session,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="PROGRAM", help="A program that `edgec export` wrote.", show_default=False
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The new program.", show_default=False),
    ],
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="HOW",
            show_default=False,
            help="int8 or int4, with a scale for each output (of a table each row), or for each "
            "group of neighbours: int4-g32, int4-g64, int4-g128; or auto: each line's in as few "
            "bits as --max-error allows (1% without it); or lossless: weights that came in blocks "
            "(GGUF) go back into them; or none: as they are, where the cache alone is rounded "
            "(default: int8; none with --cache alone).",
        ),
    ] = None,
    scales: Annotated[
        str,
        typer.Option(
            "--scales",
            metavar="TYPE",
            help="What scales of groups are: f16, or f32 for targets that convert no f16 (wasm).",
        ),
    ] = "f16",
    activations: Annotated[
        str,
        typer.Option(
            "--activations",
            metavar="none|int8|int8-dynamic",
            help="What weights are multiplied with: floats; bytes whose ranges are those of some "
            "calls (convolutions and products, --weights=int8); or bytes whose ranges are found "
            "at every call, row by row (weights in blocks).",
        ),
    ] = "none",
    cache: Annotated[
        str | None,
        typer.Option(
            "--cache",
            metavar="f16",
            help="What a language model's keys and values are kept as, and other states that "
            "calls write into place by place: f16 takes half the memory (default: as they are).",
            show_default=False,
        ),
    ] = None,
    calibrate: Annotated[
        str | None,
        typer.Option(
            "--calibrate",
            metavar="@FILE.npz",
            help="Inputs by name, one behind the other along a first axis: their values say what "
            "bytes of activations stand for (default: the golden calls).",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="LINE",
            help="Weights that stay as they are: a line as the table names it, or a weight's "
            "name; repeatable.",
            show_default=False,
        ),
    ] = None,
    calls: Annotated[
        int,
        typer.Option(
            "--calls",
            metavar="N",
            min=1,
            help="How many golden calls, from the first on, errors are measured on.",
        ),
    ] = 32,
    max_error: Annotated[
        str | None,
        typer.Option(
            "--max-error",
            metavar="PART",
            help="Refuse if the answers are off by more than this part of their spread: 1% or "
            "0.01.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="NAME",
            help="Time a call as a module for this target, whose device must be here: of the "
            "program before and after, and of each choice of --weights=auto.",
            autocompletion=complete_target,
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="URI",
            help="Where to time it: cpu?threads=1, vulkan://1 … (default: the target's).",
            show_default=False,
        ),
    ] = None,
) -> Report:
    """Keep a program's weights in 8 or 4 bits, or its cache in 16, and say what that costs."""
    from edgec.cli.folders import make_place
    from edgec.cli.program_files import refuse_all_but_programs
    from edgec.quantising import (
        AUTO,
        LOSSLESS,
        MOST,
        Scheme,
        quantise_by_choice,
        quantise_cache,
        quantise_to_bytes,
        quantise_with_rounded_rows,
        with_weights_as_they_are,
    )
    from edgec.quantising import quantise as rounded
    from edgec.toolchain import load_program
    from edgec.toolchain.weights_file import write_weights

    refuse_all_but_programs(source)
    if cache not in (None, "f16"):
        raise UsageError(f"a cache is not kept as {cache}", hint="say --cache=f16, or leave it out")
    weights = weights or ("int8" if cache is None or activations != "none" else _NONE)
    if weights == _NONE and (cache is None or activations != "none"):
        raise UsageError(
            "with --weights=none there is nothing to round but a cache",
            hint="say --cache=f16 alone, or how weights are kept: --weights=int8",
        )
    chooses = weights == AUTO
    scheme = None if chooses or weights in (LOSSLESS, _NONE) else Scheme.parse(weights)
    if scales not in ("f16", "f32"):
        raise UsageError(f"scales are not kept as {scales}", hint="say f16 or f32")
    _check_activations(activations, scheme, calibrate)
    if chooses and activations != "none":
        raise UsageError(
            "--weights=auto chooses among weights that are multiplied as floats",
            hint="say --weights=int8 with --activations=int8, or leave --activations out",
        )
    most = part_of(max_error) if max_error else MOST if chooses else math.inf
    check_program_name(output)
    if source.resolve() == output.resolve():
        raise UsageError(f"{source} would be written over itself", hint="name another file with -o")
    clock = _clock(target, device)
    make_place(output)
    program = load_program(source)
    if program.golden is not None and len(program.golden.calls) > calls:
        total = len(program.golden.calls)
        session.note(f"errors are of the first {calls} of {total} golden calls (--calls)")
    file = Path(f"{output.stem}.safetensors")
    outside = None if program.info.weights is None else file
    if weights == _NONE:
        found = with_weights_as_they_are(program, outside)
    elif activations == "int8":
        found = quantise_to_bytes(
            program,
            keep=tuple(keep or ()),
            max_error=most,
            calibrate=() if calibrate is None else _calibration(program, calibrate),
            calls=calls,
            tell=session.say,
        )
    else:
        by_scheme = rounded if activations == "none" else quantise_with_rounded_rows
        by_choice = partial(quantise_by_choice, clock=clock)
        found = (by_choice if chooses else partial(by_scheme, scheme=scheme))(
            program,
            keep=tuple(keep or ()),
            max_error=most,
            weights_file=outside,
            calls=calls,
            halves=scales == "f16",
            tell=session.say,
        )
    if cache is not None:
        found = quantise_cache(found, program, max_error=most, calls=calls, tell=session.say)
    if found.weights:
        write_weights(found.weights, output.parent / file)
    saved = found.program.save(output)
    rounds = weights not in (LOSSLESS, _NONE) or activations != "none"
    if program.info.text is not None and rounds:
        session.note(
            "a language model rounded so writes other words than the original from some token on, "
            "soonest with --activations=int8-dynamic: compare answers before you ship it "
            "(docs/quantise.md#bytes-on-both-sides)"
        )
    measured = found.program.golden
    if found.lines and measured is not None and found.calls < len(measured.calls):
        session.note(
            f"errors of single lines are of the first {found.calls} calls, for the time they take"
        )
    return _report(
        found,
        _how(weights, activations, cache),
        output,
        [function.signature for function in saved.info.functions],
        None if clock is None else _times(session, clock, program, saved),
        None if cache is None else {"before": _of_states(program), "after": _of_states(saved)},
    )


def _of_states(program: "Program") -> int:
    """Bytes of what a program keeps between calls."""
    return sum(
        spec.dtype.numpy.itemsize * math.prod(size for size in spec.shape if isinstance(size, int))
        for spec in program.info.states
    )


def _how(weights: str, activations: str, cache: str | None) -> str:
    """What was asked for, in words."""
    more = [] if activations == "none" else [f"activations of {activations}"]
    more += [] if cache is None else [f"cache of {cache}"]
    return ", ".join(["as they are" if weights == _NONE else weights, *more])


def _clock(target: str | None, device: str | None) -> "Clock | None":
    """What times programs, if that is asked for; it is looked for before anything is computed.

    Raises:
        UsageError: there is a device and no target.
        DeviceMissing: the target's device is not here.
    """
    from edgec.quantising import Clock
    from edgec.targets import find

    if target is None:
        if device is not None:
            raise UsageError("--device says where to time a target's module", hint="add --target")
        return None
    clock = Clock(target=find(target), device=device)
    clock.find_device()
    return clock


def _times(
    session: Session, clock: "Clock", program: "Program", saved: "Program"
) -> dict[str, Any]:
    """What a call takes before and after, as JSON."""
    session.say(f"timing the program before and after on {clock.target.name}")
    return {
        "target": clock.target.name,
        "device": clock.find_device(),
        "function": clock.called(program),
        "before": clock.seconds(program),
        "after": clock.seconds(saved),
    }


def _check_activations(activations: str, scheme: "Scheme | None", calibrate: str | None) -> None:
    """Refuse options that do not go together.

    Raises:
        UsageError: they do not.
    """
    if activations not in ("none", "int8", "int8-dynamic"):
        raise UsageError(
            f"activations are not kept as {activations}",
            hint="say --activations=int8, int8-dynamic or none",
        )
    if activations == "int8" and str(scheme) != "int8":
        raise UsageError(
            "bytes of activations are multiplied with bytes of weights",
            hint="say --weights=int8 with --activations=int8; --activations=int8-dynamic goes "
            "with weights in groups",
        )
    if activations != "int8" and calibrate is not None:
        raise UsageError(
            "only activations of int8 have ranges to look for",
            hint="leave out --calibrate, or say --activations=int8",
        )


def _calibration(program: "Program", text: str) -> "tuple[GoldenCall, ...]":
    """`@data.npz` → a call for each place along the first axis of its arrays.

    Raises:
        UsageError: they do not fit the program's function.
    """
    from edgec.cli.given import arrays_of
    from edgec.runtime.golden import GoldenCall

    arrays = arrays_of("--calibrate", text)
    golden = program.golden
    signature = program.info.functions[0].signature
    if golden is None or len(program.info.functions) > 1 or program.info.states:
        raise UsageError(
            "inputs to calibrate with are for programs of one function without state",
            hint="leave out --calibrate: the golden calls serve",
        )
    names = [spec.name for spec in signature.inputs]
    counts = {len(arrays[name]) for name in names if name in arrays and arrays[name].ndim}
    if set(arrays) != set(names) or len(counts) != 1:
        raise UsageError(
            f"{text.removeprefix('@')} holds {', '.join(arrays)}, and the program takes "
            f"{', '.join(names)}",
            hint="give each input, and of all the same number along a first axis",
        )
    call = golden.calls[0]
    for spec, like in zip(signature.inputs, call.inputs, strict=True):
        if arrays[spec.name].shape[1:] != like.shape:
            raise UsageError(
                f"{spec.name} is {list(like.shape)}, and {text.removeprefix('@')} holds "
                f"{list(arrays[spec.name].shape)}",
                hint="stack inputs along a first axis: numpy.stack([one, other])",
            )
    return tuple(
        GoldenCall(
            signature=signature.name,
            inputs=tuple(
                arrays[spec.name][place].astype(like.dtype)
                for spec, like in zip(signature.inputs, call.inputs, strict=True)
            ),
            outputs=call.outputs,
        )
        for place in range(counts.pop())
    )


def _kept_as(line: "Line") -> str:
    schemes = ", ".join(map(str, line.schemes))
    return f"{schemes} by {line.activations}" if line.activations else schemes


def _report(
    found: "Quantised",
    how: str,
    output: Path,
    signatures: list[Any],
    times: dict[str, Any] | None,
    states: dict[str, int] | None,
) -> Report:
    from edgec.cli.amounts import bytes_text, seconds_text

    command = f"edgec compile {output}"
    tried = list(dict.fromkeys(name for line in found.lines for name in line.tried))
    rows = tuple(
        (
            line.where,
            line.what,
            _kept_as(line),
            bytes_text(line.before),
            bytes_text(line.after),
            "none" if line.error is None else f"{line.error:.2%}",
            *(f"{line.tried[name]:.2%}" if name in line.tried else "" for name in tried),
        )
        for line in found.lines
    )
    blocks: list[Block] = [
        f"{output}: weights {how}" if how.startswith("as") else f"{output}: weights of {how}",
        *(f"  {signature}" for signature in signatures),
        *(_lines(rows, tried) if rows else ()),
        *(f"{line.where}: {line.promoted}" for line in found.lines if line.promoted),
    ]
    if found.kept:
        kept = tuple((where, what, reason) for where, what, reason in found.kept)
        blocks += ["", Grid(columns=("left as it is", "weights", "why"), rows=kept)]
    if found.choices:
        blocks += [
            "",
            Grid(
                columns=("choice", "size", "error", *["a call"] * (times is not None), ""),
                rows=tuple(
                    (
                        each.what,
                        bytes_text(each.size),
                        f"{each.error:.2%}",
                        *(() if each.seconds is None else (seconds_text(each.seconds),)),
                        "taken" if each.taken else "",
                    )
                    for each in found.choices
                ),
                right=frozenset({1, 2, *[3] * (times is not None)}),
            ),
        ]
    blocks += [
        "",
        f"weights: {bytes_text(found.before)} before, {bytes_text(found.after)} after",
        *([] if states is None else [_states_text(states)]),
        f"error: {found.error:.2%} of the spread of the original's answers",
        *([] if times is None else [_times_text(times)]),
        f"next: {command}",
    ]
    return Report(
        data={
            "program": output,
            "weights": how,
            "error": found.error,
            "before": found.before,
            "after": found.after,
            "states": states,
            "lines": [
                {
                    "where": line.where,
                    "what": line.what,
                    "weights": _kept_as(line),
                    "before": line.before,
                    "after": line.after,
                    "error": line.error,
                    "promoted": line.promoted,
                    "tried": dict(line.tried),
                }
                for line in found.lines
            ],
            "choices": [
                {
                    "what": each.what,
                    "size": each.size,
                    "error": each.error,
                    "seconds": each.seconds,
                    "taken": each.taken,
                }
                for each in found.choices
            ],
            "times": times,
            "kept": [{"where": w, "what": what, "why": why} for w, what, why in found.kept],
            "next": command,
        },
        blocks=tuple(blocks),
    )


def _lines(rows: tuple[tuple[str, ...], ...], tried: list[str]) -> tuple[Block, ...]:
    """A table of the lines whose weights were rounded."""
    columns = ("line", "weights", "kept as", "before", "after", "error alone")
    more = tuple(f"in {name}" for name in tried)
    right = frozenset(range(3, 6 + len(tried)))
    return "", Grid(columns=(*columns, *more), rows=rows, right=right)


def _states_text(states: dict[str, int]) -> str:
    """`kept between calls: 33.9 MiB before, 17.1 MiB after`."""
    from edgec.cli.amounts import bytes_text

    before, after = bytes_text(states["before"]), bytes_text(states["after"])
    return f"kept between calls: {before} before, {after} after"


def _times_text(times: dict[str, Any]) -> str:
    """`time: 4.10 ms before, 2.05 ms after: a call of main on cpu:host`."""
    from edgec.cli.amounts import seconds_text

    before, after = seconds_text(times["before"]), seconds_text(times["after"])
    return f"time: {before} before, {after} after: a call of {times['function']}, {times['target']}"
