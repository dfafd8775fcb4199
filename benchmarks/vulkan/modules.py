"""The networks of the CUDA benchmark to Vulkan modules, with and without edgec's own kernels.

Run as `python benchmarks/vulkan/modules.py FOLDER [NAMES]`; needs no GPU. It leaves
NAME.vulkan.vmfb, NAME.without.vmfb and, for the same card through CUDA, NAME.cuda.vmfb, and in
NAME.npy the answer as JAX gives it in f32.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from edgec import toolchain
from edgec.runtime.errors import EdgecError
from edgec.targets import find

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))

VARIANTS = {
    "vulkan": ("vulkan:nvidia-ada", ()),
    "without": ("vulkan:nvidia-ada", ("vulkan-kernels",)),
    "cuda": ("cuda:sm_90", ()),
}
NAMES = ("resnet50-float32", "resnet50-float16", "bert-base-float32", "bert-base-float16")


def answer(name: str) -> np.ndarray:
    """What the network gives in f32."""
    import jax
    from models import MODELS

    network = MODELS[name]()
    image, weights = network.draw(0)
    wide = [each.astype(np.float32) for each in (image, *weights)]
    with jax.default_matmul_precision("highest"):
        return np.asarray(jax.jit(network.exact)(wide[0], wide[1:]))


def main() -> None:
    from modules import text_of  # of the folder `cuda`

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or NAMES:
        source = options.folder / f"{name}.mlir"
        source.write_text(text_of(name))
        np.save(options.folder / f"{name}.npy", answer(name))
        for variant in options.variants:
            target, disabled = VARIANTS[variant]
            output = options.folder / f"{name}.{variant}.vmfb"
            try:
                toolchain.compile(
                    source,
                    find(target),
                    toolchain.CompileOptions(
                        output=output, cache=False, check=False, disabled=disabled
                    ),
                )
            except EdgecError as error:
                print(f"{name}: {variant}: {error}")
        print(name, flush=True)


if __name__ == "__main__":
    main()
