"""A program of JAX's to its module: as it is in edgec's cache, else compiled.

A program is known by its bytes, and where these are new by its bytes without the user's lines: the
same addition in another line of a script is compiled once.
"""

import contextlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.plugins.pjrt.spread import Spread, cutters
from edgec.runtime.errors import FileError
from edgec.toolchain.cache import CACHE_VARIABLE, Cache, key_of
from edgec.toolchain.fingerprint import fingerprint
from edgec.toolchain.inside import working_here
from edgec.toolchain.isolated import answered

__all__ = ["Made", "Store"]


@dataclass(frozen=True, kw_only=True)
class Made:
    """A module.

    Attributes:
        path: its file.
        key: what it is made of, as one word.
        name: what JAX calls the program.
        donated: for each argument whether its memory is given away (1) or not (0).
        outputs: each result's type as PJRT numbers it, rank and sizes; none where the module says.
        costs: of a call: flops, bytes moved, bytes held for a while; none where not known.
        spread: of a program for several devices what they do.
    """

    path: Path
    key: str
    name: str
    donated: tuple[int, ...]
    outputs: tuple[int, ...] = ()
    costs: tuple[int, ...] = ()
    spread: Spread | None = None


class Store:
    """What has been compiled, here and in earlier processes."""

    def __init__(self) -> None:
        self._cache = Cache.default()
        self._folder = tempfile.TemporaryDirectory(prefix="edgec-pjrt-")
        self._shardy: Any = None

    def find(self, what: str, program: bytes, *, apart: bool) -> Made:
        """The module for a program on a device.

        Args:
            what: it is compiled for: a driver of edgert's, and a GPU's capability (`cuda:90`).
            program: a portable artifact.
            apart: whether what may die has processes of its own.

        Raises:
            EdgecError: it cannot be compiled.
        """
        key = key_of("pjrt", what, program, fingerprint())
        return self._kept(key) or self._new(what, program, key, apart=apart)

    def find_spread(self, what: str, program: bytes, devices: int, *, apart: bool) -> Made:
        """The same for a program that says how arrays are cut, and for how many devices.

        Raises:
            EdgecError: it cannot be cut, or not compiled.
        """
        key = key_of("pjrt", what, str(devices), program, fingerprint(), cutters())
        return self._kept(key) or self._new_spread(what, program, devices, key, apart=apart)

    def kept(self, key: str) -> Made:
        """The module of that key.

        Raises:
            FileError: edgec's cache does not have it (any more).
        """
        made = self._kept(key)
        if made is None:
            raise FileError(
                f"edgec's cache in {self._cache.folder} has no module of this program",
                hint=f"set ${CACHE_VARIABLE} to a folder that can be written to, and start again",
            )
        return made

    def _new(self, what: str, program: bytes, key: str, *, apart: bool) -> Made:
        from edgec.plugins.pjrt.program import compile_for, read

        found = read(program)
        given = json.dumps([found.donated, sorted(found.places.items())])
        plain = key_of("pjrt", what, found.plain, given, fingerprint())
        made = self._kept(plain)
        if made is None:
            path = Path(self._folder.name) / f"{plain}.vmfb"
            with contextlib.nullcontext() if apart else working_here(answered):
                costs = compile_for(what, found.program, path, found.places)
            made = Made(
                path=path,
                key=plain,
                name=found.name,
                donated=found.donated,
                outputs=found.outputs,
                costs=costs,
            )
            note = {"name": made.name, "donated": made.donated, "outputs": made.outputs}
            note["costs"] = costs
            self._cache.put(plain, path.read_bytes(), note)
        self._cache.put(key, b"", {"same": plain})
        return self._kept(plain) or made

    def _new_spread(
        self, what: str, program: bytes, devices: int, key: str, *, apart: bool
    ) -> Made:
        from edgec.exporters.mesh.asking import Shardy
        from edgec.plugins.pjrt.cutting import read_whole, spread
        from edgec.plugins.pjrt.program import compile_for

        shardy = self._shardy = self._shardy or Shardy()
        whole = read_whole(program, shardy)
        given = json.dumps([whole.donated, whole.placed])
        plain = key_of("pjrt", what, str(devices), whole.plain, given, fingerprint(), cutters())
        made = self._kept(plain)
        if made is None:
            parts, told = spread(whole, devices, shardy)
            path = Path(self._folder.name) / f"{plain}.vmfb"
            path.write_bytes(b"")
            costs: tuple[int, ...] = (0, 0, 0)
            with contextlib.nullcontext() if apart else working_here(answered):
                if parts is not None:
                    costs = compile_for(what, parts, path)
            if costs:
                flops, moved, held = costs
                costs = (flops, moved + told.spoken, held)
            note = {"name": whole.name, "donated": whole.donated, "spread": told.to_json()}
            made = Made(
                path=path,
                key=plain,
                name=whole.name,
                donated=whole.donated,
                spread=told,
                costs=costs,
            )
            note["costs"] = costs
            self._cache.put(plain, path.read_bytes(), note)
        self._cache.put(key, b"", {"same": plain})
        return self._kept(plain) or made

    def _kept(self, key: str) -> Made | None:
        entry = self._cache.get(key)
        if entry is None:
            return None
        if "same" in entry.note:
            return self._kept(str(entry.note["same"]))
        note = entry.note
        return Made(
            path=entry.payload,
            key=key,
            name=note["name"],
            donated=tuple(note["donated"]),
            outputs=tuple(note.get("outputs", ())),
            costs=tuple(note["costs"]),
            spread=Spread.from_json(note["spread"]) if "spread" in note else None,
        )
