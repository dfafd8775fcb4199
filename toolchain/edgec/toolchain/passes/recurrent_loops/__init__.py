"""The pass that makes one kernel of a loop of small steps.

Only `rewrite` imports without the compiler; the rest is imported when the pass runs.
"""

from edgec.toolchain.passes.recurrent_loops.rewrite import RecurrentLoops

__all__ = ["RecurrentLoops"]
