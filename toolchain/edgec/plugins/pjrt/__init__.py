"""The part of the PJRT plugin (`runtime/pjrt`) in Python: programs to modules."""

__all__ = ["FUNCTION"]

FUNCTION = "main"
"""What JAX calls the function of each program."""
