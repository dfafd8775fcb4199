"""A target that runs here and is compiled for as a 64-bit Arm is, whose vectors are narrow."""

from dataclasses import replace

from edgec.targets import Target, Vectors, find

__all__ = ["BY_LANE"]

_HERE = find("cpu")
_VECTORS = (Vectors(lanes=4, registers=32, by_lane=True, halves=True),)
BY_LANE: Target = replace(_HERE, cpu=replace(_HERE.cpu, vectors=_VECTORS))
"""This machine, as if its multiplications took lanes of registers."""
