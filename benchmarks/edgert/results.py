"""Measured figures to a JSON file and back, with the machine they are from."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.edgert.measure import CONTENDERS, Contender, Figures

__all__ = ["Result", "read", "write"]


@dataclass(frozen=True, kw_only=True)
class Result:
    """One model.

    Attributes:
        name: of the model.
        title: as in tables.
        figures: a contender each, in the order of `CONTENDERS`.
    """

    name: str
    title: str
    figures: dict[Contender, Figures]

    def call(self, number: int) -> float:
        """Seconds of the fastest call of a contender, by its place in `CONTENDERS`."""
        return min(self.figures[CONTENDERS[number]].calls)

    def life(self, number: int) -> float:
        """Seconds of the shortest process that loads and calls once."""
        return min(self.figures[CONTENDERS[number]].lives)

    def peak(self, number: int) -> float:
        """Bytes that such a process needs at most; the least of all, since pages come in groups."""
        return min(self.figures[CONTENDERS[number]].peaks)


def write(path: Path, about: dict[str, Any], results: list[Result]) -> None:
    """A line a model, so that files can be compared."""
    lines = ",\n".join(
        json.dumps(
            {
                "name": result.name,
                "title": result.title,
                **{contender.name: asdict(found) for contender, found in result.figures.items()},
            }
        )
        for result in results
    )
    path.write_text(f'{{"about": {json.dumps(about, indent=1)},\n"rows": [\n{lines}\n]}}\n')


def read(path: Path) -> tuple[dict[str, Any], list[Result]]:
    """What `write` wrote."""
    kept = json.loads(path.read_text())
    results = [
        Result(
            name=row["name"],
            title=row["title"],
            figures={contender: Figures(**row[contender.name]) for contender in CONTENDERS},
        )
        for row in kept["rows"]
    ]
    return kept["about"], results
