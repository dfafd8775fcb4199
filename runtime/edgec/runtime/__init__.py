"""edgec.runtime."""
