"""The pass for programs with dynamic dimensions.

Only `rewrite` and `sizes` import without the compiler; the rest is imported when the pass runs.
"""

from edgec.toolchain.passes.legalise.dynamic_shapes.rewrite import DynamicShapes

__all__ = ["DynamicShapes"]
