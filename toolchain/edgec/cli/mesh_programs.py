"""Programs for several devices on the command line: compiled into a folder, run and proved."""

import contextlib
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgec.cli.given import Exporting
from edgec.cli.report import Block, Grid, Report
from edgec.cli.session import Session
from edgec.runtime.errors import InputError, UsageError, WrongAnswer

if TYPE_CHECKING:
    from edgec.runtime import Golden, GoldenResult
    from edgec.runtime.mesh.function import MeshFunction
    from edgec.runtime.mesh.plan import Route
    from edgec.runtime.mesh.running import LoadedMesh
    from edgec.runtime.signature import Signature
    from edgec.runtime.split import LoadedSplit
    from edgec.targets import Target
    from edgec.toolchain import CompileOptions, Program

__all__ = ["compile_for_mesh", "run_on_devices", "run_split", "weights_for_mesh"]


@contextlib.contextmanager
def weights_for_mesh(exporting: Exporting) -> Iterator[Exporting]:
    """With `--mesh`, a place for the weights until each device has its part of them."""
    if exporting.mesh is None or exporting.external_weights is not None:
        yield exporting
        return
    if exporting.keep is not None:
        yield replace(exporting, external_weights=exporting.keep.with_suffix(".safetensors"))
        return
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        yield replace(exporting, external_weights=Path(folder, "weights.safetensors"))


def compile_for_mesh(
    session: Session,
    program: "Program",
    targets: Sequence["Target"],
    output: str | None,
    options: "CompileOptions",
    *,
    place: Path,
    without: Sequence[str],
) -> Report:
    """Compile a program for several devices into a folder.

    Args:
        session: whom notes go to.
        program: with a plan for a mesh.
        targets: one.
        output: the folder; None for one beside the program's `place`.
        options: how to compile.
        place: where the program is, or would be.
        without: options that were given and mean nothing here.

    Raises:
        UsageError: several targets, or such options.
        And what `edgec.meshing.compile_mesh` raises.
    """
    from edgec.cli.amounts import bytes_text
    from edgec.cli.progress import showing
    from edgec.meshing import compile_mesh

    if len(targets) != 1:
        raise UsageError(
            f"{len(targets)} targets for one program of several devices",
            hint="the devices of a mesh are alike: compile for one target at a time",
        )
    if without:
        raise UsageError(
            f"a program for several devices is compiled without {', '.join(without)}",
            hint="leave it out",
        )
    destination = place.with_suffix(".mesh") if output is None else Path(output)
    with showing(session) as progress:
        made = compile_mesh(program, targets[0], destination, replace(options, progress=progress))
    for note in (*made.compiled.report.notes, *made.notes):
        session.note(note)
    folder, plan = made.folder, made.folder.plan
    files = sorted({path for path in folder.weights if path is not None})
    command = shlex.join(["edgec", "run", str(destination), f"--simulate={plan.mesh.devices}"])
    module = folder.module.path.stat().st_size
    each = [path.stat().st_size for path in files]
    return Report(
        data={
            "folder": destination,
            "mesh": dict(plan.mesh.axes),
            "target": targets[0].name,
            "check": made.check,
            "module": module,
            "weights": [{"file": p, "size": s} for p, s in zip(files, each, strict=True)],
            "collectives": {name: len(r.collectives) for name, r in plan.routes.items()},
            "next": command,
        },
        blocks=(
            f"{destination}: {targets[0].name} on {plan.mesh.devices} devices ({plan.mesh}), "
            f"{made.check}",
            *(_route_line(route) for route in plan.routes.values()),
            f"module {bytes_text(module)}; weights of a device "
            + (bytes_text(max(each)) if each else "none"),
            f"next: {command}",
        ),
    )


def _route_line(route: "Route") -> str:
    parts = len(route.steps) - len(route.collectives)
    return f"  {route.signature}: {parts} parts, {len(route.collectives)} collectives"


