"""A product or convolution of a GPU to other tiles than the model's, the likeliest first."""

from edgec.targets import Backend, Target
from edgec.toolchain.kernels.cuda import choice as cuda
from edgec.toolchain.kernels.gpu.tiles import ConvolutionKey, ProductKey, Tile
from edgec.toolchain.kernels.vulkan import choice as vulkan

__all__ = ["expected", "tiles_for"]

_MOST = 8
_PER_FORM = 3


def tiles_for(key: ProductKey | ConvolutionKey, target: Target) -> list[Tile]:
    """The tiles worth a try: a few of each form by the model's times, its own choice first."""
    found: list[Tile] = []
    for tile, _ in _ranked(key, target):
        if sum(each.form == tile.form for each in found) < _PER_FORM:
            found.append(tile)
    return found[:_MOST]


def expected(key: ProductKey | ConvolutionKey, target: Target) -> float:
    """The seconds that the model expects of its own choice."""
    ranked = _ranked(key, target)
    return ranked[0][1] * 1e-6 if ranked else 0.0


def _ranked(key: ProductKey | ConvolutionKey, target: Target) -> list[tuple[Tile, float]]:
    gpu = target.gpu
    if gpu is None or not gpu.kernels:
        return []
    if target.backend is Backend.CUDA:
        along = isinstance(key, ProductKey) and key.layout.endswith("t")
        found = cuda.ranked(
            gpu,
            key.sizes,
            batch=key.batch,
            taps=key.taps,
            f32=key.element == "f32",
            along=along,
        )
        return [(each.tile, each.time) for each in found]
    m, n, k = key.sizes
    matrix = vulkan.multiplies(gpu, key.element)
    sizes = (m, n, k * max(key.taps, 1))
    window = isinstance(key, ConvolutionKey)
    others = vulkan.ranked(gpu, sizes, batch=key.batch, matrix=matrix, window=window)
    return [(each.tile, each.time) for each in others]
