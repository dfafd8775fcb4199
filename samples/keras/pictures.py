"""Photographs from scikit-learn, cut into tiles: one to learn from, another held out.

As a command, writes tiles of the held-out photograph with noise, and without:

    python samples/keras/pictures.py     noisy.npy, noisy-13.npy and clean.npy in this folder
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SIZE = 32
NOISE = 0.1
"""Standard deviation of the noise; a pixel is between 0 and 1."""


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """Tiles f32[n, 32, 32, 3] of a photograph, as taken and with noise."""

    clean: np.ndarray
    noisy: np.ndarray

    def some(self, count: int) -> "Tiles":
        """`count` of the tiles, spread evenly."""
        which = np.linspace(0, len(self.clean) - 1, count).astype(int)
        return Tiles(clean=self.clean[which], noisy=self.noisy[which])


def to_learn_from(count: int) -> Tiles:
    """Tiles from anywhere in a photograph of a Chinese temple; the same ones every time."""
    picture = _photograph("china.jpg")
    random = np.random.default_rng(0)
    tops = random.integers(0, picture.shape[0] - SIZE, count)
    lefts = random.integers(0, picture.shape[1] - SIZE, count)
    clean = [
        picture[top : top + SIZE, left : left + SIZE] for top, left in zip(tops, lefts, strict=True)
    ]
    return _with_noise(np.stack(clean), seed=1)


def held_out() -> Tiles:
    """All 260 whole tiles of a photograph of a flower, row by row."""
    picture = _photograph("flower.jpg")
    rows, columns = picture.shape[0] // SIZE, picture.shape[1] // SIZE
    cut = picture[: rows * SIZE, : columns * SIZE]
    tiles = cut.reshape(rows, SIZE, columns, SIZE, 3).transpose(0, 2, 1, 3, 4)
    return _with_noise(tiles.reshape(-1, SIZE, SIZE, 3), seed=2)


def decibels(picture: np.ndarray, clean: np.ndarray) -> float:
    """Peak signal-to-noise ratio: how near a picture is to the clean one; more is better."""
    return float(-10 * np.log10(np.mean((picture - clean) ** 2)))


def _photograph(name: str) -> np.ndarray:
    from sklearn.datasets import load_sample_image

    return load_sample_image(name).astype(np.float32) / 255


def _with_noise(clean: np.ndarray, seed: int) -> Tiles:
    noise = np.random.default_rng(seed).normal(0, NOISE, clean.shape)
    clean = np.ascontiguousarray(clean)
    return Tiles(clean=clean, noisy=(clean + noise).astype(np.float32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=Path(), help="the folder to write to")
    folder = parser.parse_args().to
    tiles = held_out()
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "noisy.npy", tiles.noisy)
    np.save(folder / "noisy-13.npy", tiles.some(13).noisy)
    np.save(folder / "clean.npy", tiles.clean)
    print(f"{folder / 'noisy.npy'}     {len(tiles.noisy)} tiles of a photograph, with noise")
    print(f"{folder / 'noisy-13.npy'}  13 of them, spread over the picture")
    print(f"{folder / 'clean.npy'}     all as the camera took them")


if __name__ == "__main__":
    main()
