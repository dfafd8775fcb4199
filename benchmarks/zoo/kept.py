"""The zoo's rows as they are kept beside its page: a file a kind, models that say the same as one.

A row in `build` holds all that was found; here is what the page is made of. Most models are right
and say nothing else, so what they share stands once, before their names.
"""

import json
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.zoo.row import Row, without_folders

__all__ = ["read", "write"]

_RESULT = ("ok", "own", "problem", "proves", "device", "error", "what", "where")
_EXPORT = ("error", "what", "where")
_WIDTH = 100


def read(folder: Path) -> dict[str, Row]:
    """All rows of a folder by key; none where it is not there.

    Raises:
        ValueError: a file is not one of these.
    """
    rows = {}
    for path in sorted(folder.glob("*.json")):
        try:
            for group in json.loads(path.read_text(encoding="utf-8")):
                for name in group.pop("names"):
                    row = Row(kind=path.stem, name=name, **group)
                    rows[row.key] = row
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} holds no rows of the zoo: {error}") from error
    return rows


def write(folder: Path, rows: Iterable[Row]) -> None:
    """Write all rows; files of the folder whose kinds have none stay."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds: dict[str, dict[str, list[str]]] = {}
    for row in sorted(rows, key=lambda row: row.key):
        shared = without_folders(json.dumps(_shared(row)))
        kinds.setdefault(row.kind, {}).setdefault(shared, []).append(row.name)
    for kind, groups in kinds.items():
        text = ",\n".join(_spelt(shared, names) for shared, names in groups.items())
        (folder / f"{kind}.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


def _spelt(shared: str, names: list[str]) -> str:
    """A group as JSON, its names in lines that a person can compare."""
    words = textwrap.fill(
        ", ".join(map(json.dumps, names)),
        _WIDTH,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f'{shared[:-1]}, "names": [\n{words}\n]}}'


def _shared(row: Row) -> dict[str, Any]:
    """What the page tells of a row, but for its kind and name; what it does not say is left out."""
    told = asdict(
        replace(
            row,
            code="",
            export=_part(row.export, _EXPORT),
            results={
                target: {} if found == row.export else _part(found, _RESULT)
                for target, found in row.results.items()
            },
        )
    )
    return {
        name: value
        for name, value in told.items()
        if name not in ("kind", "name") and (value or name == "held_out")
    }


def _part(found: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    told = {name: found[name] for name in names if found.get(name) not in (None, "")}
    return {**told, "own": round(told["own"], 2)} if "own" in told else told
