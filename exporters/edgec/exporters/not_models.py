"""What is no model that edgec opens, to one error: what it is, and how to get at the model."""

import difflib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from edgec.runtime.errors import EdgecError, FileError, SourceError

__all__ = ["refuse_folder", "refuse_text"]

_IN_PYTHON = "load it in a Python file as your own code does, and name the model: FILE.py:NAME"
_PICKLED = (
    "holds PyTorch's weights or pickled objects and no program",
    f"{_IN_PYTHON}; or write the program with "
    'torch.export.save(torch.export.export(model, inputs), "model.pt2")',
)
_SCRIPTED = (
    "is a TorchScript archive (torch.jit.save), which torch.export does not take",
    "write it as ONNX: torch.onnx.export(torch.jit.load(FILE), inputs, "
    '"model.onnx", dynamo=False); or export the Python model that it was made from',
)
_WEIGHTS = ("holds weights and no program", _IN_PYTHON)

_FILES: Mapping[str, tuple[str, str]] = {
    ".pt": _PICKLED,
    ".pth": _PICKLED,
    ".ckpt": _PICKLED,
    ".bin": _WEIGHTS,
    ".safetensors": _WEIGHTS,
    ".npz": _WEIGHTS,
    ".h5": (
        "is of Keras' older format",
        'read it with keras.models.load_model, and model.save("model.keras")',
    ),
    ".pb": (
        "is a part of a TensorFlow model",
        "give the SavedModel folder that holds saved_model.pb",
    ),
    ".vmfb": ("is a compiled module", "run it with `edgec run`; export what it was compiled from"),
}
"""A suffix to what such a file is, and what to do."""

_ANY = (
    "write file.py:name, package.module:name, hf:FOLDER, a SavedModel folder, or a .keras, .pt2, "
    ".onnx, .tflite, .gguf, .mlir or .mlirbc file"
)


def refuse_folder(path: Path, suffixes: tuple[str, ...]) -> EdgecError:
    """Why a folder is no model; `suffixes` are those of model files."""
    if (path / "config.json").exists():
        return SourceError(
            f"{path} is a folder of weights with their configuration, as Hugging Face's are",
            hint=f"for a language model write hf:{path}; load any other in a Python file "
            "(AutoModel.from_pretrained), and name the model: FILE.py:NAME",
        )
    inside = sorted(p for p in path.iterdir() if p.suffix in suffixes)
    inside += sorted(p.parent for p in path.glob("*/saved_model.pb"))
    if inside:
        return SourceError(
            f"{path} is a folder and no model, but holds {', '.join(p.name for p in inside[:4])}",
            hint=f"give {inside[0]}",
        )
    return SourceError(
        f"{path} is a folder without a saved_model.pb",
        hint="give a SavedModel folder, or file.py:name",
    )


def refuse_text(text: str) -> EdgecError:
    """Why what the user wrote is no model: a file of another kind, none at all, or no name."""
    path = Path(text)
    if not path.exists() and ":" not in text:
        near = _near(path)
        return FileError(
            f"cannot read {text}: no such file or folder",
            hint=f"did you mean {near}?" if near else _ANY,
        )
    if path.suffix == ".py":
        return SourceError(
            f"{text} does not say which model in it", hint=f"write its name behind: {text}:NAME"
        )
    known = _SCRIPTED if _is_scripted(path) else _FILES.get(path.suffix)
    if known is not None:
        return SourceError(f"{text} {known[0]}", hint=known[1])
    return SourceError(f"{text} is no model that edgec knows", hint=_ANY)


def _is_scripted(path: Path) -> bool:
    """Whether a file is what `torch.jit.save` writes: a zip archive with code beside constants."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        inside = {name.partition("/")[2] for name in archive.namelist()}
    return "constants.pkl" in inside and any(name.startswith("code/") for name in inside)


def _near(path: Path) -> Path | None:
    """A path that is there, but for one name in this one, which is spelt much like it."""
    wrong = path
    while wrong.name and not wrong.parent.is_dir():
        wrong = wrong.parent
    try:
        beside = [other.name for other in wrong.parent.iterdir()]
    except OSError:
        return None
    for name in difflib.get_close_matches(wrong.name, beside, n=1):
        found = wrong.with_name(name) / path.relative_to(wrong)
        return found if found.exists() else None
    return None
