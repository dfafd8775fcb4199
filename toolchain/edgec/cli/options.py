"""Options that several verbs take, and what a shell completes them with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "DeviceOption",
    "DynamicOption",
    "ExampleInputsOption",
    "ExternalWeightsOption",
    "FunctionOption",
    "InputOption",
    "KeepProgramOption",
    "KeyOption",
    "MeshOption",
    "ModuleArgument",
    "OnOption",
    "ShardOption",
    "SignatureOption",
    "SourceArgument",
    "WeightsOption",
    "complete_device",
    "complete_pass",
    "complete_target",
]

_DEVICES = ("cpu", "gpu", "edgert", "local-task", "local-sync", "vulkan", "cuda", "hip", "metal")


def complete_target(incomplete: str) -> Iterator[tuple[str, str]]:
    """Targets and presets that begin so, with their summaries."""
    from edgec.targets import PRESETS, catalogue

    for target in catalogue():
        for name in (target.name, *target.aliases):
            if name.startswith(incomplete):
                yield name, target.summary
    for name, members in PRESETS.items():
        if name.startswith(incomplete):
            yield name, ", ".join(members)


def complete_pass(incomplete: str) -> Iterator[tuple[str, str]]:
    """edgec's passes that can be left out and begin so, with what they do."""
    from edgec.toolchain.passes import CATALOGUE, ESSENTIAL

    for kind in CATALOGUE:
        if kind.name not in ESSENTIAL and kind.name.startswith(incomplete):
            yield kind.name, (kind.__doc__ or "").strip().splitlines()[0]


def complete_device(incomplete: str) -> Iterator[tuple[str, str]]:
    """Drivers, and after `DRIVER:` that driver's devices, which are here and begin so."""
    driver, colon, _ = incomplete.partition(":")
    if not colon:
        yield from ((name, "") for name in _DEVICES if name.startswith(incomplete))
        return
    if driver not in _DEVICES:
        return
    from edgec.runtime import devices

    for status in devices([driver]):
        if status.usable and status.uri.startswith(incomplete):
            yield status.uri, status.name


def complete_function(context: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Functions of the module that is named on the line so far."""
    from edgec.runtime import Module
    from edgec.runtime.errors import EdgecError

    named = context.params.get("module") or next(iter(context.args), None)
    if not named:
        return
    try:
        signatures = Module.read(Path(named)).signatures
    except EdgecError:
        return
    for name, signature in signatures.items():
        if name.startswith(incomplete):
            yield name, str(signature)


def complete_on(incomplete: str) -> Iterator[str]:
    """The ways to another machine."""
    from edgec.ondevice import WAYS

    yield from (f"{way}:" for way in WAYS if f"{way}:".startswith(incomplete))


_EXPORT = "Export"

SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A program (.mlirbc, .mlir), or a model as `edgec export` takes it: file.py:name, "
        "package.module:name, hf:FOLDER, a SavedModel folder, or a .keras, .pt2, .onnx, .tflite or "
        ".gguf file.",
        show_default=False,
    ),
]
SignatureOption = Annotated[
    list[str] | None,
    typer.Option(
        "--signature",
        metavar="NAME[=WHERE]",
        help="A signature to keep, or to add from another object of the source; repeatable.",
        show_default=False,
        rich_help_panel=_EXPORT,
    ),
]
DynamicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dynamic",
        metavar="DIM",
        help="A dimension chosen at each call: batch=1..8, tokens:1=length=1..128; repeatable.",
        show_default=False,
        rich_help_panel=_EXPORT,
    ),
]
ExternalWeightsOption = Annotated[
    Path | None,
    typer.Option(
        "--external-weights",
        metavar="FILE",
        help="Keep the weights in this .safetensors or .irpa file beside the program.",
        show_default=False,
        rich_help_panel=_EXPORT,
    ),
]
ExampleInputsOption = Annotated[
    str | None,
    typer.Option(
        "--inputs",
        metavar="@FILE.npz",
        help="Example inputs: arrays by parameter, or by place as numpy.savez names them.",
        show_default=False,
        rich_help_panel=_EXPORT,
    ),
]
KeepProgramOption = Annotated[
    Path | None,
    typer.Option(
        "--keep-program",
        metavar="FILE",
        help="Keep the program and its golden answers here (default: they are not kept).",
        show_default=False,
        rich_help_panel=_EXPORT,
    ),
]
_MESH = "Several devices"
MeshOption = Annotated[
    str | None,
    typer.Option(
        "--mesh",
        metavar="AXIS=N[,AXIS=N…]",
        help="Make one program a device for a mesh of devices (x=2,y=4): of a JAX model with "
        "shardings or shard_map, or as --shard says.",
        show_default=False,
        rich_help_panel=_MESH,
    ),
]
ShardOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shard",
        metavar="INPUT=AXIS,_",
        help="With --mesh: cut an input along the mesh's axes, one for each of its own, _ for "
        "none (images=x,_); the rest follows; repeatable.",
        show_default=False,
        rich_help_panel=_MESH,
    ),
]
ModuleArgument = Annotated[
    Path, typer.Argument(metavar="MODULE", help="A .vmfb file.", show_default=False)
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="URI",
        help="Where to run: cpu, cpu?threads=2, gpu, gpu://1, cuda, local-task … "
        "(default: what the module was compiled for).",
        autocompletion=complete_device,
        show_default=False,
    ),
]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="DEVICE",
        help="Another machine to run on, by edgert: adb:SERIAL, adb: (the only one), ssh:HOST or "
        "qemu:aarch64.",
        autocompletion=complete_on,
        show_default=False,
    ),
]
FunctionOption = Annotated[
    str | None,
    typer.Option(
        "--function",
        metavar="NAME",
        help="Which function, if there are several.",
        autocompletion=complete_function,
        show_default=False,
    ),
]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="[NAME=]VALUE",
        help="One input: @FILE (.npy .npz .bin .png .jpg) or 1x3xf32=0.5; again for the next.",
        show_default=False,
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="FILE|env:NAME|HEX",
        help="A public key: refuse a module, its weights included, that its owner did not sign, "
        "or that changed since.",
        show_default=False,
    ),
]
WeightsOption = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE",
        help="The weights file, where it is not where the module says.",
        show_default=False,
    ),
]
