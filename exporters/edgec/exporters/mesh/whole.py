"""Axes made whole for the operations that are not computed part by part along them.

On jaxlib's bindings; in the child (`shardy`).
"""

from typing import Any

from edgec.exporters.mesh.calls import target_of
from edgec.runtime.mesh.plan import CALLBACK
from edgec.toolchain.ir.functions import inside

__all__ = ["NotCut", "make_whole", "sharding_of"]

_KNOWN = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("abs", "add", "and", "atan2", "bitcast_convert", "cbrt", "ceil", "clamp", "compare"),
        *("complex", "convert", "cosine", "count_leading_zeros", "divide", "exponential"),
        *("exponential_minus_one", "floor", "imag", "is_finite", "log", "log_plus_one"),
        *("logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power"),
        *("real", "reduce_precision", "remainder", "round_nearest_afz", "round_nearest_even"),
        *("rsqrt", "select", "shift_left", "shift_right_arithmetic", "shift_right_logical"),
        *("sign", "sine", "sqrt", "subtract", "tan", "tanh", "xor"),
        *("broadcast_in_dim", "concatenate", "reshape", "transpose", "pad", "slice", "reverse"),
        *("dot_general", "dot", "convolution", "reduce", "reduce_window", "select_and_scatter"),
        *("sort", "gather", "scatter", "fft", "cholesky", "triangular_solve"),
    )
)
"""What is computed part by part along the axes of which its rule says no more."""
_PASSING = frozenset(
    f"stablehlo.{name}"
    for name in ("while", "case", "if", "return", "constant", "iota", "optimization_barrier")
)
"""What has no rule, and is right as its results are cut."""
_SUMS = ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution")
"""What sums along an axis that is cut, so that devices' results are summed."""
_PLACED = ("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice")
"""What reads or writes at a place that is computed."""


class NotCut(Exception):
    """An operation that is to be computed by parts, and that nobody knows how to.

    Attributes:
        operation: this one.
    """

    def __init__(self, operation: Any) -> None:
        super().__init__(operation.name)
        self.operation = operation


def make_whole(function: Any) -> None:
    """Whole axes for operations that do more along them than the same to each element.

    Shardy lets such an axis stay cut, and then finds that the devices would have to speak to each
    other within the operation, or sums what is no sum: between operations they can speak.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    for operation in list(inside(function)):
        if target_of(ir, operation) == CALLBACK:
            _make_whole_around(operation)
            continue
        if "sdy.sharding_rule" not in operation.attributes:
            _refuse_cut(operation)
            continue
        rule = sdy.OpShardingRuleAttr(operation.attributes["sdy.sharding_rule"])
        moved = _moved(operation, rule)
        if not moved:
            continue
        for index, mapping in enumerate(rule.operand_mappings):
            operand = operation.operands[index]
            sharding = sharding_of(operand)
            whole = _without(sharding, mapping, moved)
            if whole is not None:
                with ir.InsertionPoint(operation), operation.location:
                    operation.operands[index] = sdy.ReshardOp(operand, whole).result
        own = operation.attributes
        if "sdy.sharding" not in own:
            continue
        given = _per_value(own["sdy.sharding"])
        for index, mapping in enumerate(rule.result_mappings):
            whole = _without(given[index], mapping, moved)
            if whole is None:
                continue
            result, wanted = operation.results[index], given[index]
            with ir.InsertionPoint.after(operation), operation.location:
                back = sdy.ReshardOp(result, wanted)
            result.replace_all_uses_except(back.result, back.operation)
            given[index] = whole
        own["sdy.sharding"] = sdy.TensorShardingPerValueAttr.get(given)


def _make_whole_around(operation: Any) -> None:
    """Whole arrays for a call of the host's own code, and what it gives cut as it was."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    for index, operand in enumerate(operation.operands):
        whole = _whole(sharding_of(operand))
        if whole is not None:
            with ir.InsertionPoint(operation), operation.location:
                operation.operands[index] = sdy.ReshardOp(operand, whole).result
    if not _is_noted(operation):
        return
    given = _per_value(operation.attributes["sdy.sharding"])
    del operation.attributes["sdy.sharding"]
    for result, wanted in zip(operation.results, given, strict=False):
        if _whole(wanted) is not None:
            with ir.InsertionPoint.after(operation), operation.location:
                back = sdy.ReshardOp(result, wanted)
            result.replace_all_uses_except(back.result, back.operation)


def _whole(sharding: Any | None) -> Any | None:
    """The sharding with all axes whole; None where they are."""
    from jaxlib.mlir.dialects import sdy

    dims = [] if sharding is None else list(sharding.dimension_shardings)
    if sharding is None or not any(len(list(sdy.DimensionShardingAttr(d).axes)) for d in dims):
        return None
    whole = [sdy.DimensionShardingAttr.get([], is_closed=True)] * len(dims)
    return sdy.TensorShardingAttr.get(sharding.mesh_or_ref, whole)


def _moved(operation: Any, rule: Any) -> set[int]:
    """The factors of an operation's rule along which it is computed by one device alone."""
    summed = set(rule.reduction_factors)
    moved = {*rule.permutation_factors, *rule.need_replication_factors}
    every = set(range(len(rule.factor_sizes)))
    if operation.name in _PLACED or operation.name not in _KNOWN:
        return every
    if operation.name == "stablehlo.scatter":
        each = [_factors(mapping) for mapping in (*rule.operand_mappings, *rule.result_mappings)]
        updates = each[len(operation.results) + 1]
        return every - (each[0] & updates & each[-1]) | moved | summed
    return moved if operation.name in _SUMS or _is_sum(operation) else moved | summed


