"""edgec.runtime: a module file and a device URI to callable functions.

    import edgec.runtime as er

    with er.load("digits.vmfb") as module:
        logits = module.main(image)

Names are loaded when they are first used, so importing this package is cheap.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgec.runtime.array import DeviceArray
    from edgec.runtime.benchmark import BenchResult, bench
    from edgec.runtime.comparison import (
        Comparison,
        GoldenResult,
        check_golden,
        compare,
        compare_call,
    )
    from edgec.runtime.device import Device, devices
    from edgec.runtime.dispatch_times import Dispatch, Profile
    from edgec.runtime.driver import DeviceStatus
    from edgec.runtime.dtypes import DType
    from edgec.runtime.golden import Golden, GoldenCall
    from edgec.runtime.host_memory import ALIGNMENT, aligned_empty
    from edgec.runtime.ledger import LedgerEntry, Part, SizeLedger
    from edgec.runtime.loaded import Function, LoadedModule, load
    from edgec.runtime.manifest import Manifest
    from edgec.runtime.module import Module, ModuleFacts, WeightsFacts, mark_checked
    from edgec.runtime.profiling import profile
    from edgec.runtime.proving import Proof
    from edgec.runtime.signature import Argument, Dim, Quantization, Signature, TensorSpec
    from edgec.runtime.tolerance import Tolerance
    from edgec.runtime.vmfb import Import

__all__ = [
    "ALIGNMENT",
    "Argument",
    "BenchResult",
    "Comparison",
    "DType",
    "Device",
    "DeviceArray",
    "DeviceStatus",
    "Dim",
    "Dispatch",
    "Function",
    "Golden",
    "GoldenCall",
    "GoldenResult",
    "Import",
    "LedgerEntry",
    "LoadedModule",
    "Manifest",
    "Module",
    "ModuleFacts",
    "Part",
    "Profile",
    "Proof",
    "Quantization",
    "Signature",
    "SizeLedger",
    "TensorSpec",
    "Tolerance",
    "WeightsFacts",
    "aligned_empty",
    "bench",
    "check_golden",
    "compare",
    "compare_call",
    "devices",
    "load",
    "mark_checked",
    "profile",
]

_HOMES = {
    "ALIGNMENT": "host_memory",
    "Argument": "signature",
    "BenchResult": "benchmark",
    "Comparison": "comparison",
    "DType": "dtypes",
    "Device": "device",
    "DeviceArray": "array",
    "DeviceStatus": "driver",
    "Dim": "signature",
    "Dispatch": "dispatch_times",
    "Function": "loaded",
    "Golden": "golden",
    "GoldenCall": "golden",
    "GoldenResult": "comparison",
    "Import": "vmfb",
    "LedgerEntry": "ledger",
    "LoadedModule": "loaded",
    "Manifest": "manifest",
    "Module": "module",
    "ModuleFacts": "module",
    "Part": "ledger",
    "Profile": "dispatch_times",
    "Proof": "proving",
    "Quantization": "signature",
    "Signature": "signature",
    "SizeLedger": "ledger",
    "TensorSpec": "signature",
    "Tolerance": "tolerance",
    "WeightsFacts": "module",
    "aligned_empty": "host_memory",
    "bench": "benchmark",
    "check_golden": "comparison",
    "compare": "comparison",
    "compare_call": "comparison",
    "devices": "device",
    "load": "loaded",
    "mark_checked": "module",
    "profile": "profiling",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return list(__all__)
