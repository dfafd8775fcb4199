"""The pass that puts channels last.

Only `rewrite` imports without the compiler; the rest is imported when the pass runs.
"""

from edgec.toolchain.passes.simplify.channels_last.rewrite import ChannelsLast

__all__ = ["ChannelsLast"]
