"""The networks of the CUDA benchmark to modules: by edgec and by plain iree-compile.

Run as `make cuda-modules`; needs no GPU. Weights stay outside: `run.py` draws them where it runs.
"""

import argparse
import re
import subprocess
from pathlib import Path

from models import MODELS

from edgec import toolchain
from edgec.runtime.errors import EdgecError
from edgec.targets import find
from edgec.toolchain.process import compiler_path

SCOPE = "model"


def text_of(name: str) -> str:
    """StableHLO of a network whose weights are parameters `w0`, `w1`, … of the scope `model`."""
    import jax

    network = MODELS[name]()
    lowered = jax.jit(network.function).lower(*network.draw(0))
    text = str(lowered.compiler_ir("stablehlo"))
    head, body = text.split("func.func public @main(", 1)
    arguments, rest = body.split(") -> (", 1)
    first, *weights = re.findall(r"(%arg\d+): (tensor<[^>]+>)", arguments)
    head += "".join(
        f'util.global private @w{i} = #flow.parameter.named<"{SCOPE}"::"w{i}"> : {kind}\n  '
        for i, (_, kind) in enumerate(weights)
    )
    loads = "".join(
        f"    {value} = util.global.load @w{i} : {kind}\n"
        for i, (value, kind) in enumerate(weights)
    )
    results, inside = rest.split(") {\n", 1)
    return (
        f"{head}func.func public @main({first[0]}: {first[1]}) -> ({results}) {{\n{loads}{inside}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--target", default="cuda:sm_90")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    target = find(options.target)
    gpu = target.gpu
    if gpu is None:
        parser.error(f"{target.name} is no GPU")
    for name in options.names or MODELS:
        source = options.folder / f"{name}.mlir"
        source.write_text(text_of(name))
        made = {"edgec": False, "plain": False}
        path = options.folder / f"{name}.edgec.vmfb"
        try:
            toolchain.compile(
                source, target, toolchain.CompileOptions(output=path, cache=False, check=False)
            )
            made["edgec"] = True
        except EdgecError as error:
            print(f"{name}: edgec: {error}")
        line = [
            *(str(compiler_path()), str(source), "-o", str(options.folder / f"{name}.plain.vmfb")),
            *("--iree-input-type=stablehlo", "--iree-hal-target-device=cuda"),
            f"--iree-cuda-target={gpu.target}",
        ]
        finished = subprocess.run(line, capture_output=True, text=True, check=False)
        made["plain"] = finished.returncode == 0
        if finished.returncode:
            errors = [row for row in finished.stderr.splitlines() if "error:" in row]
            print(f"{name}: iree-compile: {errors[0].split('error:')[1].strip()}")
        print(f"{name}: {', '.join(word for word, done in made.items() if done)}", flush=True)


if __name__ == "__main__":
    main()
