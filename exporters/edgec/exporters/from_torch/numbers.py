"""Numbers that follow from sizes, where tensors are computed with them, to tensors of rank 0.

With dynamic dimensions a graph holds symbolic numbers beside its tensors: `n - 1.0` in a standard
deviation, `height / 7` in an interpolation. torch-mlir imports whole ones alone, and those only
where an operator takes a number. Floats are f32 here: sizes are whole in it up to 2^24.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from edgec.exporters.from_torch.lines import user_line
from edgec.runtime.errors import UnsupportedOp

__all__ = ["numbers_to_tensors", "said_plainly"]

_AS_TENSOR = {"Scalar": "Tensor", "Tensor_Scalar": "Tensor_Tensor", "default": "Tensor"}
"""An overload of an operator that takes a number, to the one that takes a tensor there."""


_LARGEST_FACTOR = 1 << 20
"""So that a size times it is exact in the float that PyTorch computes in."""


def numbers_to_tensors(graph: Any) -> None:
    """Rewrite a functional `torch.fx.Graph` in place.

    Raises:
        UnsupportedOp: an operator takes such a number in a way that has no form with a tensor.
    """
    writer = _Writer(graph)
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in (math.trunc, math.floor):
            _in_whole_numbers(graph, node)
    for node in list(graph.nodes):
        if node.op == "call_function" and writer.is_tensor(node):
            writer.rewrite(node)
    graph.eliminate_dead_code()
    for node in graph.nodes:
        if writer.is_number(node):
            size = next(iter(node.users), node)
            raise UnsupportedOp(
                f"a size is computed in floats from a dynamic one: {_formula(size)}",
                where=user_line(node.meta.get("stack_trace") or size.meta.get("stack_trace")),
                hint="scale by a whole number, or by so many halves, quarters …; or give the size",
            )


def _in_whole_numbers(graph: Any, node: Any) -> None:
    """`trunc(float(n) * 1.5)` as `n * 3 // 2`, where the factor is so many halves, quarters …"""
    product = node.args[0]
    if getattr(product, "target", None) is not operator.mul:
        return
    for size, factor in (product.args, product.args[::-1]):
        if not isinstance(factor, float) or getattr(size, "target", None) is not _sym_float():
            continue
        up, down = factor.as_integer_ratio()
        if up < 0 or max(up, down) > _LARGEST_FACTOR:
            continue
        value = size.args[0]
        with graph.inserting_before(node):
            for target, number in ((operator.mul, up), (operator.floordiv, down)):
                if number != 1:
                    made = graph.call_function(target, (value, number))
                    made.meta["val"] = target(value.meta["val"], number)
                    value = made
        node.replace_all_uses_with(value)
        return


def _formula(node: Any) -> str:
    """What a node computes, with torch's own symbols as `n`."""
    return re.sub(r"\bs\d+\b", "n", said_plainly(str(node.meta.get("val"))))


def said_plainly(text: str) -> str:
    """A size as torch's symbols spell it, as people would: `TruncToInt(1.5*ToFloat(h))`."""
    return re.sub(r"ToFloat\((\w+)\)", r"\1", text).replace("TruncToInt", "trunc")


def _sym_float() -> Any:
    import torch

    return torch.sym_float


