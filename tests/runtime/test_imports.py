"""The runtime stands alone: no compiler, no framework, nothing heavy until it is needed."""

import subprocess
import sys

import edgec.runtime

BLOCKED = (
    *("iree.compiler", "jax", "jaxlib", "torch", "torch_mlir", "tensorflow", "keras", "onnx"),
    *("edgec.toolchain", "edgec.exporters", "edgec.targets", "edgec.cli", "typer", "rich"),
)
CHILD = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if any(name == b or name.startswith(b + ".") for b in {BLOCKED!r}):
            raise ImportError(f"{{name}} is blocked")
        return None

sys.meta_path.insert(0, Blocker())
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_imports_without_compiler_and_frameworks() -> None:
    run(
        CHILD
        + "import importlib, pkgutil, edgec.runtime as r\n"
        + "for m in pkgutil.iter_modules(r.__path__):\n"
        + "    importlib.import_module(f'edgec.runtime.{m.name}')\n"
        + "for name in r.__all__:\n"
        + "    getattr(r, name)\n"
        + "r.Device.open('local-sync').put([1.0])\n"
    )


def test_the_front_door_is_cheap() -> None:
    loaded = run(
        "import sys, edgec.runtime\n"
        "print([m for m in ('iree.runtime', 'numpy', 'flatbuffers') if m in sys.modules])"
    )
    assert loaded.strip() == "[]"


def test_reading_a_module_does_not_load_the_runtime() -> None:
    loaded = run(
        "import sys\nfrom edgec.runtime import Module\nprint('iree.runtime' in sys.modules)"
    )
    assert loaded.strip() == "False"


def test_the_front_door_is_sorted_and_complete() -> None:
    names = edgec.runtime.__all__
    assert names == sorted(names)
    assert set(names) == set(edgec.runtime._HOMES)
    for name in names:
        assert getattr(edgec.runtime, name) is not None
    assert dir(edgec.runtime) == names


def test_functions_are_not_hidden_by_files_of_the_same_name() -> None:
    for name in ("bench", "compare", "devices", "load", "profile"):
        assert callable(getattr(edgec.runtime, name))
