"""The digits sample's trained network in the words of `benchmarks.peers`, for a browser's pages."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.peers.models.model import Model
from benchmarks.peers.nets.net import Input, Net, Value
from benchmarks.peers.weights import Weights

__all__ = ["DIGITS"]

_SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "digits"


def _trained() -> Weights:
    """The weights of `samples/digits`, in the form that `_read` asks for."""
    trained = _SAMPLE / "weights.npz"
    if not trained.exists():
        subprocess.run([sys.executable, _SAMPLE / "train.py"], check=True)
    with np.load(trained) as kept:
        found = {name.removeprefix("params/"): kept[name] for name in kept.files}
    second = np.pad(found["features/Conv_1/kernel"], ((1, 0), (1, 0), (0, 0), (0, 0)))
    return Weights(
        {
            "first.kernel": found["features/Conv_0/kernel"],
            "first.bias": found["features/Conv_0/bias"],
            "second.kernel": second,
            "second.bias": found["features/Conv_1/bias"],
            "all.kernel": found["features/Dense_0/kernel"].reshape(4, 4, 32, 64),
            "all.bias": found["features/Dense_0/bias"],
            "readout.kernel": found["readout/kernel"],
            "readout.bias": found["readout/bias"],
        }
    )


def _read(net: Net, weights: Weights, image: Value) -> tuple[Value, ...]:
    """Scores of the ten digits from an image of 8 x 8.

    The sample's second convolution, whose 3 x 3 windows begin at every other pixel, has a row and a
    column of zeros before its kernel here, since a net's words pad all sides alike; the layer over
    all that is left of the image is a convolution of its size, whichever way images lie.
    """

    def layer(x: Value, name: str, kernel: tuple[int, ...], stride: int, pad: int) -> Value:
        bias = weights.bias(f"{name}.bias", kernel[-1])
        x = net.conv(x, weights.kernel(f"{name}.kernel", kernel), bias, stride=stride, pad=pad)
        return net.activate(x, "relu")

    x = net.mul(image, 1 / 16)
    x = layer(x, "first", (3, 3, 1, 16), 1, 1)
    x = layer(x, "second", (4, 4, 16, 32), 2, 1)
    x = layer(x, "all", (4, 4, 32, 64), 1, 0)
    kernel = weights.kernel("readout.kernel", (64, 10))
    return (net.dense(net.vector(x, 64), kernel, weights.bias("readout.bias", 10)),)


DIGITS = Model(
    name="digits",
    title="Digits (the sample's)",
    inputs=(Input(name="image", shape=(1, 8, 8, 1), image=True),),
    define=_read,
    weights=_trained,
)
