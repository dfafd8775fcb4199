"""Programs for several devices on the command line: compiled into a folder, run and proved."""

import contextlib
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.cli.folder_reports import called_report, proved_report
from edgec.cli.given import Exporting
from edgec.cli.report import Report
from edgec.cli.session import Session
from edgec.runtime.errors import UsageError

if TYPE_CHECKING:
    from edgec.runtime.mesh.plan import Route
    from edgec.runtime.mesh.running import LoadedMesh
    from edgec.runtime.signature import Signature
    from edgec.targets import Target
    from edgec.toolchain import CompileOptions, Program

__all__ = ["compile_for_mesh", "run_on_devices", "weights_for_mesh"]


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
    each: bool,
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
        each: `--each`, a call for each row of the inputs.
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
    proves = not (inputs or expected or each or output)
    with load_mesh(path, chosen, simulate=simulate is not None, processes=processes) as loaded:
        first = 0 in loaded.numbers
        for note in loaded.notes:
            session.note(note)
        if proves:
            report = proved_report(
                path,
                lambda golden: check_mesh_golden(loaded, golden),
                _where(loaded),
                _data(loaded),
            )
        else:
            asked = loaded[_chosen(loaded, function).name]
            report = called_report(
                session,
                path,
                asked.signature,
                lambda calls: [asked.call_flat(each) for each in calls],
                inputs=inputs,
                expected=expected,
                each=each,
                output=output if first else None,
                where=_where(loaded),
                about=_data(loaded),
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
