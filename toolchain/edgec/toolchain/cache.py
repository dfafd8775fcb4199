"""A content-addressed store of finished work: a key made of everything that matters, to bytes.

An entry is two files: the payload, and a JSON note with the payload's size and SHA-256 beside
whatever the writer wants to remember. The note is written last, so an entry without one does not
exist; an entry whose payload does not fit its note is ignored and removed.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.runtime.cache_folder import CACHE_VARIABLE, cache_folder
from edgec.runtime.errors import EdgecError
from edgec.runtime.files import write_atomically

__all__ = ["CACHE_VARIABLE", "Cache", "Entry", "key_of"]

_LIMIT = 4 << 30


def key_of(*parts: str | bytes) -> str:
    """One key for several parts; no two different lists of parts share one."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A sound entry: where its bytes are, and its note."""

    payload: Path
    note: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Cache:
    """A folder of entries, at most `limit` bytes; the least recently used go first.

    A cache never fails a compile: where it cannot be read or written, it is as if empty.
    """

    folder: Path
    limit: int = _LIMIT

    @classmethod
    def default(cls) -> "Cache":
        """The user's cache folder, or the one that `EDGEC_CACHE_DIR` names."""
        return cls(folder=cache_folder())

    def get(self, key: str) -> Entry | None:
        """The entry of that key, if it is there and sound."""
        payload, note_path = self._paths(key)
        try:
            note = json.loads(note_path.read_text())
            sound = note["size"] == payload.stat().st_size and note["sha256"] == _sha256(payload)
            if not sound:
                self._remove(key)
                return None
            os.utime(note_path)
            return Entry(payload=payload, note=note["note"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, data: bytes, note: Mapping[str, Any]) -> None:
        """Keep `data` under `key`, over what was there; nothing happens where it cannot be kept."""
        if len(data) > self.limit:
            return
        payload, note_path = self._paths(key)
        text = json.dumps(
            {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "note": dict(note)}
        )
        with contextlib.suppress(OSError, EdgecError):
            payload.parent.mkdir(parents=True, exist_ok=True)
            note_path.unlink(missing_ok=True)
            with write_atomically(payload) as stream:
                stream.write(data)
            with write_atomically(note_path) as stream:
                stream.write(text.encode())
            self._shrink(keep=key)

    def usage(self) -> tuple[int, int]:
        """How many entries there are, and their bytes, notes included."""
        count = size = 0
        for path in (self.folder / "objects").glob("*/*"):
            with contextlib.suppress(OSError):
                size += path.stat().st_size
                count += path.suffix == ".json"
        return count, size

    def clear(self) -> None:
        """Remove every entry; what cannot be removed stays."""
        shutil.rmtree(self.folder / "objects", ignore_errors=True)

    def _paths(self, key: str) -> tuple[Path, Path]:
        folder = self.folder / "objects" / key[:2]
        return folder / key, folder / f"{key}.json"

    def _remove(self, key: str) -> None:
        for path in self._paths(key):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _shrink(self, keep: str) -> None:
        """Remove the entries used longest ago until the rest fits."""
        entries: list[tuple[float, int, str]] = []
        for note_path in (self.folder / "objects").glob("*/*.json"):
            with contextlib.suppress(OSError):
                size = note_path.with_suffix("").stat().st_size
                entries.append((note_path.stat().st_mtime, size, note_path.stem))
        total = sum(size for _, size, _ in entries)
        for _, size, key in sorted(entries):
            if total <= self.limit:
                return
            if key != keep:
                self._remove(key)
                total -= size


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
