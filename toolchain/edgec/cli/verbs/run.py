"""`edgec run`: a module and inputs to outputs, compared with what is expected."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.options import (
    DeviceOption,
    FunctionOption,
    InputOption,
    KeyOption,
    ModuleArgument,
    OnOption,
    WeightsOption,
)
from edgec.cli.report import Block, Report
from edgec.cli.session import Session
from edgec.runtime.errors import InputError, UsageError

if TYPE_CHECKING:
    import numpy as np

    from edgec.cli.calling import Called
    from edgec.cli.calls import Calls
    from edgec.cli.expected import Checked
    from edgec.runtime import Module
    from edgec.runtime.signature import Signature

__all__ = ["run"]


def run(
    session: Session,
    module: ModuleArgument,
    device: DeviceOption = None,
    function: FunctionOption = None,
    input: InputOption = None,
    expected: Annotated[
        list[str] | None,
        typer.Option(
            "--expected",
            metavar="[NAME=]VALUE",
            help="What an output should be, like --input; integer labels against scores compare "
            "the largest score; repeatable.",
            show_default=False,
        ),
    ] = None,
    atol: Annotated[
        float | None,
        typer.Option(
            "--atol",
            help="Largest absolute error allowed (default: by element type).",
            show_default=False,
        ),
    ] = None,
    rtol: Annotated[
        float | None,
        typer.Option(
            "--rtol",
            help="Largest error relative to the expected value, on top of --atol.",
            show_default=False,
        ),
    ] = None,
    share: Annotated[
        float, typer.Option("--share", help="The part of the labels that must agree, 0 to 1.")
    ] = 1.0,
    each: Annotated[
        bool,
        typer.Option("--each", help="One call for each row of the inputs, state carried on."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the outputs by name (.npz; .npy for a single one).",
            show_default=False,
        ),
    ] = None,
    weights: WeightsOption = None,
    key: KeyOption = None,
    on: OnOption = None,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove",
            help="Make the golden calls that the module brings (`compile --embed-golden`), and "
            "compare; a package's folder will do, too.",
        ),
    ] = False,
    verdicts: Annotated[
        Path | None,
        typer.Option(
            "--verdicts",
            metavar="FILE",
            help="With --prove: keep what came of it here, and call only where it is not known.",
            show_default=False,
        ),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            "--devices",
            metavar="URI,URI…",
            help="Of a folder that `compile --mesh` made: a device for each of the mesh, in its "
            "order; without inputs they prove the golden answers.",
            show_default=False,
            rich_help_panel="Several devices",
        ),
    ] = None,
    simulate: Annotated[
        int | None,
        typer.Option(
            "--simulate",
            metavar="N",
            help="Of such a folder: one device does the work of all N, in turns.",
            show_default=False,
            rich_help_panel="Several devices",
        ),
    ] = None,
    processes: Annotated[
        bool,
        typer.Option(
            "--processes",
            help="With --devices: each device has a process of its own, as torchrun starts them.",
            rich_help_panel="Several devices",
        ),
    ] = False,
) -> Report:
    """Call a function of a module, print what it gives, and compare it with what is expected."""
    from edgec.cli.bind_inputs import bind, golden_call
    from edgec.cli.calling import call_here, call_there
    from edgec.cli.calls import input_slots, join, output_slots, split
    from edgec.cli.expected import check_outputs
    from edgec.cli.folders import make_place
    from edgec.cli.input_spec import parse_input
    from edgec.cli.mesh_programs import run_on_devices
    from edgec.cli.proved import prove_here, refuse_others
    from edgec.cli.results import check_results_path, save_results
    from edgec.cli.signatures import choose, example_command
    from edgec.cli.signed import read_signed
    from edgec.cli.split_programs import run_split
    from edgec.runtime.mesh.folder import is_mesh
    from edgec.runtime.split import is_split

    if is_mesh(module) or is_split(module):
        _refuse_on_several(
            on=on is not None,
            weights=weights is not None,
            prove=prove,
            atol=atol is not None,
            rtol=rtol is not None,
            share=share != 1.0,
            key=key is not None,
        )
        if is_split(module):
            _refuse_on_several(
                devices=devices is not None,
                simulate=simulate is not None,
                processes=processes,
                device=device is not None,
                function=function is not None,
            )
            return run_split(
                session,
                module,
                inputs=input or (),
                expected=expected or (),
                each=each,
                output=output,
            )
        return run_on_devices(
            session,
            module,
            devices=devices,
            simulate=simulate,
            processes=processes,
            device=device,
            function=function,
            inputs=input or (),
            expected=expected or (),
            each=each,
            output=output,
        )
    if devices is not None or simulate is not None or processes:
        raise UsageError(
            f"{module} is for one device",
            hint="--devices, --simulate and --processes are for folders of `edgec compile --mesh`",
        )
    if prove:
        refuse_others(
            function=function is not None,
            input=bool(input),
            expected=bool(expected),
            each=each,
            output=output is not None,
            on=on is not None,
        )
        return prove_here(
            session, module, device=device, weights=weights, verdicts=verdicts, key=key
        )
    if verdicts is not None:
        raise UsageError("--verdicts is for --prove", hint="add --prove, or leave it out")
    read = read_signed(module, key, weights, leaves=on is not None)
    signature = choose(read, function)
    inputs = [parse_input(text) for text in input or ()]
    answers = [parse_input(text) for text in expected or ()]
    _refuse_without_meaning(atol, rtol, share, expected=bool(answers))
    if signature.inputs and not inputs:
        raise InputError(
            f"{signature.name} needs inputs: {signature}",
            hint=f"for example {example_command('run', read, signature)}",
        )
    if output is not None:
        check_results_path(output, len(signature.outputs))
        make_place(output)
    arrays = bind(inputs, input_slots(signature, each=each))
    calls = split(session, signature, arrays, each=each)
    slots = output_slots(signature, rows=calls.rows)
    wanted = bind(answers, slots)
    golden = next((call for text in answers if (call := golden_call(text, slots))), None)
    if on is None:
        called = call_here(session, read, signature, calls, device=device, weights=weights)
    else:
        called = call_there(session, read, signature, calls, on=on, device=device, weights=weights)
    outputs = [
        join(calls, spec, [result[index] for result in called.results])
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
        absolute=atol,
        relative=rtol,
        share=share,
        golden=golden,
    )
    session.detail(f"{len(called.results)} calls in {called.seconds:.6f} s, the first included")
    return _report(read, signature, calls, called, outputs, checked)


def _refuse_on_several(**given: bool) -> None:
    flags = [f"--{name}" for name, there in given.items() if there]
    if flags:
        raise UsageError(
            f"a program for several devices takes no {', '.join(flags)}",
            hint="it is proved by its golden answers where no --input is given",
        )


def _refuse_without_meaning(
    atol: float | None, rtol: float | None, share: float, *, expected: bool
) -> None:
    if expected:
        return
    if atol is not None or rtol is not None or share != 1.0:
        raise UsageError(
            "--atol, --rtol and --share say how to compare, and nothing is expected",
            hint="add --expected",
        )


def _report(
    module: "Module",
    signature: "Signature",
    calls: "Calls",
    called: "Called",
    outputs: Sequence["np.ndarray"],
    checked: Sequence["Checked"],
) -> Report:
    from edgec.cli.expected import failure, grid
    from edgec.cli.results import result_json, result_text

    specs = signature.outputs
    blocks: list[Block] = [
        result_text(spec, array) for spec, array in zip(specs, outputs, strict=True)
    ]
    if checked:
        blocks.append(grid(checked))
    data: Mapping[str, object] = {
        "module": module.path,
        "function": signature.name,
        "device": called.device,
        "calls": len(calls.inputs),
        "seconds": called.seconds,
        "outputs": [result_json(spec, array) for spec, array in zip(specs, outputs, strict=True)],
        "comparisons": [c.to_json() for c in checked],
        "on": None if called.place is None else called.place.to_json(),
    }
    where = called.device if called.place is None else called.place.name
    return Report(
        data=data, blocks=tuple(blocks), error=failure(checked, f"{module.path} on {where}")
    )
