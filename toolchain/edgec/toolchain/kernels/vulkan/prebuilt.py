"""Kernels that were compiled beforehand: for where no glslang is.

`python -m edgec.toolchain.kernels.vulkan.usual` compiles them into the archive. It says which
sources it was made from, and is not used with others.
"""

import functools
import io
import json
import lzma
import tarfile
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from edgec.toolchain.kernels.gpu.dispatches import Binary
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.kernels.vulkan.glsl_compiler import Tools, compile_variant
from edgec.toolchain.kernels.vulkan.packed_spirv import packed, unpacked
from edgec.toolchain.kernels.vulkan.variants import Variant, sources_digest

__all__ = ["ARCHIVE", "Prebuilt", "read", "write"]

_INDEX = "index.json"
ARCHIVE = Path(str(resources.files("edgec.toolchain") / "kernels" / "vulkan" / "prebuilt.tar.xz"))


class Prebuilt:
    """Where kernels come from without glslang.

    Attributes:
        folds: numbers stay arguments, so that a kernel serves many.
    """

    folds = False

    def __init__(self, archive: Path = ARCHIVE) -> None:
        self._archive = archive

    def find(self, variant: Variant) -> Binary | Declined:
        """The kernel, if it is in the archive."""
        index, files = read(self._archive)
        if index.get("sources") != sources_digest() or variant.symbol not in files:
            return Declined(reason="a kernel that needs edgec[vulkan] to be compiled")
        return Binary(
            name=variant.symbol,
            data=unpacked(files[variant.symbol]),
            threads=variant.threads,
            shared=variant.shared,
        )


_WORDS = {
    **{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME},
    **{"lc": 0, "lp": 2, "pb": 2, "nice_len": 273, "depth": 1000},
}
"""SPIR-V is words of four bytes."""


@functools.cache
def read(archive: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What an archive says of itself, and its kernels by symbol; nothing where there is none."""
    if not archive.is_file():
        return {}, {}
    with tarfile.open(archive, "r:xz") as stream:
        members = ((each.name, stream.extractfile(each)) for each in stream.getmembers())
        files = {name: content.read() for name, content in members if content is not None}
    return json.loads(files.pop(_INDEX)), files


def write(archive: Path, variants: Iterable[Variant], found: Tools) -> int:
    """Compile kernels into an archive, with the digest of their sources; how many."""
    count = 0
    with (
        lzma.open(archive, "wb", filters=[_WORDS]) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as stream,
    ):
        for variant in sorted(variants, key=lambda each: each.name):
            _add(stream, variant.symbol, packed(compile_variant(variant, found)))
            count += 1
        about = {"sources": sources_digest(), "compiler": found.version}
        _add(stream, _INDEX, json.dumps(about, indent=1).encode())
    return count


def _add(stream: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    stream.addfile(member, io.BytesIO(data))
