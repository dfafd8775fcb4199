"""The tiny language model that several files of tests run: the first of them makes it for all.

Exporting and compiling it takes ten seconds each. It is kept in build/tests by a digest of all that
makes it, so it is never older than the code. It has one layer, which is what costs: those of
`test_from_transformers.py` have more.
"""

import fcntl
from dataclasses import replace
from pathlib import Path
from typing import Any

from iree.compiler import version

from edgec.exporters.from_transformers.export import export_opened
from edgec.runtime.text import TextModel, saved
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.fingerprint import digest
from tests.exporters import language_models

__all__ = [
    "CONTEXT",
    "another",
    "module",
    "network",
    "program",
    "recurrent",
    "save_as_another",
]

CONTEXT = 120
_ROOT = Path(__file__).resolve().parents[2]
_KEPT = _ROOT / "build" / "tests" / "language_model"


def network(family: str = "llama", *, seed: int = 7) -> Any:
    """What the modules were made of, in PyTorch."""
    return language_models.model(family, seed=seed, num_hidden_layers=1)


def program() -> Path:
    """The Llama of `module` before it is compiled; not to be changed."""
    return _made("model.mlirbc", seed=7)


def module(target: str) -> Path:
    """A Llama that reads 8 or 24 tokens at once, or 4 guesses, for a target; not to be changed."""
    return _made(f"{target}.vmfb", seed=7)


def another() -> Path:
    """One for the CPU that differs in its weights alone; not to be changed."""
    return _made("cpu.vmfb", seed=8)


def save_as_another(path: Path, text: str) -> None:
    """Write what `module` has read of a text, as a model with other weights names itself.

    That such a model does have another name is tested in `test_identity.py`.
    """
    with TextModel(module("cpu")) as model:
        model.generate(text, limit=8).whole()
        own = model.module.module
        stranger = replace(own, identity=own.identity[::-1])
        assert stranger.identity != own.identity
        saved.write(path, stranger, model.module.state(), model.known)


def recurrent(target: str) -> Path:
    """A Falcon-H1, each of whose layers keeps states beside keys and values; likewise."""
    return _made(f"{target}.vmfb", seed=7, family="falcon_h1")


def _made(name: str, *, seed: int, family: str = "llama") -> Path:
    folder = _KEPT / _digest() / f"{family}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            pass
        elif path.suffix == ".mlirbc":
            recurrent = family in language_models.RECURRENT
            made = export_opened(
                network(family, seed=seed),
                language_models.tokenizer(),
                context=CONTEXT,
                prefill=(8,) if recurrent else (8, 24),  # its layers are long programs
                speculate=0 if recurrent else 4,
            )
            made.save(path)
        else:
            options = CompileOptions(output=path, level=1, check=False)
            compile(_made("model.mlirbc", seed=seed, family=family), path.stem, options)
    return path


def _digest() -> str:
    """Of the sources of edgec and of its tests' models, and the compiler's version."""
    places = ("exporters", "runtime/edgec", "targets", "toolchain/edgec", "tests/exporters")
    files = (
        path
        for place in places
        for path in (_ROOT / place).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    return f"{digest(files, _ROOT)[:16]}-{version.VERSION}"
