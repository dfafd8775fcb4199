"""A description that means what its operations compute is taken, any other is refused."""

from contextvars import Context
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from iree.compiler import ir

from edgec.runtime.errors import CompileError
from edgec.toolchain.match.description import Description, validate
from edgec.toolchain.match.validation import Validation, validating

TEXT = """
func.func @main(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = stablehlo.add %x, %y : tensor<4x6xf32>
  %1 = stablehlo.maximum %0, %x : tensor<4x6xf32> loc("model.py":12:3)
  return %1 : tensor<4x6xf32>
}"""


@dataclass(frozen=True, kw_only=True)
class Larger(Description):
    """max(x + y, bound)."""

    left: Any
    right: Any
    value: Any
    is_bounded: bool

    @property
    def operands(self) -> tuple[Any, ...]:
        return (self.left, self.right)

    @property
    def results(self) -> tuple[Any, ...]:
        return (self.value,)

    def reference(self, *inputs):
        x, y = inputs
        return (np.maximum(x + y, x) if self.is_bounded else x + y,)


@dataclass(frozen=True, kw_only=True)
class FromTheSum(Description):
    """max(x + y, x), which names the sum beside what it is computed from."""

    total: Any
    left: Any
    right: Any
    value: Any

    @property
    def operands(self) -> tuple[Any, ...]:
        return (self.total, self.left, self.right)

    @property
    def results(self) -> tuple[Any, ...]:
        return (self.value,)

    def reference(self, *inputs):
        _, x, y = inputs
        return (np.maximum(x + y, x),)


def compare(*, is_bounded: bool = True, hidden: bool = False) -> Validation:
    with ir.Context(), validating() as found:
        module = ir.Module.parse(TEXT)
        block = module.body.operations[0].regions[0].blocks[0]
        x, y = block.arguments
        (value,) = list(block.operations)[1].results
        right = x if hidden else y
        validate(Larger(left=x, right=right, value=value, is_bounded=is_bounded), "larger")
        return found


def test_a_description_with_the_operations_meaning_is_counted() -> None:
    assert compare().same == {"larger": 1}


def test_one_that_means_something_else_is_refused_with_its_line() -> None:
    with pytest.raises(CompileError, match="larger that compute something else") as caught:
        compare(is_bounded=False)
    assert caught.value.where == "model.py:12"


def test_one_that_does_not_name_all_it_reads_is_refused() -> None:
    with pytest.raises(CompileError, match="read a value that it is not said to read"):
        compare(hidden=True)


def test_one_that_reads_what_follows_from_something_else_it_reads_is_taken() -> None:
    with ir.Context(), validating() as found:
        module = ir.Module.parse(TEXT)
        block = module.body.operations[0].regions[0].blocks[0]
        x, y = block.arguments
        (total,), (value,) = (list(op.results) for op in list(block.operations)[:2])
        validate(FromTheSum(total=total, left=x, right=y, value=value), "larger")
    assert found.same == {"larger": 1}


def test_nothing_is_compared_unless_it_was_asked_for() -> None:
    def work() -> None:
        with ir.Context():
            module = ir.Module.parse(TEXT)
            block = module.body.operations[0].regions[0].blocks[0]
            x, y = block.arguments
            (value,) = list(block.operations)[1].results
            validate(Larger(left=x, right=y, value=value, is_bounded=False), "larger")

    Context().run(work)
