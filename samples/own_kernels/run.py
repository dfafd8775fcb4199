"""Clean a dusty photograph by kernels and in plain JAX: the same picture, and how long each takes.

python samples/own_kernels/run.py
python samples/own_kernels/run.py --targets cpu,vulkan
"""

import argparse
import time

import numpy as np
from filters import clean, dusty, photograph, plainly

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import compile

TIMES = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", default="cpu", help="for example cpu,vulkan")
    chosen = parser.parse_args()

    before = float(np.mean((dusty() - photograph()) ** 2))
    for target in chosen.targets.split(","):
        own, own_seconds = cleaned(clean, target)
        plain, plain_seconds = cleaned(plainly, target)
        apart = float(np.abs(own - plain).max())
        print(
            f"{target}: mean square of the dust {before:.4f}, of what is left {left(own):.4f}; "
            f"{own_seconds * 1e3:.1f} ms with the kernels, {plain_seconds * 1e3:.1f} ms without; "
            f"the pictures are {apart:.1e} apart"
        )


def cleaned(model, target: str) -> tuple[np.ndarray, float]:
    """The picture that a module gives, and the least seconds of a call."""
    function, (picture,) = model()
    module = compile(export(function, (picture,)), target)
    with load(module.path, device=target) as loaded:
        found = np.asarray(loaded.main(picture))
        seconds = []
        for _ in range(TIMES):
            start = time.perf_counter()
            loaded.main(picture)
            seconds.append(time.perf_counter() - start)
    return found, min(seconds)


def left(picture: np.ndarray) -> float:
    """How far a picture is from the photograph without dust, its contrast raised alike."""
    return float(np.mean((picture - np.clip(1.2 * photograph() - 0.1, 0, 1)) ** 2))


if __name__ == "__main__":
    main()
