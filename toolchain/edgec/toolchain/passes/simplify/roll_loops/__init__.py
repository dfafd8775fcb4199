"""The pass that makes loops of steps that were written out.

Only `rewrite` imports without the compiler; the rest is imported when the pass runs.
"""

from edgec.toolchain.passes.simplify.roll_loops.rewrite import RollLoops

__all__ = ["RollLoops"]
