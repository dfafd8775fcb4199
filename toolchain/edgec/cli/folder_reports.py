"""What a folder for several devices gave as a report: golden calls, or the user's own."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgec.cli.report import Block, Grid, Report
from edgec.cli.session import Session
from edgec.runtime.errors import InputError, WrongAnswer

if TYPE_CHECKING:
    from edgec.runtime import Golden, GoldenResult
    from edgec.runtime.signature import Signature

__all__ = ["called_report", "proved_report"]


def called_report(
    session: Session,
    path: Path,
    signature: "Signature",
    function: Callable[[Sequence[Sequence[np.ndarray]]], Sequence[Sequence[np.ndarray]]],
    *,
    inputs: Sequence[str],
    expected: Sequence[str],
    each: bool,
    output: Path | None,
    where: str,
    about: Mapping[str, object],
) -> Report:
    """Calls with the user's inputs: one, or with `each` one for each row of them.

    Args:
        session: whom notes go to.
        path: the folder, for messages.
        signature: the function's.
        function: flat inputs of all calls to flat outputs of each.
        inputs: `--input`.
        expected: `--expected`.
        each: `--each`.
        output: where the outputs go.
        where: the report's first line.
        about: what else its data holds.

    Raises:
        InputError: an input is missing or does not fit.
        And what a call raises.
    """
    from edgec.cli.bind_inputs import bind
    from edgec.cli.calls import input_slots, join, output_slots, split
    from edgec.cli.expected import check_outputs, failure, grid
    from edgec.cli.input_spec import parse_input
    from edgec.cli.results import check_results_path, result_json, result_text, save_results

    if output is not None:
        check_results_path(output, len(signature.outputs))
    given = bind([parse_input(text) for text in inputs], input_slots(signature, each=each))
    calls = split(session, signature, given, each=each)
    slots = output_slots(signature, rows=calls.rows)
    wanted = bind([parse_input(text) for text in expected], slots)
    start = time.perf_counter()
    made = function(calls.inputs)
    seconds = time.perf_counter() - start
    outputs = [
        join(calls, spec, [result[index] for result in made])
        for index, spec in enumerate(signature.outputs)
    ]
    if output is not None:
        save_results(output, signature.outputs, outputs)
        session.say(f"wrote {output}")
    checked = check_outputs(
        session,
        signature.outputs,
        outputs,
        wanted,
        absolute=None,
        relative=None,
        share=1.0,
        golden=None,
    )
    specs = signature.outputs
    blocks: list[Block] = [where]
    blocks += [result_text(spec, array) for spec, array in zip(specs, outputs, strict=True)]
    if checked:
        blocks.append(grid(checked))
    data = {
        **about,
        "function": signature.name,
        "calls": len(calls.inputs),
        "seconds": seconds,
        "outputs": [result_json(spec, array) for spec, array in zip(specs, outputs, strict=True)],
        "comparisons": [c.to_json() for c in checked],
    }
    return Report(data=data, blocks=tuple(blocks), error=failure(checked, str(path)))


def proved_report(
    path: Path,
    check: Callable[["Golden"], "GoldenResult"],
    where: str,
    about: Mapping[str, object],
) -> Report:
    """The golden calls of the whole program, and how the devices' answers compare.

    Args:
        path: the folder.
        check: makes the calls.
        where: the report's first line.
        about: what else its data holds.

    Raises:
        InputError: the folder has no golden answers.
        DeviceError: a device failed.
    """
    from edgec.meshing.making import golden_of

    golden = golden_of(path)
    if golden is None:
        raise InputError(
            f"{path} needs inputs: it has no golden answers to prove it by",
            hint="give --input for each of its inputs",
        )
    start = time.perf_counter()
    result = check(golden)
    seconds = time.perf_counter() - start
    rows = tuple(
        (call.signature, name, "ok" if o.ok else "WRONG", f"{o.max_abs:.1e}", f"{o.max_rel:.1e}")
        for call in result.calls
        for name, o in zip(call.names, call.outputs, strict=True)
    )
    blocks: tuple[Block, ...] = (
        where,
        Grid(
            columns=("function", "output", "", "max abs err", "max rel err"),
            rows=rows,
            right=frozenset({3, 4}),
        ),
    )
    error = None
    if not result.ok and result.worst is not None:
        name, spec, comparison = result.worst
        error = WrongAnswer(
            f"{path}: {spec} of {name}: {comparison.problem}",
            hint="`edgec compile` for one device says whether the modules together are at fault",
        )
    data = {**about, "seconds": seconds, "golden": result.to_json()}
    return Report(data=data, blocks=blocks, error=error)
