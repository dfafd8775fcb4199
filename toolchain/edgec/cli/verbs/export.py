"""`edgec export`: a framework's model to a program file."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from edgec.cli.report import Report
from edgec.cli.session import Session
from edgec.runtime.errors import SourceError, UsageError

__all__ = ["export"]


def export(
    session: Session,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="file.py:name, package.module:name, a SavedModel folder, or a .keras, .pt2, "
            ".onnx, .tflite, .mlir or .mlirbc file.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The program (default: NAME.mlirbc)."),
    ] = None,
    signature: Annotated[
        list[str] | None,
        typer.Option(
            "--signature",
            metavar="NAME[=WHERE]",
            help="A signature to keep, or to add from another object of the source; repeatable.",
            show_default=False,
        ),
    ] = None,
    dynamic: Annotated[
        list[str] | None,
        typer.Option(
            "--dynamic",
            metavar="DIM",
            help="A dimension chosen at each call: batch=1..8, tokens:1=length=1..128; repeatable.",
            show_default=False,
        ),
    ] = None,
    external_weights: Annotated[
        Path | None,
        typer.Option(
            "--external-weights",
            metavar="FILE",
            help="Keep the weights in this .safetensors or .irpa file beside the program.",
            show_default=False,
        ),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            "--inputs",
            metavar="@FILE.npz",
            help="Example inputs: arrays by parameter, or by place as numpy.savez names them.",
            show_default=False,
        ),
    ] = None,
) -> Report:
    """Make a program of a JAX, PyTorch, TensorFlow, Keras, ONNX or TensorFlow Lite model."""
    from edgec.cli.amounts import bytes_text
    from edgec.cli.folders import make_folder
    from edgec.exporters import export_source
    from edgec.runtime.golden import Golden

    path = output or Path(f"{_stem(source)}.mlirbc")
    if path.suffix not in (".mlirbc", ".mlir"):
        raise UsageError(f"a program cannot be named {path}", hint="end its name in .mlirbc")
    if output is None and Path(source).exists() and path.resolve() == Path(source).resolve():
        raise UsageError(f"{source} would be written over itself", hint="name a file with -o")
    make_folder(path.parent)
    session.say(f"exporting {source}")
    try:
        program = export_source(
            source,
            signatures=tuple(signature or ()),
            dynamic=tuple(dynamic or ()),
            external_weights=external_weights,
            folder=path.parent,
            inputs=None if inputs is None else _arrays(inputs),
        )
    except SystemExit as stop:
        raise SourceError(
            f"{source} ended the process while it was imported (exit code {stop.code})",
            hint="keep what only a script should do under `if __name__ == '__main__':`",
        ) from stop
    saved = program.save(path)
    info, golden = saved.info, saved.golden
    golden_path = Golden.path_for(path) if golden is not None else None
    command = shlex.join(["edgec", "compile", str(path)])
    weights = info.weights
    for doubt in saved.doubts:
        session.note(doubt)
    if external_weights is not None and weights is None:
        session.note(f"the model has no weights worth a file: {external_weights} is not written")
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
            "framework": info.provenance.framework,
            "versions": dict(info.provenance.versions),
            "next": command,
        },
        blocks=(
            f"{path}: {bytes_text(len(saved.bytecode))}, {info.dialect.value}, "
            f"from {info.provenance.framework}",
            *(f"  {f.signature}" for f in info.functions),
            *(f"  state {s}" for s in info.states),
            *([f"weights: {len(weights.names)} in {weights.file}"] if weights else []),
            f"golden answers: {calls} call{'s' * (calls != 1)} in {golden_path}"
            if golden_path
            else "golden answers: none, so compiled modules cannot be checked",
            f"next: {command}",
        ),
    )


def _arrays(text: str) -> dict[str, Any]:
    """`@inputs.npz` → its arrays."""
    from edgec.cli.array_files import read_npz

    path = Path(text.removeprefix("@"))
    if not text.startswith("@") or path.suffix != ".npz":
        raise UsageError(
            f"--inputs={text} names no archive of arrays",
            hint="write them with numpy.savez, and give --inputs=@FILE.npz",
        )
    return read_npz(path, lambda keys: {key: lambda *_: None for key in keys})


def _stem(source: str) -> str:
    """`samples/digits/model.py:classifier` → `classifier`, `net.keras` → `net`."""
    head, colon, name = source.rpartition(":")
    if colon and head and "/" not in name:
        return name.replace(".", "_")
    return Path(source.rstrip("/")).stem
