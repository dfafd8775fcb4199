"""`edgec export`: a framework's model to a program file."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.given import Exporting, check_program_name, export_model
from edgec.cli.options import (
    DynamicOption,
    ExampleInputsOption,
    ExternalWeightsOption,
    MeshOption,
    ShardOption,
    SignatureOption,
)
from edgec.cli.report import Report
from edgec.cli.session import Session
from edgec.cli.state_lines import state_lines
from edgec.runtime.errors import UsageError

if TYPE_CHECKING:
    from edgec.runtime.mesh.plan import Plan

__all__ = ["export"]


def export(
    session: Session,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="file.py:name, package.module:name, hf:FOLDER (a language model of "
            "transformers), a SavedModel folder, or a .keras, .pt2, .onnx, .tflite, .gguf, .mlir "
            "or .mlirbc file.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The program (default: NAME.mlirbc)."),
    ] = None,
    signature: SignatureOption = None,
    dynamic: DynamicOption = None,
    external_weights: ExternalWeightsOption = None,
    inputs: ExampleInputsOption = None,
    licence: Annotated[
        str,
        typer.Option(
            "--licence",
            metavar="SPDX",
            help="The model's licence (Apache-2.0), which goes with the program and its packages.",
            show_default=False,
        ),
    ] = "",
    values: Annotated[
        bool,
        typer.Option(
            "--values",
            help="Keep what the framework computes on the way to its first answers, in "
            "NAME.values.npz: `edgec verify --layers` compares with it.",
        ),
    ] = False,
    chunk: Annotated[
        int | None,
        typer.Option(
            "--chunk",
            metavar="N",
            min=0,
            help="Of a dynamic batch: examples computed at once, by kernels for that many, "
            "several times as fast on CPUs (default: 8; 0: all, in code for any size).",
            show_default=False,
        ),
    ] = None,
    buckets: Annotated[
        str,
        typer.Option(
            "--buckets",
            metavar="N,N",
            help="Of another dynamic dimension, as the length of a text: the sizes that it is "
            "compiled for; inputs are filled up to the next (default: up to eight, to its "
            "maximum; 0: none, code for any size).",
            show_default=False,
        ),
    ] = "",
    context_size: Annotated[
        int | None,
        typer.Option(
            "--context",
            metavar="N",
            help="Of a language model: tokens that prompt and answer may have together "
            "(default: 1024, or what the model knows).",
            show_default=False,
            rich_help_panel="Language models",
        ),
    ] = None,
    prefill: Annotated[
        str | None,
        typer.Option(
            "--prefill",
            metavar="N[,N…]",
            help="Of a language model: tokens of a prompt that a call reads, for each function "
            "that does so (default: 64).",
            show_default=False,
            rich_help_panel="Language models",
        ),
    ] = None,
    speculate: Annotated[
        int,
        typer.Option(
            "--speculate",
            metavar="N",
            help="Of a language model: a function more, which reads a token and N - 1 guesses "
            "behind it together; answers that repeat the text are written sooner (4 suits most).",
            show_default=False,
            rich_help_panel="Language models",
        ),
    ] = 0,
    floats: Annotated[
        bool,
        typer.Option(
            "--floats",
            help="Of a GGUF file: make its blocks f32, so that `edgec quantise` can choose how "
            "weights are kept.",
            rich_help_panel="Language models",
        ),
    ] = False,
    mesh: MeshOption = None,
    shard: ShardOption = None,
) -> Report:
    """Make a program of a JAX, PyTorch, TensorFlow, Keras, ONNX or TensorFlow Lite model."""
    from edgec.cli.amounts import bytes_text
    from edgec.cli.folders import make_place
    from edgec.runtime.golden import Golden
    from edgec.toolchain.framework_values import FrameworkValues
    from edgec.toolchain.program import source_stem

    path = output or Path(f"{source_stem(source)}.mlirbc")
    check_program_name(path)
    if output is None and Path(source).exists() and path.resolve() == Path(source).resolve():
        raise UsageError(f"{source} would be written over itself", hint="name a file with -o")
    make_place(path)
    exporting = Exporting(
        signatures=tuple(signature or ()),
        dynamic=tuple(dynamic or ()),
        inputs=inputs,
        external_weights=external_weights or _weights_of(source, path, mesh),
        context=context_size,
        prefill=_sizes(prefill, "--prefill"),
        speculate=speculate,
        floats=floats,
        licence=licence,
        values=values,
        chunk=chunk,
        buckets=_sizes(buckets, "--buckets") or None,
        mesh=mesh,
        shard=tuple(shard or ()),
    )
    saved = export_model(session, source, exporting, path)
    info, golden = saved.info, saved.golden
    golden_path = Golden.path_for(path) if golden is not None else None
    command = shlex.join(["edgec", "compile", str(path)])
    weights = info.weights
    for doubt in saved.doubts:
        session.note(doubt)
    if info.mesh is not None and not info.mesh.cuts:
        session.note(
            "nothing is cut: each device does all of the work; say how with shardings in the model "
            "or --shard"
        )
    calls = 0 if golden is None else len(golden.calls)
    return Report(
        data={
            "program": path,
            "size": len(saved.bytecode),
            "dialect": info.dialect.value,
            "signatures": [f.signature.to_json() for f in info.functions],
            "states": [s.to_json() for s in info.states],
            "weights": None
            if weights is None
            else {"file": weights.file, "count": len(weights.names)},
            "golden": None if golden_path is None else {"file": golden_path, "calls": calls},
            "values": None
            if saved.values is None
            else {
                "file": FrameworkValues.path_for(path),
                "count": len(saved.values.values),
                "size": saved.values.size,
            },
            **({} if info.mesh is None else {"mesh": dict(info.mesh.mesh.axes)}),
            "framework": info.provenance.framework,
            "versions": dict(info.provenance.versions),
            "next": command,
        },
        blocks=(
            f"{path}: {bytes_text(len(saved.bytecode))}, {info.dialect.value}, "
            f"from {info.provenance.framework}",
            *(_mesh_lines(info.mesh) if info.mesh else ()),
            *(f"  {f.signature}" for f in info.functions),
            *(f"  {line}" for line in state_lines(info.states)),
            *([f"weights: {len(weights.names)} in {weights.file}"] if weights else []),
            f"golden answers: {calls} call{'s' * (calls != 1)} in {golden_path}"
            if golden_path
            else "golden answers: none, so compiled modules cannot be checked",
            *(
                [
                    f"{saved.values.framework}'s values: {len(saved.values.values)} "
                    f"({bytes_text(saved.values.size)}) in {FrameworkValues.path_for(path)}"
                ]
                if saved.values is not None
                else []
            ),
            f"next: {command}",
        ),
    )


def _mesh_lines(plan: "Plan") -> tuple[str, ...]:
    """What the devices do in a call of each function."""
    lines = []
    for name, route in plan.routes.items():
        count = len(route.steps) - len(route.collectives)
        lines.append(
            f"{route.signature} on {plan.mesh.devices} devices ({plan.mesh}): "
            f"{count} part{'s' * (count != 1)} of {name}, {len(route.collectives)} collectives"
        )
        lines += [
            f"  {step.kind}{f' {step.operation}' if step.operation else ''}"
            f"{f' at {step.where}' if step.where else ''}"
            for step in route.collectives
        ]
    return tuple(lines)


def _weights_of(source: str, path: Path, mesh: str | None) -> Path | None:
    """Of a language model a file beside it, which is mapped; for a mesh each device has a part."""
    from edgec.exporters.from_transformers.opening import is_language_model

    outside = mesh is not None or is_language_model(source)
    return path.with_suffix(".safetensors") if outside else None


def _sizes(text: str | None, flag: str) -> tuple[int, ...]:
    """`64,256` → its numbers."""
    try:
        sizes = tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        raise UsageError(f"{flag}={text} holds something else than sizes", hint=f"{flag}=64,256")
    return sizes
