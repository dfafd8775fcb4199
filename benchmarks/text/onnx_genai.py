"""A GGUF file's model to a folder that onnxruntime-genai reads, by that package's own builder.

python -m benchmarks.text.onnx_genai smol.gguf -o smol_genai --package=SITE_PACKAGES

The builder reads floats alone: so blocks become those, and it makes blocks of four bits of them
(`MatMulNBits`, groups of 32, products in bytes: `accuracy_level=4`, as its own models have it). It
needs PyTorch and transformers, which this Python has; the package itself may be another one's.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from edgec.exporters.from_transformers.opening import open_model

_BUILDER = Path("onnxruntime_genai") / "models" / "builder.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="the GGUF file")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--package", type=Path, required=True, help="where onnxruntime_genai is")
    parser.add_argument("--bits", choices=("int4", "int8"), default="int4")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _save(chosen.file, Path(folder))
        command = [sys.executable, str((chosen.package / _BUILDER).resolve())]
        command += ["-m", chosen.file.stem, "-i", folder, "-o", str(chosen.output)]
        command += ["-p", chosen.bits, "-e", "cpu", "-c", f"{folder}/cache"]
        command += ["--extra_options", "accuracy_level=4"]
        environment = os.environ | {"HF_HUB_OFFLINE": "1"}
        return subprocess.run(command, check=False, env=environment).returncode


def _save(file: Path, folder: Path) -> None:
    """The model as transformers writes it; one that came out of a GGUF file refuses to be saved."""
    opened = open_model(str(file), floats=True)
    config = opened.model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = type(opened.model)(config)
    plain.load_state_dict(opened.model.state_dict())
    plain.save_pretrained(folder)
    opened.tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    sys.exit(main())
