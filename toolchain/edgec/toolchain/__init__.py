"""edgec.toolchain."""