class _Writer:
    """One graph, and the tensor that stands for each symbolic number."""

    def __init__(self, graph: Any) -> None:
        import torch

        self._torch = torch
        self._graph = graph
        self._tensors: dict[Any, Any] = {}
        self._arithmetic: Mapping[Any, Callable[..., Any]] = {
            torch._sym_sqrt: torch.ops.aten.sqrt.default,
            operator.truediv: torch.ops.aten.div.Tensor,
            operator.mul: torch.ops.aten.mul.Tensor,
            operator.add: torch.ops.aten.add.Tensor,
            operator.sub: torch.ops.aten.sub.Tensor,
            operator.neg: torch.ops.aten.neg.default,
            operator.pow: torch.ops.aten.pow.Tensor_Tensor,
            torch.sym_max: torch.ops.aten.maximum.default,
            torch.sym_min: torch.ops.aten.minimum.default,
        }

    def is_tensor(self, node: Any) -> bool:
        """Whether a node gives a tensor, or several."""
        value = node.meta.get("val")
        return isinstance(value, self._torch.Tensor | list | tuple)

    def is_number(self, node: Any) -> bool:
        """Whether a node gives a number that is not whole."""
        return self._is(node, self._torch.SymFloat)

    def rewrite(self, node: Any) -> None:
        """Give one operator tensors for the numbers that it cannot take."""
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            return
        kinds = {argument.name: str(argument.type) for argument in schema.arguments}
        names = [argument.name for argument in schema.arguments]
        given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
        wrong = [
            name
            for name, value in given.items()
            if self._is(value, self._torch.SymFloat)
            or (self._is(value, self._torch.SymInt) and kinds[name] == "Tensor")
        ]
        if not wrong:
            return
        with self._graph.inserting_before(node):
            if node.target is self._torch.ops.aten.full.default and wrong == ["fill_value"]:
                value = self._tensor(given["fill_value"], node)
                value = self._cast(value, node.meta["val"].dtype, node)
                made = self._call(self._torch.ops.aten.expand.default, node, value, given["size"])
                node.replace_all_uses_with(made)
                return
            target = self._taking_tensors(node, wrong, kinds)
            given |= {name: self._tensor(given[name], node) for name in wrong}
        accepted = {argument.name for argument in target._schema.arguments}
        if not set(given) <= accepted:
            raise self._refusal(node)
        node.target = target
        order = [argument.name for argument in target._schema.arguments]
        positional = order[: len(node.args)]
        node.args = tuple(given[name] for name in positional)
        node.kwargs = {name: value for name, value in given.items() if name not in positional}

    def _taking_tensors(self, node: Any, wrong: list[str], kinds: Mapping[str, str]) -> Any:
        """The operator itself, or its overload that takes tensors for these arguments."""
        if all(kinds[name] == "Tensor" for name in wrong):
            return node.target
        overload = _AS_TENSOR.get(node.target._overloadname)
        found = getattr(node.target.overloadpacket, overload or "", None)
        if found is None:
            raise self._refusal(node)
        return found

    def _refusal(self, node: Any) -> UnsupportedOp:
        return UnsupportedOp(
            f"{node.target} is computed with a number that follows from dynamic sizes",
            where=user_line(node.meta.get("stack_trace")),
            hint="compute with tensors in that line, or leave its dimensions static",
        )

    def _is(self, value: Any, kind: Any) -> bool:
        return isinstance(value, self._torch.fx.Node) and isinstance(value.meta.get("val"), kind)

    def _tensor(self, value: Any, user: Any) -> Any:
        """The number as a tensor: i64 of a whole one, else f32."""
        torch = self._torch
        if not isinstance(value, torch.fx.Node):
            return self._call(torch.ops.aten.full.default, user, [], value, dtype=torch.float32)
        if value not in self._tensors:
            self._tensors[value] = self._made(value, user)  # users come in order, so all see it
        return self._tensors[value]

    def _made(self, value: Any, user: Any) -> Any:
        torch = self._torch
        if self._is(value, torch.SymInt):
            return self._call(torch.ops.aten.full.default, user, [], value, dtype=torch.int64)
        if value.target is torch.sym_float:
            return self._float(value.args[0], user)
        if value.target not in self._arithmetic:
            raise self._refusal(user)
        operands = [self._float(operand, user) for operand in value.args]
        return self._call(self._arithmetic[value.target], user, *operands)

    def _float(self, value: Any, user: Any) -> Any:
        return self._cast(self._tensor(value, user), self._torch.float32, user)

    def _cast(self, tensor: Any, dtype: Any, user: Any) -> Any:
        if tensor.meta["val"].dtype == dtype:
            return tensor
        return self._call(self._torch.ops.aten._to_copy.default, user, tensor, dtype=dtype)

    def _call(self, target: Any, user: Any, *args: Any, **kwargs: Any) -> Any:
        """A node at the place of insertion, with its value's shape and the user's line."""
        node = self._graph.call_function(target, args, kwargs)
        values = self._torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
        mode = next(
            n.meta["val"].fake_mode
            for n in self._graph.nodes
            if hasattr(n.meta.get("val"), "fake_mode")
        )
        with mode:
            node.meta["val"] = target(*values[0], **values[1])
        node.meta["stack_trace"] = user.meta.get("stack_trace")
        return node
