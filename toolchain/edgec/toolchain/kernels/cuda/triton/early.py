"""Kernels that begin before those before them have ended, and wait for these by themselves.

A GPU takes as long to begin a small kernel as to run it. From Hopper on one may begin while the one
before still runs; edgert's driver lets those that wait by themselves.
"""

import triton
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

__all__ = ["begin"]


@triton.jit
def begin():
    """Let the next kernel begin, and wait for the ones before this."""
    gdc_launch_dependents()
    gdc_wait()
