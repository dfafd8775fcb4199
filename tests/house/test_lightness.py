"""Importing edgec and asking for help stays cheap, and a device needs only the runtime."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

FRAMEWORKS = ("jax", "torch", "tensorflow", "keras", "onnx", "onnxruntime")

_BLOCK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in BLOCKED:
            raise ModuleNotFoundError(f"blocked: {name}", name=name)
        return None
BLOCKED = %r
sys.meta_path.insert(0, Missing())
"""


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_runtime_imports_and_lists_devices_without_the_compiler_and_frameworks() -> None:
    blocked = {*FRAMEWORKS, "iree.compiler", "edgec.toolchain", "edgec.exporters", "edgec.targets"}
    done = _run(
        _BLOCK % blocked + "import edgec.runtime as er\n"
        "for name in er.__all__: getattr(er, name)\n"
        "print(any(d.uri.startswith('local-task') for d in er.devices()))\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize("package", ["targets", "toolchain", "exporters", "cli"])
def test_packages_import_without_the_compiler_and_frameworks(package: str) -> None:
    done = _run(_BLOCK % {*FRAMEWORKS, "iree.compiler"} + f"import edgec.{package}\n")
    assert done.returncode == 0, done.stderr


def test_help_takes_less_than_half_a_second_of_cpu(root: Path) -> None:
    edgec = Path(sys.executable).with_name("edgec")

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([edgec, "--help"], capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, done.stderr
        assert "export" in done.stdout
        assert "compile" in done.stdout
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.5