def run_on_devices(
    session: Session,
    path: Path,
    *,
    devices: str | None,
    simulate: int | None,
    processes: bool,
    device: str | None,
    function: str | None,
    inputs: Sequence[str],
    expected: Sequence[str],
    output: Path | None,
) -> Report:
    """Run a program for several devices; without inputs, its golden calls, as a proof.

    Args:
        session: whom notes go to.
        path: the folder.
        devices: `--devices`, a URI for each.
        simulate: `--simulate`, how many one device stands for.
        processes: `--processes`, whether each device has one; the first says what there is to say.
        device: `--device`, with `simulate` the one that does.
        function: which one, if there are several.
        inputs: `--input`.
        expected: `--expected`.
        output: where the outputs go.

    Raises:
        UsageError: flags that do not go together, or another number of devices.
        And what `edgec.runtime.load` and a call raise.
    """
    from edgec.runtime.mesh.folder import MeshFolder
    from edgec.runtime.mesh.proving import check_mesh_golden
    from edgec.runtime.mesh.running import load_mesh

    named = [] if devices is None else [uri.strip() for uri in devices.split(",")]
    count = MeshFolder(path).plan.mesh.devices
    if (devices is None) == (simulate is None):
        raise UsageError(
            f"{path} is for {count} devices",
            hint=f"name them, --devices={','.join(['cpu'] * min(count, 4))}"
            f"{',…' if count > 4 else ''}, or let one stand for all: --simulate={count}",
        )
    if devices is not None and device is not None:
        raise UsageError("--device and --devices both say where to run", hint="leave one out")
    if processes and devices is None:
        raise UsageError(
            "--processes are one for each of the devices", hint="name them: --devices=cpu,cpu"
        )
    if simulate is not None and simulate != count:
        raise UsageError(
            f"{path} is for {count} devices, not {simulate}",
            hint=f"--simulate={count}, or export it again with another --mesh",
        )
    chosen = named if simulate is None else ([device] if device is not None else [])
    proves = not inputs and not expected and output is None
    with load_mesh(path, chosen, simulate=simulate is not None, processes=processes) as loaded:
        first = 0 in loaded.numbers
        for note in loaded.notes:
            session.note(note)
        if proves:
            report = _proved(
                path,
                lambda golden: check_mesh_golden(loaded, golden),
                _where(loaded),
                _data(loaded),
            )
        else:
            report = _called(
                session,
                path,
                loaded[_chosen(loaded, function).name],
                inputs,
                expected,
                output if first else None,
                _where(loaded),
                _data(loaded),
            )
    return report if first else replace(report, blocks=())


def _chosen(loaded: "LoadedMesh", function: str | None) -> "Signature":
    if function is not None:
        return loaded[function].signature
    if len(loaded.signatures) != 1:
        raise UsageError(
            f"{loaded.folder.path} has several functions",
            hint=f"name one: --function={next(iter(loaded.signatures))}",
        )
    return next(iter(loaded.signatures.values()))


def run_split(
    session: Session,
    path: Path,
    inputs: Sequence[str],
    expected: Sequence[str],
    output: Path | None,
) -> Report:
    """Run a program that `edgec split` has cut; without inputs, its golden calls, as a proof.

    Raises:
        As `edgec.runtime.split.load_split` and a call.
    """
    from edgec.runtime.split import load_split

    with load_split(path) as loaded:
        devices = [step.device for step in loaded.steps]
        data: dict[str, object] = {"folder": path, "devices": devices}
        where = f"{path}: {len(devices)} modules on {', '.join(devices)}"
        if not inputs and not expected and output is None:
            return _proved(path, loaded.check, where, data)
        return _called(session, path, loaded, inputs, expected, output, where, data)


def _proved(
    path: Path,
    check: Callable[["Golden"], "GoldenResult"],
    where: str,
    about: Mapping[str, object],
) -> Report:
    """The golden calls of the whole program, and how the devices' answers compare."""
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


def _where(loaded: "LoadedMesh") -> str:
    from edgec.runtime.mesh.channel import HostChannel

    mesh, uris = loaded.folder.plan.mesh, loaded.devices
    places = uris[0] if len(set(uris)) == 1 else ", ".join(uris)
    turns = "in turns on" if loaded.in_turns else "at once on"
    spoken = "" if loaded.spoken == HostChannel.name else f", by {loaded.spoken}"
    return f"{loaded.folder.path}: {mesh.devices} devices ({mesh}) {turns} {places}{spoken}"


def _data(loaded: "LoadedMesh") -> dict[str, object]:
    return {
        "folder": loaded.folder.path,
        "mesh": dict(loaded.folder.plan.mesh.axes),
        "devices": list(loaded.devices),
        "in_turns": loaded.in_turns,
        "spoken": loaded.spoken,
    }


def _called(
    session: Session,
    path: Path,
    function: "MeshFunction | LoadedSplit",
    inputs: Sequence[str],
    expected: Sequence[str],
    output: Path | None,
    where: str,
    about: Mapping[str, object],
) -> Report:
    """One call with the user's inputs."""
    from edgec.cli.bind_inputs import bind
    from edgec.cli.calls import input_slots, output_slots, split
    from edgec.cli.expected import check_outputs, failure, grid
    from edgec.cli.input_spec import parse_input
    from edgec.cli.results import check_results_path, result_json, result_text, save_results

    signature = function.signature
    if output is not None:
        check_results_path(output, len(signature.outputs))
    given = bind([parse_input(text) for text in inputs], input_slots(signature, each=False))
    calls = split(session, signature, given, each=False)
    slots = output_slots(signature, rows=None)
    wanted = bind([parse_input(text) for text in expected], slots)
    start = time.perf_counter()
    outputs: list[np.ndarray] = function.call_flat(calls.inputs[0])
    seconds = time.perf_counter() - start
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
        "seconds": seconds,
        "outputs": [result_json(spec, array) for spec, array in zip(specs, outputs, strict=True)],
        "comparisons": [c.to_json() for c in checked],
    }
    return Report(data=data, blocks=tuple(blocks), error=failure(checked, str(path)))
