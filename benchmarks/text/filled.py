"""A weights file of another's names, types and sizes, of numbers from a seed.

python -m benchmarks.text.filled --header llama.safetensors -o llama.header
python benchmarks/text/filled.py llama.header -o llama.safetensors

For a machine that a file of hundreds of megabytes cannot be brought to: the first lines of it say
what it holds, and both machines make the same numbers. Such a model says nothing, at the speed of
the real one. Needs NumPy alone.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

_LENGTH = 8
"""Bytes that say how long the header is, little-endian (the format of safetensors)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="a weights file, or its header alone")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--header", action="store_true", help="write the header, not the numbers")
    chosen = parser.parse_args()
    header = header_of(chosen.file)
    with chosen.output.open("wb") as stream:
        stream.write(header)
        if not chosen.header:
            for kind, count in parts_of(header):
                stream.write(numbers(kind, count, np.random.default_rng(count)).tobytes())


def header_of(path: Path) -> bytes:
    """The bytes before a file's numbers."""
    with path.open("rb") as stream:
        length = stream.read(_LENGTH)
        return length + stream.read(int.from_bytes(length, "little"))


def parts_of(header: bytes) -> list[tuple[str, int]]:
    """Each array's type and how many numbers it has, as they lie in the file."""
    entries: dict[str, Any] = json.loads(header[_LENGTH:])
    entries.pop("__metadata__", None)
    by_place = sorted(entries.values(), key=lambda entry: entry["data_offsets"][0])
    return [(entry["dtype"], math.prod(entry["shape"])) for entry in by_place]


def numbers(kind: str, count: int, draw: np.random.Generator) -> np.ndarray:
    """Codes of any bits, halves as small as scales are, floats about 1 as norms are; or zeros."""
    if kind in ("I8", "U8"):
        return draw.integers(0, 256, count, dtype=np.uint8)
    if kind == "F16":
        return draw.uniform(0.002, 0.02, count).astype(np.float16)
    if kind == "F32":
        return draw.uniform(0.5, 1.5, count).astype(np.float32)
    return np.zeros(count, {"I32": np.int32, "I64": np.int64}[kind])


if __name__ == "__main__":
    main()
