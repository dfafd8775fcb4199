"""A GGUF file's model to what engines read that read no GGUF, by those engines' own converters.

python -m benchmarks.text.converted onnxruntime-genai smol.gguf -o smol_genai --package=PATH
python -m benchmarks.text.converted litert-lm smol.gguf -o smol_litert --package=PATH

Both read floats alone: so blocks become those, and the converter makes four bits of them, with
products in bytes: onnxruntime-genai's builder groups of 32 (`accuracy_level=4`), litert-torch a
scale for each output (`dynamic_wi4_afp32`). They need PyTorch and transformers, which this Python
has; `--package` is the folder where `onnxruntime_genai` is, or `litert_torch` and what it needs
beside (`pip install --no-deps --target`: its own requirements would change this Python's).
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from edgec.exporters.from_transformers.opening import open_model

_BUILDER = Path("onnxruntime_genai") / "models" / "builder.py"
_LITERT = """
import sys
sys.path.append(sys.argv[3])
from litert_torch.generative.export_hf.export import export
export(sys.argv[1], sys.argv[2], prefill_lengths=[256], cache_length=512,
       quantization_recipe="dynamic_wi4_afp32", bundle_litert_lm=True)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=("onnxruntime-genai", "litert-lm"))
    parser.add_argument("file", type=Path, help="the GGUF file")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--package", type=Path, required=True, help="where the converter is")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _save(chosen.file, Path(folder))
        command = _command(chosen, folder)
        environment = os.environ | {"HF_HUB_OFFLINE": "1"}
        return subprocess.run(command, check=False, env=environment).returncode


def _command(chosen: argparse.Namespace, folder: str) -> Sequence[str]:
    """What converts a folder of transformers."""
    output, package = str(chosen.output), chosen.package.resolve()
    if chosen.engine == "litert-lm":
        return [sys.executable, "-c", _LITERT, folder, output, str(package)]
    return [
        *(sys.executable, str(package / _BUILDER), "-m", chosen.file.stem),
        *("-i", folder, "-o", output, "-p", "int4", "-e", "cpu", "-c", f"{folder}/cache"),
        *("--extra_options", "accuracy_level=4"),
    ]


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
