"""Products, convolutions, attention and norms as kernels of edgec's own on GPUs through Vulkan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgec.targets import Backend, Gpu, Limits
from edgec.toolchain.flags import most_filled
from edgec.toolchain.kernels.gpu.tiles import Tile
from edgec.toolchain.kernels.spec import Answers
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.simplify.hold_blocks import release
from edgec.toolchain.passes.situation import Situation

__all__ = ["VulkanKernels"]


@dataclass(frozen=True, kw_only=True)
class VulkanKernels:
    """Products and convolutions in f32, in f16 for matrix units, attention and norms become SPIR-V.

    The compiler's own code for them gives an image of batch 1 few workgroups, each with all of
    the inner dimension to sum. The kernels are written in GLSL (`kernels/vulkan/glsl`), compiled
    when they are needed (with `edgec[vulkan]`: masks, windows and groups are constants then) or
    beforehand, and linked into the module as external executables, so it stays one file. They
    split the inside where there are few tiles, gather a convolution's rows from the image, sum in
    f32 and take along the bias, the activation and the residual that follow element by element.
    Attention keeps its scores in shared memory, a block of keys after the other, with all masks
    and biases, and in f16 multiplies on matrix units; the compiler's code for it does not load on
    NVIDIA's driver at the sizes of a ViT-B/16. A norm over any axes is one kernel, which holds its
    rows in registers. Sums of columns (the mean of an image's pixels) and products of one row are
    shared by a workgroup's threads, where the compiler gives each column to one of them. Of two
    tensors beside each other it copies what kernels have made a few elements a workgroup; a kernel
    does it at once, and so one does for an edge around an image, which it turns on the way. On GPUs
    without matrix units (phones, and any GPU that a page finds) products and convolutions share no
    memory: a thread reads what it multiplies, in f32 and f16; windows of 3 x 3 over many pixels in
    f32 are computed by Winograd's minimal filtering. Columns that are no multiple of 4 (8 for
    matrix units) are filled up with zeros; an inside that is none, products by matrix units in
    batches or with a turned matrix, heads wider than 256 (128 on phones), and other types stay with
    the compiler.

    What a language model does has kernels of its own where glslang is here: products read weights
    of 8 and 4 bits in blocks as they lie, those of up to 8 rows several of the same rows at once,
    with the norm before them and a gate behind; attention of up to 8 queries splits its keys among
    workgroups, and reads none that a mask hides; slices are put where the device says, with the
    turn by their position, so that the host waits for nothing in the middle of a call and its
    commands are recorded once. SmolLM2-135M's Q4_1 took 12.9 ms a token on an H100 without these
    and takes 1.3 (CUDA: 0.9), 230 kernels; on Mesa's llvmpipe (two cores) 2.7 s and 0.9.

    Measured on an H200 (`docs/benchmarks_vulkan.md`), without and with this: ResNet-50 in f32 17.6
    and 3.5 ms, in f16 17.4 and 3.3, BERT-base in f32 7.2 and 5.3; the first answers of ResNet-50
    after 1.7 and 0.5 s (f16: 4.6 and 0.6). On the GPU alone ResNet-50 takes 1.2 ms (f16: 0.9).
    For phones (`docs/benchmarks_vulkan_software.md`) MobileNetV3 takes two thirds of the time on
    Mesa's llvmpipe, ViT-Ti a third. Products whose sizes are all multiples of 32 are left to the
    compiler there, and attention of such sizes with few scores: it is quicker at them (MiniLM).
    """

    gpu: Gpu
    answers: Answers = field(default_factory=Answers)
    tiles: Mapping[str, Tile] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    spares: bool = False
    most_filled: int = 0
    remarks: list[str] = field(default_factory=list)

    name = "vulkan-kernels"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "VulkanKernels | None":
        """For StableHLO on a Vulkan target that says which kernels it takes, at -O2 and above."""
        target = situation.target
        is_spirv = target.backend in (Backend.VULKAN, Backend.WEBGPU)
        fits = situation.is_stablehlo and is_spirv and situation.level > 1
        gpu = target.gpu
        found = situation.operations
        sums = {"stablehlo.dot_general", "stablehlo.convolution", "stablehlo.reduce"} & found
        if not fits or gpu is None or not gpu.kernels or not sums:
            return None
        return cls(
            gpu=gpu,
            answers=situation.answers,
            tiles=situation.settings.tiles,
            limits=target.limits,
            spares=situation.spares,
            most_filled=most_filled(target),
            remarks=situation.remarks,
        )

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many kernels are called."""
        from iree.compiler import ir

        from edgec.toolchain.ir.weights import Weights
        from edgec.toolchain.kernels.gpu.block_calls import said_of_floats
        from edgec.toolchain.kernels.gpu.slices import place_slices
        from edgec.toolchain.kernels.gpu.states import keep_states, spread_tests
        from edgec.toolchain.kernels.vulkan.attentions import place_attention
        from edgec.toolchain.kernels.vulkan.block_products import place_block_products
        from edgec.toolchain.kernels.vulkan.columns import rewrite_total
        from edgec.toolchain.kernels.vulkan.concatenations import place_concatenation
        from edgec.toolchain.kernels.vulkan.convolutions import place_convolution
        from edgec.toolchain.kernels.vulkan.edges import place_edges
        from edgec.toolchain.kernels.vulkan.library import Library
        from edgec.toolchain.kernels.vulkan.moves import Mover
        from edgec.toolchain.kernels.vulkan.norms import rewrite_norm
        from edgec.toolchain.kernels.vulkan.products import rewrite_product
        from edgec.toolchain.kernels.vulkan.transposes import place_transpose
        from edgec.toolchain.kernels.vulkan.weights import place_turned_weight
        from edgec.toolchain.match.norm import ROOTS
        from edgec.toolchain.match.product import operations_named

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            library = Library(
                module,
                self.gpu,
                answers=self.answers,
                tiles=self.tiles,
                limits=self.limits,
                spares=self.spares,
            )
            release(module)
            # They take norms along, so they come first.
            place_block_products(module, library)
            self.remarks.extend(said_of_floats(module, self.most_filled))
            for op in operations_named(module, "stablehlo.dot_general"):
                place_attention(op, library)
            for name in ROOTS:
                for op in operations_named(module, name):
                    rewrite_norm(op, library)
            for op in operations_named(module, "stablehlo.convolution"):
                place_convolution(op, library)
            for op in operations_named(module, "stablehlo.dot_general"):
                rewrite_product(op, library)
            for op in operations_named(module, "stablehlo.reduce"):
                rewrite_total(op, library)
            for op in operations_named(module, "stablehlo.concatenate"):
                place_concatenation(op, library)
            for op in operations_named(module, "stablehlo.transpose"):
                place_transpose(op, library)
            weights = Weights(module)
            place_edges(module, library, weights)
            for op in operations_named(module, "stablehlo.transpose"):
                place_turned_weight(op, library, weights)
            # Last, as on CUDA: what reads an array is then one dispatch.
            mover = Mover(library)
            place_slices(module, mover)
            keep_states(module, mover)
            spread_tests(module)
            self.remarks.extend(library.remarks)
            return library.calls
