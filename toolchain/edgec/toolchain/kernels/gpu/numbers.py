"""Floats as the integers that kernels of GPUs are given at a call."""

import math
import struct

__all__ = ["bits"]

_LARGEST = 3.4028234663852886e38


def bits(number: float) -> int:
    """The bits of the nearest f32 as a signed integer; what is finite stays so."""
    bounded = number if math.isinf(number) else min(max(number, -_LARGEST), _LARGEST)
    found: int = struct.unpack("<i", struct.pack("<f", bounded))[0]
    return found
