"""A model and a kind of package, for all its usual devices, to the bytes of the whole folder."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from edgec.packaging import PackageOptions, make_package
from edgec.runtime import Module
from edgec.toolchain import CompileOptions, Program

__all__ = ["KINDS", "Whole", "weigh"]

KINDS = ("android", "c", "web", "ios")


@dataclass(frozen=True, kw_only=True)
class Whole:
    """Bytes of a package: as it is, and with the shared weights in each module."""

    variants: int
    shared: int
    copies: int


def weigh(program: Program, kind: str, name: str, folder: Path) -> Whole:
    """Make the package and add up its files."""
    place = folder / "whole"
    shutil.rmtree(place, ignore_errors=True)
    options = PackageOptions(name=name, compiling=CompileOptions(check=False))
    made = make_package(program, kind, place, options)
    size = copies = sum(made.files.values())
    weights = made.manifest.weights
    if weights is not None:
        sizes = _sizes(place / weights.file)
        copies -= weights.size
        for variant in made.manifest.variants:
            facts = Module.read(place / variant.file).facts.weights
            copies += sum(sizes[name] for name in (facts.names if facts else ()))
    return Whole(variants=len(made.manifest.variants), shared=size, copies=copies)


def _sizes(path: Path) -> dict[str, int]:
    """Bytes of each weight in a `.safetensors` file."""
    with path.open("rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    places = {name: entry["data_offsets"] for name, entry in header.items()}
    return {name: end - start for name, (start, end) in places.items()}