def _refuse_cut(operation: Any) -> None:
    """Refuse an operation that nobody knows how to compute by parts, where it is cut.

    Raises:
        NotCut: it is.
    """
    from jaxlib.mlir.dialects import sdy

    is_plain = operation.name.startswith("stablehlo.") and operation.name not in _PASSING
    is_plain = is_plain and not _is_ours(operation)
    cuts = _per_value(operation.attributes["sdy.sharding"]) if _is_noted(operation) else []
    operands = [sharding_of(operand) for operand in operation.operands] if is_plain else []
    dims = [
        dim
        for sharding in (*cuts, *filter(None, operands))
        for dim in map(sdy.DimensionShardingAttr, sharding.dimension_shardings)
    ]
    if is_plain and any(len(list(dim.axes)) for dim in dims):
        raise NotCut(operation)


def _is_ours(operation: Any) -> bool:
    """Whether it stands for what edgec writes later, whose operands are cut as they have to be."""
    from jaxlib.mlir import ir

    return target_of(ir, operation).startswith("edgec.")


def _is_noted(operation: Any) -> bool:
    return "sdy.sharding" in operation.attributes


def _factors(mapping: Any) -> set[int]:
    from jaxlib.mlir.dialects import sdy

    dims = sdy.TensorMappingAttr(mapping).dim_mappings
    return {factor for dim in dims for factor in sdy.DimMappingAttr(dim).factor_indices}


def _is_sum(operation: Any) -> bool:
    """Whether it reduces one array by addition, so that devices' results are summed."""
    if operation.name != "stablehlo.reduce" or len(operation.results) != 1:
        return False
    inner = [op.operation.name for op in operation.regions[0].blocks[0].operations]
    return inner == ["stablehlo.add", "stablehlo.return"]


def sharding_of(value: Any) -> Any | None:
    """How a value is cut, as its operation or its function says; None where neither does."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    if isinstance(value, ir.BlockArgument):
        owner = value.owner.owner.operation  # a function's own `name` is its symbol
        if owner.name == "sdy.manual_computation":
            return _inside_of(owner, _per_value(owner.attributes["in_shardings"])[value.arg_number])
        if owner.name != "func.func":
            return _given(owner, value.arg_number)
        if "arg_attrs" not in owner.attributes:
            return None
        notes = ir.DictAttr(ir.ArrayAttr(owner.attributes["arg_attrs"])[value.arg_number])
        return sdy.TensorShardingAttr(notes["sdy.sharding"]) if "sdy.sharding" in notes else None
    result = ir.OpResult(value)
    owner = result.owner.operation
    if owner.name == "sdy.manual_computation":
        return _per_value(owner.attributes["out_shardings"])[result.result_number]
    if owner.name in ("sdy.reshard", "sdy.sharding_constraint"):
        return sdy.TensorShardingAttr(owner.attributes["sharding"])
    if owner.name.startswith("sdy.") and "out_sharding" in owner.attributes:
        return sdy.TensorShardingAttr(owner.attributes["out_sharding"])
    return _given(owner, result.result_number)


def _given(operation: Any, number: int) -> Any | None:
    """How an operation says that its result, or what its regions carry, is cut."""
    if "sdy.sharding" not in operation.attributes:
        return None
    each = _per_value(operation.attributes["sdy.sharding"])
    return each[number] if number < len(each) else None


def _inside_of(operation: Any, sharding: Any) -> Any:
    """How an array that devices are given by hand is cut along the other axes."""
    from jaxlib.mlir.dialects import sdy

    manual = sdy.ManualAxesAttr(operation.attributes["manual_axes"])
    by_hand = {str(manual[i]) for i in range(len(manual))}
    dims = []
    for dim in map(sdy.DimensionShardingAttr, sharding.dimension_shardings):
        left = [axis for axis in dim.axes if sdy.AxisRefAttr(axis).name not in by_hand]
        dims.append(sdy.DimensionShardingAttr.get(left, is_closed=True))
    return sdy.TensorShardingAttr.get(sharding.mesh_or_ref, dims)


def _per_value(attribute: Any) -> list[Any]:
    """How each result of an operation is cut."""
    from jaxlib.mlir.dialects import sdy

    each = sdy.TensorShardingPerValueAttr(attribute).shardings
    return [sdy.TensorShardingAttr(sharding) for sharding in each]


def _without(sharding: Any | None, mapping: Any, factors: set[int]) -> Any | None:
    """The sharding with the axes of these factors whole; None where they are."""
    from jaxlib.mlir.dialects import sdy

    if sharding is None:
        return None
    mappings = list(sdy.TensorMappingAttr(mapping).dim_mappings)
    old = [sdy.DimensionShardingAttr(d) for d in sharding.dimension_shardings]
    doomed = [
        bool(d.axes) and bool(set(sdy.DimMappingAttr(m).factor_indices) & factors)
        for d, m in zip(old, mappings, strict=True)
    ]
    if not any(doomed):
        return None
    dims = [
        sdy.DimensionShardingAttr.get([], is_closed=True) if gone else d
        for d, gone in zip(old, doomed, strict=True)
    ]
    return sdy.TensorShardingAttr.get(sharding.mesh_or_ref, dims)
