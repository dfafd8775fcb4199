"""The licences of what a package holds: edgec's own, and those of the parts of others in it."""

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from edgec.packaging.plan import Plan
from edgec.runtime.errors import FileError
from edgec.toolchain.sources import runtime_sources

__all__ = ["write_licences"]

_HERE = Path(__file__).resolve().parent
_EDGEC = "edgec.txt"
_KERNELS = {
    "apache-llvm.txt": "the modules: kernels by IREE's compiler {iree} and LLVM, and pieces of "
    "IREE's own that they call (Apache 2.0 with LLVM's exceptions)",
    "musl.txt": "the modules: mathematical functions of musl, which that compiler links into "
    "kernels that call them (MIT)",
}
_SOURCES = {
    "monocypher.txt": "edgert.c: Monocypher, for builds that check signatures (BSD with two "
    "clauses, or CC0)",
}
_WEB = {
    "apache-llvm.txt": "edgec-runtime/*.wasm: parts of wasi-libc (Apache 2.0 with LLVM's "
    "exceptions; its dlmalloc is in the public domain, CC0)",
    "musl.txt": "edgec-runtime/*.wasm: parts of musl (MIT)",
    "cloudlibc.txt": "edgec-runtime/*.wasm: parts of cloudlibc (BSD)",
}


def write_licences(plan: Plan) -> None:
    """Write `licences/`: a text a licence, and what of the package each is of.

    Raises:
        FileError: this installation lacks edgec's own licence.
    """
    more = _WEB if plan.kind.name == "web" else _SOURCES
    lines = [
        f"{plan.title}, packed by edgec {plan.manifest.edgec}.",
        "Beside the model itself, whose licence its authors know, it holds:",
        "",
        f"- {_EDGEC}: edgec's own code and runtime (Apache 2.0)",
    ]
    versions = {"iree": metadata.version("iree-base-compiler")}
    for parts in (_KERNELS, more):
        lines += _said(parts, versions)
    plan.write("licences/README.txt", "\n".join(lines) + "\n")
    plan.write(f"licences/{_EDGEC}", _own())
    for name in dict.fromkeys([*_KERNELS, *more]):
        plan.write(f"licences/{name}", _text(name))


def _said(parts: Mapping[str, str], versions: Mapping[str, str]) -> list[str]:
    return [f"- {name}: {what.format_map(versions)}" for name, what in parts.items()]


def _text(name: str) -> str:
    """A licence that is kept here, or beside the code that it is of."""
    if name in _SOURCES:
        file = runtime_sources("c") / "third_party" / name.removesuffix(".txt") / "LICENCE.md"
        return file.read_text(encoding="utf-8")
    return (_HERE / name).read_text(encoding="utf-8")


def _own() -> str:
    """edgec's licence, beside the sources of a checkout or in what is installed."""
    root = _HERE.parents[3] / "LICENSE"
    if root.is_file():
        return root.read_text(encoding="utf-8")
    for file in metadata.files("edgec") or ():
        if file.name == "LICENSE":
            return file.read_text(encoding="utf-8")
    raise FileError("edgec's licence is missing from this installation", hint="install edgec again")
