"""A program to one whose weights have 8 or 4 bits, and what that costs its answers."""

from edgec.quantising.cache_in_halves import quantise_cache
from edgec.quantising.choosing import MOST, quantise_by_choice
from edgec.quantising.in_bytes import quantise_to_bytes
from edgec.quantising.quantise import Line, Quantised, quantise, with_weights_as_they_are
from edgec.quantising.rows_in_bytes import quantise_with_rounded_rows
from edgec.quantising.scheme import AUTO, GROUPS, LOSSLESS, Scheme
from edgec.quantising.timing import Clock

__all__ = [
    "AUTO",
    "GROUPS",
    "LOSSLESS",
    "MOST",
    "Clock",
    "Line",
    "Quantised",
    "Scheme",
    "quantise",
    "quantise_by_choice",
    "quantise_cache",
    "quantise_to_bytes",
    "quantise_with_rounded_rows",
    "with_weights_as_they_are",
]
