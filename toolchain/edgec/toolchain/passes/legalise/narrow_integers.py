"""64-bit integers computed in 32 bits, for GPUs whose shaders have no 64-bit integers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.functions import entry_block, functions, inside, returns
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation
from edgec.toolchain.precision import Integers
from edgec.toolchain.program import STATE_FUNCTION

__all__ = ["NarrowIntegers"]

_LIMITS = np.iinfo(np.int32)
_SENTINELS = {np.iinfo(np.int64).max: _LIMITS.max, np.iinfo(np.int64).min: _LIMITS.min}
_OF_WIDTH = {
    "stablehlo.bitcast_convert",
    "stablehlo.custom_call",
    "stablehlo.rng_bit_generator",
    "arith.bitcast",
}
_SAME_VALUE = {"arith.extsi", "arith.trunci"}


@dataclass(frozen=True, kw_only=True)
class NarrowIntegers:
    """Every i64 inside a program becomes i32; its arguments and results stay i64.

    PyTorch and TensorFlow count, index and mask in i64, and phones' GPUs have 32-bit integers.
    The compiler emulates i64 there and refuses most of what it emulates ("failed to legalize
    operation 'vector.broadcast'"): a lone `x.to(int32)` of 128 elements does not compile. Its own
    demotion flag changes the signature, so that callers' i64 data is misread. Here an argument is
    seen as pairs of 32-bit words, of which the low ones are taken, and a result is sign-extended
    the same way: no kernel ever holds an i64.

    Values beyond 32 bits would wrap. Constants show whether a program means such values (hashes,
    random numbers), and results of 64 bits that are made of arguments of 64 bits hand on what a
    caller gave: such a program is left as it is, these unless nothing else compiles. The extreme
    values of i64, which start minima and maxima, become those of i32.

    Attributes:
        wraps: whether results may be made of arguments.

    Measured on Mesa's llvmpipe: MiniLM (embedding, positions, masks in i64) is refused without it,
    and right to 2e-7 with it.
    """

    wraps: bool = False

    name = Integers.NARROW.pass_name
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "NarrowIntegers | None":
        """Where the compile asks for it: plain code was refused, or gave wrong answers."""
        asked = situation.integers
        if asked.pass_name != cls.name:
            return None
        return cls(wraps=asked is Integers.WRAPPING)

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place.

        Returns:
            How many values changed their type; 0 where the program is left as it is.
        """
        from iree.compiler import ir

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            changing = {n: f for n, f in functions(module).items() if n != STATE_FUNCTION}
            operations = [op for f in changing.values() for op in inside(f)]
            if not any(_is_wide(v.type) for f in changing.values() for v in _values(f)):
                return 0
            if not all(_can_change(op) for op in operations):
                return 0
            if not self.wraps and _hands_on(changing, operations):
                return 0
            count = 0
            boundary = _Boundary(module)
            for function in changing.values():
                count += _narrow_body(function)
                if _is_public(function):
                    boundary.keep(function)
                _set_type(function)
            return count


def _values(function: Any) -> Iterator[Any]:
    """Every block argument and result in a function."""
    for op in (function, *inside(function)):
        if op is not function:
            yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.arguments


def _is_wide(kind: Any) -> bool:
    from iree.compiler import ir

    if isinstance(kind, ir.RankedTensorType):
        kind = kind.element_type
    return isinstance(kind, ir.IntegerType) and kind.width == 64


def _hands_on(named: Mapping[str, Any], operations: Sequence[Any]) -> bool:
    """Whether a wide result of a public function is made of a wide argument of one.

    By way of wide values alone: what was compared, indexed with or converted is another number.
    """
    made = _Wide()
    for function in named.values():
        if _is_public(function):
            made.add(entry_block(function).arguments)
    while made.grew():
        for op in operations:
            _follow(op, named, made)
    return any(
        value in made.values
        for function in named.values()
        if _is_public(function)
        for end in returns(function)
        for value in end.operands
    )


class _Wide:
    """A set of wide values that grows."""

    def __init__(self) -> None:
        self.values: set[Any] = set()
        self._before = -1

    def add(self, values: Iterable[Any]) -> None:
        """Add those of 64-bit integers."""
        self.values.update(value for value in values if _is_wide(value.type))

    def grew(self) -> bool:
        """Whether there are more than when it was asked before."""
        before, self._before = self._before, len(self.values)
        return self._before > before


def _follow(op: Any, named: Mapping[str, Any], made: _Wide) -> None:
    """Add what an operation makes of values that are there."""
    from iree.compiler import ir

    if op.name == "func.call":
        callee = named.get(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
        if callee is None or not list(callee.regions[0].blocks):
            return
        into = zip(op.operands, entry_block(callee).arguments, strict=True)
        made.add(inner for given, inner in into if given in made.values)
        for end in returns(callee):
            out = zip(end.operands, op.results, strict=True)
            made.add(result for inner, result in out if inner in made.values)
        return
    blocks = [block for region in op.regions for block in region.blocks]
    ends = [list(block.operations)[-1] for block in blocks if list(block.operations)]
    if any(value in made.values for each in (op, *ends) for value in each.operands):
        made.add(op.results)
        for block in blocks:
            made.add(block.arguments)


def _narrow_type(kind: Any) -> Any:
    from iree.compiler import ir

    narrow = ir.IntegerType.get_signless(32)
    if isinstance(kind, ir.RankedTensorType):
        return ir.RankedTensorType.get(list(kind.shape), narrow, kind.encoding)
    return narrow


def _can_change(operation: Any) -> bool:
    """Whether an operation means the same on i32."""
    from iree.compiler import ir

    values = [*operation.operands, *operation.results]
    wide = [value.type for value in values if _is_wide(value.type)]
    if not wide:
        return True
    for kind in wide:
        element = kind.element_type if isinstance(kind, ir.RankedTensorType) else kind
        if element.is_unsigned:
            return False
    if operation.name in _OF_WIDTH:
        return False
    if operation.name in ("stablehlo.constant", "arith.constant"):
        return _narrow_constant(operation.attributes["value"]) is not None
    return True


def _narrow_constant(attribute: Any) -> Any | None:
    """The constant in 32 bits; None if a value does not fit."""
    from iree.compiler import ir

    narrow = ir.IntegerType.get_signless(32)
    if isinstance(attribute, ir.IntegerAttr):
        value = _SENTINELS.get(attribute.value, attribute.value)
        return ir.IntegerAttr.get(narrow, value) if _fits(np.array(value)) else None
    if not isinstance(attribute, ir.DenseElementsAttr):
        return None
    kind = _narrow_type(attribute.type)
    if attribute.is_splat:
        element = _narrow_constant(attribute.get_splat_value())
        return None if element is None else ir.DenseElementsAttr.get_splat(kind, element)
    values = np.array(attribute)
    for sentinel, replacement in _SENTINELS.items():
        values[values == sentinel] = replacement
    if not _fits(values):
        return None
    return ir.DenseElementsAttr.get(np.ascontiguousarray(values.astype(np.int32)), type=kind)


def _fits(values: np.ndarray) -> bool:
    if not values.size:
        return True
    return bool(values.min() >= _LIMITS.min and values.max() <= _LIMITS.max)


def _narrow_body(function: Any) -> int:
    """Change the type of every i64 value in a function; casts that do nothing then go."""
    from iree.compiler import ir

    from edgec.toolchain.ir.read import element_type

    count = 0
    for value in _values(function):
        if _is_wide(value.type):
            value.set_type(_narrow_type(value.type))
            count += 1
    for operation in list(inside(function)):
        if operation.name in ("stablehlo.constant", "arith.constant"):
            if isinstance(element_type(operation.results[0]), ir.ComplexType):
                continue  # whose attribute the bindings cannot give
            attribute = operation.attributes["value"]
            if attribute.type != operation.results[0].type:
                narrowed = _narrow_constant(attribute)
                if isinstance(narrowed, ir.Attribute):
                    operation.attributes["value"] = narrowed
        elif operation.name in _SAME_VALUE:
            source, result = operation.operands[0], operation.results[0]
            if source.type == result.type:
                result.replace_all_uses_with(source)
                operation.erase()
    return count


def _is_public(function: Any) -> bool:
    from iree.compiler import ir

    if "sym_visibility" not in function.attributes:
        return True
    return bool(ir.StringAttr(function.attributes["sym_visibility"]).value == "public")


def _set_type(function: Any) -> None:
    from iree.compiler import ir

    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    if not list(function.regions[0].blocks):
        return
    inputs = [argument.type for argument in entry_block(function).arguments]
    ends = next(returns(function), None)
    results = list(kind.results) if ends is None else [v.type for v in ends.operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))


class _Boundary:
    """Where a public function meets its caller: i64 outside, i32 inside."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._made: dict[tuple[str, str], str] = {}

    def keep(self, function: Any) -> None:
        """Give a function, narrowed already, its i64 arguments and results back."""
        from iree.compiler import ir

        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        block = entry_block(function)
        with ir.InsertionPoint.at_block_begin(block):
            for argument, wide in zip(block.arguments, kind.inputs, strict=True):
                if argument.type == wide:
                    continue
                narrow = argument.type
                argument.set_type(wide)
                call = self._call("narrow", wide, narrow, argument)
                argument.replace_all_uses_except(call.results[0], call)
        for end in list(returns(function)):
            with ir.InsertionPoint(end), end.location:
                for index, wide in enumerate(kind.results):
                    value = end.operands[index]
                    if value.type != wide:
                        end.operands[index] = self._call("widen", wide, value.type, value).results[
                            0
                        ]

    def _call(self, what: str, wide: Any, narrow: Any, value: Any) -> Any:
        from iree.compiler import ir

        key = (what, str(wide))
        if key not in self._made:
            name = f"__{what}_integers_{len(self._made)}"
            text = _NARROW if what == "narrow" else _WIDEN
            helper = ir.Module.parse(_helper(text, name, ir.RankedTensorType(wide)))
            helper.body.operations[0].operation.clone(
                ip=ir.InsertionPoint.at_block_begin(self._module.body)
            )
            self._made[key] = name
        return ir.Operation.create(
            "func.call",
            results=[narrow if what == "narrow" else wide],
            operands=[value],
            attributes={"callee": ir.FlatSymbolRefAttr.get(self._made[key])},
        )


_NARROW = """
func.func private @{name}(%x: {wide}) -> {narrow} {{
  {sizes}
  %words = iree_tensor_ext.bitcast %x : {wide}{braced} -> {words}{braced}
  %low = tensor.extract_slice %words[{zeros}] [{extents}] [{ones}] : {words} to {narrow}
  return %low : {narrow}
}}
"""
_WIDEN = """
func.func private @{name}(%x: {narrow}) -> {wide} {{
  {sizes}
  %empty = tensor.empty({dims}) : {words}
  %words = linalg.generic {{
      indexing_maps = [affine_map<({all}) -> ({outer})>, affine_map<({all}) -> ({all})>],
      iterator_types = [{loops}]}} ins(%x : {narrow}) outs(%empty : {words}) {{
    ^bb0(%low: i32, %unused: i32):
      %word = linalg.index {rank} : index
      %first = arith.constant 0 : index
      %is_low = arith.cmpi eq, %word, %first : index
      %shift = arith.constant 31 : i32
      %high = arith.shrsi %low, %shift : i32
      %chosen = arith.select %is_low, %low, %high : i32
      linalg.yield %chosen : i32
  }} -> {words}
  %wide = iree_tensor_ext.bitcast %words : {words}{braced} -> {wide}{braced}
  return %wide : {wide}
}}
"""


def _helper(text: str, name: str, wide: Any) -> str:
    """The text of a function between a tensor of i64 and its low words, of any dynamic shape."""
    rank = len(wide.shape)
    given = str(wide) if "narrow" in name else str(_narrow_type(wide))
    dynamic = [axis for axis in range(rank) if wide.is_dynamic_dim(axis)]
    sizes = [
        f"%at{a} = arith.constant {a} : index\n  %size{a} = tensor.dim %x, %at{a} : {given}"
        for a in dynamic
    ]
    names = [f"%size{a}" for a in dynamic]
    shape = [f"%size{a}" if a in dynamic else str(wide.shape[a]) for a in range(rank)]
    typed = ["?" if a in dynamic else str(wide.shape[a]) for a in range(rank)]
    loops = [f"d{a}" for a in range(rank + 1)]
    return text.format(
        name=name,
        wide=wide,
        narrow=_narrow_type(wide),
        words=f"tensor<{'x'.join([*typed, '2', 'i32'])}>",
        sizes="\n  ".join(sizes),
        braced=f"{{{', '.join(names)}}}" if names else "",
        dims=", ".join(names),
        zeros=", ".join(["0"] * (rank + 1)),
        extents=", ".join([*shape, "1"]),
        ones=", ".join(["1"] * (rank + 1)),
        all=", ".join(loops),
        outer=", ".join(loops[:-1]),
        loops=", ".join(['"parallel"'] * (rank + 1)),
        rank=rank,
    )
