"""A model of any framework, or a name of one, to a Program: the two front doors of this stage."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from edgec.exporters.assemble import assemble
from edgec.exporters.batches import fixed_sizes_alone, in_fixed_sizes, open_dims
from edgec.exporters.bundle import Bundle, Entry
from edgec.exporters.dynamic import Dynamic
from edgec.exporters.frameworks import FRAMEWORKS, Framework, framework_of, named
from edgec.exporters.from_transformers.opening import is_language_model
from edgec.exporters.given_inputs import with_inputs
from edgec.exporters.mesh.front import (
    Meshed,
    ask_for_devices,
    assemble_for_mesh,
    trace_for_mesh,
)
from edgec.exporters.mesh.uncut import Uncut
from edgec.exporters.source import is_stablehlo, open_source
from edgec.exporters.traced import said_kept
from edgec.runtime.errors import ExportError, UsageError
from edgec.runtime.mesh.plan import Mesh
from edgec.runtime.signature import Dim
from edgec.toolchain.program import Program, Provenance
from edgec.toolchain.weights_file import check_weights_path

__all__ = ["export", "export_source", "uncut_source"]


def export(
    model: Any,
    example_inputs: Any = (),
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    name: str = "main",
    dynamic: Any = None,
    external_weights: Path | str | None = None,
    framework: str | None = None,
    source: str = "",
    folder: Path | str | None = None,
    licence: str = "",
    values: bool = False,
    chunk: int | None = None,
    buckets: Sequence[int] | None = None,
    mesh: Mesh | str | None = None,
    shard: Sequence[str] = (),
) -> Program:
    """Make a program of a model, and run the model once in its framework for golden answers.

    Args:
        model: a JAX function, a Flax or Equinox model, a `torch.nn.Module`, a `tf.Module`, a Keras
            model; or an `Entry` or `Bundle` of these.
        example_inputs: a tuple of positional arguments, nested as the model takes them.
        example_kwargs: keyword arguments.
        name: the signature's name.
        dynamic: `"batch=1..8"`, `{"tokens": {1: "length=1..128"}}`, a list of texts as
            `--dynamic` takes them, or the framework's own form.
        external_weights: a `.safetensors` or `.irpa` file to write the weights to.
        framework: its name, where it cannot be told from the model.
        source: what the program says it came from.
        folder: where the program will be saved; it names its weights file relative to this. None:
            the weights' own folder.
        licence: the model's, as SPDX spells it; it goes with the program.
        values: whether to keep what the framework computes on the way to its answers.
        chunk: how many examples of a dynamic batch are computed at once; 0 for all, whose sizes
            then stay open in all that is computed (with `values`, they always do). None: 8, if
            the dimension is the first of each input that has it.
        buckets: the sizes that inputs are filled up to along another dynamic dimension, its
            maximum always among them; `(0,)` for none, and it stays open. None: up to eight, each
            at most half as large again as the one before, if it has a maximum.
        mesh: several devices (`x=2,y=4`) for which it becomes one program a device; its weights
            then go to `external_weights`.
        shard: how inputs are cut on the mesh where the model does not say so (`images=x,_`).

    Raises:
        ExportError: the model cannot be exported; SourceError if it is none, UnsupportedOp if one
            of its operations is the reason.
        MissingExtra: a package is not installed.
        UsageError: arguments that make no sense.
    """
    if isinstance(model, Bundle | Entry):
        if example_inputs != () or example_kwargs is not None:
            raise UsageError(
                "an Entry or Bundle brings its own example inputs",
                hint="give the inputs to the Entry",
            )
        bundle = model if isinstance(model, Bundle) else Bundle((model,))
    else:
        bundle = Bundle((Entry(model, example_inputs, example_kwargs, name=name),))
    if not _is_plain(dynamic):
        bundle = replace(bundle, entries=tuple(replace(e, dynamic=dynamic) for e in bundle.entries))
        dynamic = None
    return _export(
        bundle,
        framework_of(bundle) if framework is None else named(framework),
        dynamic=Dynamic.parse(dynamic),
        external_weights=external_weights,
        source=source,
        folder=folder,
        licence=licence,
        values=values,
        chunk=chunk,
        buckets=buckets,
        meshed=_meshed(mesh, shard),
    )


def export_source(
    text: str,
    *,
    signatures: Sequence[str] = (),
    dynamic: Sequence[str] = (),
    external_weights: Path | str | None = None,
    folder: Path | str | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
    context: int | None = None,
    prefill: Sequence[int] = (),
    speculate: int = 0,
    floats: bool = False,
    licence: str = "",
    values: bool = False,
    chunk: int | None = None,
    buckets: Sequence[int] | None = None,
    mesh: Mesh | str | None = None,
    shard: Sequence[str] = (),
) -> Program:
    """Make a program of what a command line names.

    Args:
        text: `file.py:name`, `package.module:name`, `hf:FOLDER` (a language model as transformers
            saves it), a SavedModel folder, or a `.keras`, `.pt2`, `.onnx`, `.tflite`, `.gguf`,
            `.mlir` or `.mlirbc` file.
        signatures: which signatures to keep or add (`NAME` or `NAME=WHERE`).
        dynamic: dynamic dimensions (`batch=1..8`, `tokens:1=length=1..128`).
        external_weights: as in `export`.
        folder: as in `export`.
        inputs: example inputs by parameter, or by place as `arr_0`, `arr_1`; None for the
            source's own.
        context: of a language model, how many tokens prompt and answer may have together.
        prefill: of a language model, how many tokens of a prompt a call reads, for each of the
            functions that do so.
        speculate: of a language model, how many tokens a call takes that checks guesses; 0 for no
            such function.
        floats: of a GGUF file, whether its blocks become f32.
        licence: the model's, as SPDX spells it.
        values: as in `export`.
        chunk: as in `export`.
        buckets: as in `export`.
        mesh: as in `export`.
        shard: as in `export`.

    Raises:
        FileError: a file is missing or cannot be written.
        SourceError: the name stands for no model.
        And what `export` raises.
    """
    meshed = _meshed(mesh, shard)
    in_sizes = {"--chunk": chunk, "--buckets": buckets}
    if is_language_model(text):
        given = {
            **in_sizes,
            "--mesh": mesh,
            "--signature": signatures,
            "--dynamic": dynamic,
            "--inputs": inputs,
            "--licence": licence,
            "--values": values,
        }
        _refuse(f"{text} is a language model", [flag for flag, value in given.items() if value])
        from edgec.exporters.from_transformers.export import export_language_model

        return export_language_model(
            text,
            context=context,
            prefill=prefill,
            speculate=speculate,
            floats=floats,
            external_weights=None if external_weights is None else Path(external_weights),
            folder=None if folder is None else Path(folder),
        )
    of_text = {
        "--context": context,
        "--prefill": prefill,
        "--speculate": speculate,
        "--floats": floats,
    }
    _refuse(f"{text} is no language model", [flag for flag, value in of_text.items() if value])
    if is_stablehlo(text):
        given = {**in_sizes, "--mesh": mesh}
        _refuse(f"{text} is a program", [flag for flag, value in given.items() if value])
        if inputs is not None:
            raise UsageError(
                f"{text} is not run when it is exported, so it takes no inputs",
                hint="leave out --inputs",
            )
        _refuse(f"{text} says itself where it came from", ["--licence"] if licence else [])
        _refuse(f"{text} is no framework's model", ["--values"] if values else [])
        from edgec.exporters.from_stablehlo import export_file

        return export_file(
            Path(text),
            signatures=tuple(signatures),
            dynamic=tuple(dynamic),
            external_weights=None if external_weights is None else Path(external_weights),
            folder=None if folder is None else Path(folder),
        )
    asked = Dynamic.parse(list(dynamic))
    if external_weights is not None:
        check_weights_path(Path(external_weights))
    if meshed is not None:
        ask_for_devices(meshed.mesh)
    found = open_source(text, signatures=tuple(signatures))
    bundle = found.bundle
    if inputs is not None:
        bundle = with_inputs(bundle, found.framework, inputs)
    return _export(
        bundle,
        found.framework,
        dynamic=asked,
        external_weights=external_weights,
        source=text,
        folder=folder,
        licence=licence,
        values=values,
        chunk=chunk,
        buckets=buckets,
        meshed=meshed,
    )


def uncut_source(
    text: str,
    mesh: Mesh | str,
    *,
    signatures: Sequence[str] = (),
    inputs: Mapping[str, np.ndarray] | None = None,
) -> Uncut:
    """A model of one function, traced for the devices of a mesh and not cut.

    Args:
        text: as in `export_source`, but no language model and no StableHLO file.
        mesh: the devices.
        signatures: as in `export_source`.
        inputs: as in `export_source`.

    Raises:
        As `export_source`.
    """
    meshed = Meshed.parse(mesh, ())
    if is_language_model(text) or is_stablehlo(text):
        raise UsageError(
            f"{text} is a language model or a finished program, which no mesh cuts",
            hint="name a model of JAX, PyTorch, TensorFlow, Keras or ONNX",
        )
    ask_for_devices(meshed.mesh)
    found = open_source(text, signatures=tuple(signatures))
    bundle = found.bundle
    if inputs is not None:
        bundle = with_inputs(bundle, found.framework, inputs)
    if len(bundle.entries) != 1:
        raise UsageError(
            f"{text} has {len(bundle.entries)} functions, and a plan is for one",
            hint=f"name one: --signature={bundle.entries[0].name}",
        )
    (function,) = trace_for_mesh(bundle, found.framework, meshed, Dynamic.parse(None))
    provenance = _provenance(found.framework, source=text, licence="")
    return Uncut(function=function, mesh=meshed.mesh, provenance=provenance)


def _refuse(what: str, flags: Sequence[str]) -> None:
    """Refuse options that mean nothing for a source.

    Raises:
        UsageError: there are some.
    """
    if flags:
        raise UsageError(f"{what}, which takes no {', '.join(flags)}", hint="leave it out")


def _export(
    bundle: Bundle,
    framework: Framework,
    *,
    dynamic: Dynamic,
    external_weights: Path | str | None,
    source: str,
    folder: Path | str | None,
    licence: str,
    values: bool,
    chunk: int | None,
    buckets: Sequence[int] | None,
    meshed: Meshed | None,
) -> Program:
    wanted = {"--chunk": chunk, "--buckets": buckets and any(buckets)}
    in_sizes = [flag for flag, value in wanted.items() if value]
    if len(in_sizes) > 1:
        raise UsageError(
            "a dynamic dimension goes in chunks or in buckets, not in both",
            hint="--chunk is for a batch, --buckets for another one, as the length of a text",
        )
    if meshed is not None:
        _refuse("a program for several devices", [*in_sizes, *(["--values"] if values else [])])
    if values:
        _refuse("with --values sizes stay open", in_sizes)
    if values and not framework.keeps_values:
        keeping = ", ".join(each.name for each in FRAMEWORKS.values() if each.keeps_values)
        _refuse(f"a model of {framework.name} (of {keeping} it could)", ["--values"])
    weights = None if external_weights is None else Path(external_weights)
    if weights is not None:
        check_weights_path(weights)
    provenance = _provenance(framework, source=source, licence=licence)
    place = None if folder is None else Path(folder)
    if meshed is not None:
        return assemble_for_mesh(
            trace_for_mesh(bundle, framework, meshed, dynamic),
            meshed,
            provenance=provenance,
            external_weights=weights,
            folder=place,
        )
    asked = {"values": True} if values else {}
    sizes = None if buckets is None else tuple(n for n in buckets if n)
    try:
        functions = framework.tracer().trace(bundle, dynamic=dynamic, **asked)
    except ExportError as refused:
        if values:
            raise
        functions = (fixed_sizes_alone(bundle, framework, dynamic, chunk, sizes, refused),)
    else:
        if in_sizes and not any(open_dims(function) for function in functions):
            raise UsageError(
                f"no input has a dynamic dimension, and {in_sizes[0]} is for one",
                hint="make one: --dynamic=batch=1..8",
            )
        if not values:
            functions = tuple(in_fixed_sizes(f, bundle, framework, chunk, sizes) for f in functions)
    return assemble(
        said_kept(functions),
        provenance=provenance,
        external_weights=weights,
        folder=place,
    )


def _provenance(framework: Framework, *, source: str, licence: str) -> Provenance:
    return Provenance(
        framework=framework.name,
        versions={"edgec": metadata.version("edgec"), **framework.versions()},
        source=source,
        licence=licence,
    )


def _meshed(mesh: Mesh | str | None, shard: Sequence[str]) -> Meshed | None:
    """What is asked for of a mesh.

    Raises:
        UsageError: the texts are none.
    """
    if mesh is None:
        _refuse("without --mesh there are no devices to cut for", ["--shard"] if shard else [])
        return None
    return Meshed.parse(mesh, shard)


def _is_plain(dynamic: Any) -> bool:
    """Whether dynamic dimensions are in edgec's own form rather than a framework's."""
    if dynamic is None or isinstance(dynamic, str | Dim | Dynamic):
        return True
    if isinstance(dynamic, Mapping):
        return all(_is_plain(child) for child in dynamic.values())
    return isinstance(dynamic, list | tuple) and all(_is_plain(child) for child in dynamic)
