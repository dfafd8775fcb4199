"""Images with their channels before rows and columns, re-laid with the channels last."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import blocks_inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["ChannelsLast"]


@dataclass(frozen=True, kw_only=True)
class ChannelsLast:
    """Convolutions whose channels come before rows and columns get them last.

    PyTorch and ONNX lay images out as batch, channels, rows, columns. Vectors and matrix units
    want the channels side by side, so every convolution is rewritten to batch, rows, columns,
    channels, and what lies between convolutions (activations, norms, pooling, padding,
    concatenation, sums over rows and columns) follows, so that a network is turned once where it
    begins and once where it ends, not around each layer. A norm over groups of channels, which is
    written in other shapes, is written anew. Weights are turned when compiling, those of images
    that have their channels last from the beginning, too.

    Measured: with the channels first no kernel of edgec's applies, on the CPU or on NVIDIA GPUs;
    ResNet-50 as PyTorch exports it then takes 6 times as long on two CPU threads.
    """

    name = "channels-last"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "ChannelsLast | None":
        """For StableHLO with convolutions at -O2 and above, where vectors run over channels."""
        if situation.level < 2:
            return None
        needed = situation.is_stablehlo and "stablehlo.convolution" in situation.operations
        return cls() if needed else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many operations turned."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.ir.weights import Weights
        from edgec.toolchain.passes.simplify.channels_last.turn import turn_block
        from edgec.toolchain.passes.simplify.channels_last.weights import order_weights

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            weights = Weights(module)
            blocks = blocks_inside(module.operation)
            count = sum(turn_block(block, weights) for block in blocks)
            if count:
                erase_unused(module)  # what norms were made of
            return count + order_weights(module)
