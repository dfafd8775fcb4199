"""Handwritten digits from scikit-learn: 1437 images to learn from, 360 held out.

As a command, writes the held-out images and what the trained model reads in them:

    python samples/digits/data.py     digits.npy, labels.npy and truth.npy in this folder
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HELD_OUT = 360


@dataclass(frozen=True, kw_only=True)
class Digits:
    """Images f32[n, 8, 8] of pen strokes (0 paper … 16 ink) and the digits i32[n] they show."""

    images: np.ndarray
    labels: np.ndarray


def load() -> tuple[Digits, Digits]:
    """The images to learn from and the ones held out; the same split every time."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    images = found.images[order].astype(np.float32)
    labels = found.target[order].astype(np.int32)
    return (
        Digits(images=images[HELD_OUT:], labels=labels[HELD_OUT:]),
        Digits(images=images[:HELD_OUT], labels=labels[:HELD_OUT]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=Path(), help="the folder to write to")
    folder = parser.parse_args().to

    from model import classifier

    function, _ = classifier()
    _, held_out = load()
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "digits.npy", held_out.images)
    np.save(folder / "labels.npy", np.asarray(function(held_out.images)["label"]))
    np.save(folder / "truth.npy", held_out.labels)
    print(f"{folder / 'digits.npy'}  {len(held_out.images)} held-out images")
    print(f"{folder / 'labels.npy'}  the digits that the model reads in them, in JAX")
    print(f"{folder / 'truth.npy'}   the digits that they show")


if __name__ == "__main__":
    main()
