"""Kernels that were compiled beforehand: for a wheel that is used where Triton is not.

`python -m edgec.toolchain.kernels.cuda.usual` compiles the usual ones (needs Triton, no GPU) to
where a wheel that is built afterwards takes them along. The archive is no part of the repository;
it says which sources it was made from, and is not used with others.
"""

import json
import zipfile
from collections.abc import Iterable
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from edgec.toolchain.cache import Cache
from edgec.toolchain.kernels.cuda.c_compiler import find_in_c
from edgec.toolchain.kernels.cuda.variants import Variant, sources_digest
from edgec.toolchain.kernels.gpu.dispatches import Binary
from edgec.toolchain.kernels.spec import Declined

__all__ = ["ARCHIVE", "Prebuilt", "holds", "write"]

_INDEX = "index.json"
ARCHIVE = resources.files("edgec.toolchain") / "kernels" / "cuda" / "prebuilt.zip"


def holds(archive: Path, variants: Iterable[Variant]) -> bool:
    """Whether an archive is of the sources as they are now, and has these kernels."""
    found = Prebuilt(archive)
    return all(isinstance(found.find(variant), Binary) for variant in variants)


class Prebuilt:
    """Where kernels come from without Triton: an archive of the usual ones.

    Attributes:
        folds: sizes stay arguments, so that a kernel serves many.
    """

    folds = False

    def __init__(self, archive: Path | None = None) -> None:
        self._archive = archive or ARCHIVE

    @cached_property
    def _index(self) -> dict[str, Any]:
        if not self._archive.is_file():
            return {}
        with self._archive.open("rb") as stream, zipfile.ZipFile(stream) as files:
            index: dict[str, Any] = json.loads(files.read(_INDEX))
        return index["kernels"] if index["sources"] == sources_digest() else {}

    def find(self, variant: Variant) -> Binary | Declined:
        """The kernel, if it is one of the usual ones, or in C and there is a compiler of that."""
        if variant.is_c:
            return find_in_c(variant, Cache.default())
        facts = self._index.get(variant.key)
        if facts is None:
            return Declined(reason="a kernel that needs edgec[cuda] to be compiled")
        with self._archive.open("rb") as stream, zipfile.ZipFile(stream) as files:
            data = files.read(variant.key)
        return Binary(name=variant.symbol, data=data, **facts)


def write(archive: Path, variants: Iterable[Variant]) -> None:
    """Compile kernels into an archive, with the digest of their sources."""
    from edgec.toolchain.kernels.cuda.triton_compiler import compile_variant

    facts = {}
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_LZMA) as files:
        for variant in variants:
            if variant.key not in facts:
                ptx, facts[variant.key] = compile_variant(variant)
                files.writestr(variant.key, ptx)
        index = {"sources": sources_digest(), "kernels": facts}
        files.writestr(_INDEX, json.dumps(index, indent=1))
