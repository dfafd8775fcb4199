"""Numbers to literals of MLIR."""

import math
import struct

__all__ = ["literal"]


_LARGEST = 3.4028234663852886e38


def literal(value: float) -> str:
    """A literal that MLIR reads back as the same f32, the largest where f32 has no larger one."""
    if math.isfinite(value):
        value = max(-_LARGEST, min(value, _LARGEST))
    return f"0x{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"
