"""A program to one whose products read weights of 8 or 4 bits, and what that costs its answers."""

from edgec.quantising.quantise import Line, Quantised, quantise
from edgec.quantising.scheme import GROUPS, Scheme

__all__ = ["GROUPS", "Line", "Quantised", "Scheme", "quantise"]
