"""Template files to text: `@name@` is replaced, everything else stays."""

import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["render"]

_FOLDER = Path(__file__).resolve().parent
_PLACE = re.compile(r"@(\w+)@")


def render(template: str, values: Mapping[str, str]) -> str:
    """A template by its path under this folder, without `.in`.

    Raises:
        KeyError: it has a place that no value is for.
    """
    text = (_FOLDER / f"{template}.in").read_text(encoding="utf-8")
    return _PLACE.sub(lambda found: values[found[1]], text)
