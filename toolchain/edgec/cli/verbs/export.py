"""`edgec export`: a framework's model to a program file."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.given import Exporting, check_program_name, export_model
from edgec.cli.options import (
    DynamicOption,
    ExampleInputsOption,
    ExternalWeightsOption,
    SignatureOption,
)
from edgec.cli.report import Report
from edgec.cli.session import Session
from edgec.runtime.errors import UsageError

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
) -> Report:
    """Make a program of a JAX, PyTorch, TensorFlow, Keras, ONNX or TensorFlow Lite model."""
    from edgec.cli.amounts import bytes_text
    from edgec.cli.folders import make_folder
    from edgec.runtime.golden import Golden
    from edgec.toolchain.framework_values import FrameworkValues
    from edgec.toolchain.program import source_stem

    path = output or Path(f"{source_stem(source)}.mlirbc")
    check_program_name(path)
    if output is None and Path(source).exists() and path.resolve() == Path(source).resolve():
        raise UsageError(f"{source} would be written over itself", hint="name a file with -o")
    make_folder(path.parent)
    exporting = Exporting(
        signatures=tuple(signature or ()),
        dynamic=tuple(dynamic or ()),
        inputs=inputs,
        external_weights=external_weights or _weights_of(source, path),
        context=context_size,
        prefill=_sizes(prefill),
        speculate=speculate,
        floats=floats,
        licence=licence,
        values=values,
    )
    saved = export_model(session, source, exporting, path)
    info, golden = saved.info, saved.golden
    golden_path = Golden.path_for(path) if golden is not None else None
    command = shlex.join(["edgec", "compile", str(path)])
    weights = info.weights
    for doubt in saved.doubts:
        session.note(doubt)
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


def _weights_of(source: str, path: Path) -> Path | None:
    """A language model's weights are a file beside it: they are most of it, and are mapped."""
    from edgec.exporters.from_transformers.opening import is_language_model

    return path.with_suffix(".safetensors") if is_language_model(source) else None


def _sizes(text: str | None) -> tuple[int, ...]:
    """`64,256` → its numbers."""
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise UsageError(
            f"--prefill={text} holds something else than numbers", hint="write --prefill=64,256"
        ) from None
