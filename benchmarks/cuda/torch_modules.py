"""The networks of `torch_models.py` to modules for a GPU: by edgec and by plain iree-compile.

Run as `python benchmarks/cuda/torch_modules.py FOLDER [NAMES]`; needs no GPU, PyTorch,
`transformers` and `timm`. Weights stay outside: `torch_run.py` draws them where it runs.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from torch_models import TORCH_MODELS, build

from edgec import exporters, toolchain
from edgec.runtime.errors import EdgecError
from edgec.targets import find

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.zoo.kinds.torch_models import declare_torchvision


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--type", default="f16", choices=["f16", "f32"])
    parser.add_argument("--target", default="cuda:sm_90")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    target = find(options.target)
    declare_torchvision()
    for name in options.names or TORCH_MODELS:
        stem = f"{name}-{options.type}.{target.backend.value}"
        weights = options.folder / f"{stem}.safetensors"
        start = time.monotonic()
        try:
            model, inputs = build(name, options.type)
            program = exporters.export(model, inputs, external_weights=weights)
            _keep_lifted(model, weights, options.folder / f"{stem}.npz")
            made = toolchain.compile_with_report(
                program,
                target,
                toolchain.CompileOptions(
                    output=options.folder / f"{stem}.edgec.vmfb", cache=False, check=False
                ),
            )
        except EdgecError as error:
            print(f"{stem}: {error}", flush=True)
            continue
        finally:
            weights.unlink(missing_ok=True)
        share = made.report.kernels
        left = [] if share is None else [str(each) for each in share.left[:5]]
        facts = {"seconds": round(time.monotonic() - start), "kernels": str(share), "left": left}
        (options.folder / f"{stem}.json").write_text(json.dumps(facts, indent=1) + "\n")
        print(f"{stem}: {share}, {facts['seconds']} s", flush=True)


def _keep_lifted(model: Any, weights: Path, path: Path) -> None:
    """Write the constants of the code that were put with the weights; `torch_run.py` has no such.

    Weights themselves are drawn again where the modules run.
    """
    from safetensors.numpy import load_file

    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    lifted = {name: data for name, data in load_file(weights).items() if name not in named}
    if lifted:
        np.savez(path, **lifted)


if __name__ == "__main__":
    main()
