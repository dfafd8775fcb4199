"""The compiler's bindings look for a missing dialect once, and find those that there are."""

import importlib
import sys

import pytest
from iree.compiler import ir

from edgec.toolchain.stablehlo import parse_stablehlo

_TEXT = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  %1 = stablehlo.multiply %0, %a : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


class _Counts:
    """A finder that finds nothing and keeps what it was asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        self.names.append(name)


def test_walking_operations_searches_no_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse_stablehlo(_TEXT, ir.Context())
    counts = _Counts()
    monkeypatch.setattr(sys, "meta_path", [counts, *sys.meta_path])
    body = module.body.operations[0].body.blocks[0]
    assert [op.operation.name for op in body.operations] == [
        "stablehlo.add",
        "stablehlo.multiply",
        "func.return",
    ]
    assert not [name for name in counts.names if "stablehlo" in name]


def test_dialects_with_classes_keep_them() -> None:
    parse_stablehlo(_TEXT, ir.Context())
    assert importlib.import_module("iree.compiler.dialects.arith").ConstantOp
