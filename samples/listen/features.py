"""Sound to what Whisper reads: how loud each of some bands of pitch is, 100 times a second."""

import wave
from pathlib import Path

import numpy as np

__all__ = ["RATE", "log_mel", "samples_of"]

RATE = 16_000
"""Samples a second."""

_WINDOW, _STEP = 400, 160
_SECONDS = 30


def samples_of(path: Path) -> np.ndarray:
    """A `.wav` file of 16-bit samples at 16 kHz, its channels' mean, from -1 to 1."""
    with wave.open(str(path)) as file:
        if file.getframerate() != RATE or file.getsampwidth() != 2:
            raise SystemExit(f"{path}: 16-bit samples at {RATE} a second are read")
        whole = np.frombuffer(file.readframes(file.getnframes()), np.int16)
        return whole.reshape(-1, file.getnchannels()).mean(1).astype(np.float32) / 32768


def log_mel(samples: np.ndarray, bands: int = 80) -> np.ndarray:
    """Features of 30 seconds, bands x 3000, as Whisper was trained on them.

    Args:
        samples: at 16 kHz, at most 30 seconds of them; silence is put behind.
        bands: of pitch, evenly spaced as ears hear them.
    """
    whole = np.zeros(_SECONDS * RATE)
    whole[: len(samples)] = samples[: len(whole)]
    padded = np.pad(whole, _WINDOW // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_STEP][:-1]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_WINDOW) / _WINDOW)
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    loud = np.log10(np.maximum(power @ _bands(bands), 1e-10)).T
    loud = np.maximum(loud, loud.max() - 8)
    return ((loud + 4) / 4).astype(np.float32)


def _bands(count: int) -> np.ndarray:
    """Frequencies x bands: triangles on Slaney's scale, each of the same area."""
    frequencies = np.linspace(0, RATE / 2, _WINDOW // 2 + 1)
    edges = _hertz(np.linspace(0, _mels(RATE / 2), count + 2))
    below, centre, above = edges[:-2], edges[1:-1], edges[2:]
    rising = (frequencies[:, None] - below) / (centre - below)
    falling = (above - frequencies[:, None]) / (above - centre)
    triangles = np.maximum(0, np.minimum(rising, falling))
    return np.asarray(triangles * (2 / (above - below)))


_STRAIGHT, _BEND, _PER_OCTAVE = 200 / 3, 1000.0, 27 / np.log(6.4)
"""Hertz of a step up to 1 kHz; from there on steps grow."""


def _mels(hertz: float) -> float:
    return float(_BEND / _STRAIGHT + np.log(hertz / _BEND) * _PER_OCTAVE)


def _hertz(mels: np.ndarray) -> np.ndarray:
    bend = _BEND / _STRAIGHT
    return np.where(
        mels < bend, mels * _STRAIGHT, _BEND * np.exp((np.maximum(mels, bend) - bend) / _PER_OCTAVE)
    )
