"""Files of the `mediapipe` wheel (0.10.21, the last that ships its models): trained, for phones."""

from importlib.metadata import files
from pathlib import Path

from benchmarks.zoo.subject import Built

__all__ = ["build", "names"]


def names() -> list[str]:
    return sorted(_paths())


def build(name: str) -> Built:
    return Built(model=str(_paths()[name]))


def _paths() -> dict[str, Path]:
    return {
        file.stem: Path(str(file.locate()))
        for file in files("mediapipe") or ()
        if file.suffix == ".tflite"
    }
