"""The networks of `torch_models.py` to ncnn's, by pnnx: a text of layers each, without weights.

`python benchmarks/vulkan/ncnn_networks.py FOLDER [NAMES]`; needs no GPU, PyTorch and `pnnx`. ncnn
is timed with weights of zeros, which its own benchmark does, too: the files stay small.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from torch_models import TORCH_MODELS, build

from benchmarks.zoo.kinds.torch_models import declare_torchvision


def layers(name: str) -> str:
    """The text of ncnn's layers for a network.

    Raises:
        RuntimeError: pnnx makes none.
    """
    import pnnx
    import torch

    model, inputs = build(name, "f32")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "network.pt")
        with torch.no_grad():
            pnnx.export(model, str(path), inputs=inputs, check_trace=False)
        made = path.with_suffix(".ncnn.param")
        if not made.exists():
            raise RuntimeError("pnnx made nothing")
        return made.read_text()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    declare_torchvision()
    for name in options.names or TORCH_MODELS:
        try:
            text = layers(name)
        except Exception as error:  # noqa: BLE001 - whatever pnnx raises is a network without a row
            print(f"{name}: {str(error).strip()[:300]}", flush=True)
            continue
        # What ncnn has no layer for stays under PyTorch's name, which has dots or colons.
        kinds = {line.split()[0] for line in text.splitlines()[2:]}
        foreign = {kind for kind in kinds if "." in kind or ":" in kind}
        if foreign:
            print(f"{name}: ncnn has no {', '.join(sorted(foreign))}", flush=True)
            continue
        (options.folder / f"{name}.ncnn.param").write_text(text)
        print(f"{name}: {len(text.splitlines()) - 2} layers", flush=True)


if __name__ == "__main__":
    main()
