"""StableHLO bytecode to a portable artifact (VHLO), which later compilers still read.

Only a framework's StableHLO bindings can write one. Without a framework (StableHLO in, StableHLO
out) plain bytecode is kept, which this version's compiler reads as well.
"""

import importlib
import importlib.util
from typing import Any

from edgec.runtime.errors import ExportError

__all__ = ["portable_version", "to_portable"]

_MAGIC = b"ML\xefR"
_PRODUCER = b"StableHLO_v"
_LONGEST = 64
_BINDINGS = {
    "jaxlib": "jaxlib.mlir.dialects.stablehlo",
    "torch_mlir": "torch_mlir._mlir_libs._stablehlo",
}


def to_portable(bytecode: bytes) -> bytes:
    """The portable artifact of a StableHLO module, readable by releases of the last 12 weeks.

    Args:
        bytecode: MLIR bytecode of a module wholly in StableHLO.

    Returns:
        The artifact; `bytecode` itself if no framework that can write one is installed.

    Raises:
        ExportError: the module holds something else than StableHLO.
    """
    stablehlo = _bindings()
    if stablehlo is None:
        return bytecode
    requirement = stablehlo.StablehloCompatibilityRequirement
    refusal = ""
    for weeks in (requirement.WEEK_12, requirement.NONE):
        version = stablehlo.get_version_from_compatibility_requirement(weeks)
        try:
            return bytes(stablehlo.serialize_portable_artifact_str(bytecode, version))
        except ValueError as error:
            refusal = str(error)
    raise ExportError(
        f"the program cannot be written as portable StableHLO: {_first_line(refusal)}",
        hint="some operation in it is not StableHLO; `edgec inspect` lists a program's operations",
    )


def portable_version(bytecode: bytes) -> str:
    """The StableHLO version that a portable artifact is written in; empty for other bytes.

    MLIR's bytecode begins with its magic number, its version and the producer's name, which a
    portable artifact has as `StableHLO_v1.13.7` (StableHLO's docs/bytecode.md, docs/vhlo.md).
    """
    producer = bytecode[len(_MAGIC) + 1 : _LONGEST].partition(b"\0")[0]
    if not bytecode.startswith(_MAGIC) or not producer.startswith(_PRODUCER):
        return ""
    return producer[len(_PRODUCER) :].decode("ascii", "replace")


def _bindings() -> Any | None:
    for package, module in _BINDINGS.items():
        if importlib.util.find_spec(package) is not None:
            return importlib.import_module(module)
    return None


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "")
