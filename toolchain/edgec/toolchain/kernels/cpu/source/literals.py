"""Numbers to literals of MLIR."""

import struct

__all__ = ["literal"]


def literal(value: float) -> str:
    """A literal that MLIR reads back as the same f32."""
    return f"0x{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"
