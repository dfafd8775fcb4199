"""What weights alone give is made once, when a module loads, for all functions that read it."""

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.flags import most_filled
from edgec.toolchain.ir.functions import entry_block, functions
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["MadeOnce"]

_Way = tuple[int, int]
_LOAD = "util.global.load"
_CONSTANT = "stablehlo.constant"
_WHOLE = ("flow.dispatch", "stablehlo.dot_general", "stablehlo.convolution")
"""What reads an operand from memory, whatever made it."""
_SAME_BYTES = ("stablehlo.reshape", "stablehlo.bitcast_convert", _LOAD, _CONSTANT)
_LEAST = 4096
"""Bytes from which it is worth a global."""


@dataclass(frozen=True, kw_only=True)
class MadeOnce:
    """What several functions make of weights alone, and read whole, becomes one global.

    The compiler computes such values when a module loads, for each function by itself: a language
    model whose prompts are read in chunks of 64 and of 256 tokens had its weights as f32 twice.
    Here they are made by an initializer, and functions load what it has stored. What is larger than
    the compiler would make at load stays where it is.

    Measured on an H200: SmolLM2 from 4-bit blocks with chunks of 64 and 256 took 1,611 MiB of the
    GPU's memory, one with chunks of 64 alone 1,097; with it both take as much.

    Attributes:
        most_filled: bytes by which a value may be larger than the weights that it is made of.
    """

    most_filled: int

    name = "made-once"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "MadeOnce | None":
        """For StableHLO with weights outside on GPUs with kernels of edgec's own, at -O2."""
        most = most_filled(situation.target)
        if not most or not situation.is_stablehlo or situation.level < 2:
            return None
        return cls(most_filled=most)

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many globals it adds."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            shared = [
                values for values in _made_alike(module).values() if len({f for f, _ in values}) > 1
            ]
            number = 0
            for values in shared:
                made = [value for _, value in values]
                if self._pays(made[0]):
                    _make_once(module, made, f"__made.{number}")
                    number += 1
            if number:
                erase_unused(module)
            return number

    def _pays(self, value: Any) -> bool:
        from edgec.toolchain.ir.work import bytes_of

        made_of = sum(bytes_of(each) for each in _loaded(value))
        return made_of > 0 and _LEAST <= bytes_of(value) <= made_of + self.most_filled


def _made_alike(module: Any) -> dict[_Way, list[tuple[str, Any]]]:
    """What is made of weights and read whole, by how it is made: functions and values."""
    from iree.compiler import ir

    from edgec.toolchain.ir.weights import Weights

    weights = Weights(module)
    ways = _Ways(by_op={}, known={})
    found = defaultdict[_Way, list[tuple[str, Any]]](list)
    for name, function in functions(module).items():
        if not list(function.regions[0].blocks):
            continue
        seen = set[Any]()
        for op in entry_block(function).operations:
            if op.operation.name not in _WHOLE:
                continue
            for value in op.operands:
                if value in seen or not isinstance(value.type, ir.RankedTensorType):
                    continue
                seen.add(value)
                if weights.holds(value) and _is_made(value):
                    found[ways.of(value)].append((name, value))
    return found


def _is_made(value: Any) -> bool:
    """Whether more than reading the same bytes is done, and nothing that differs each time."""
    names = {op.name for op in _chain(value)}
    return "stablehlo.rng" not in names and _LOAD in names and not names <= set(_SAME_BYTES)


def _chain(value: Any) -> Iterator[Any]:
    """The operations that make a value, each once, operands before what reads them."""
    done, waiting = set[Any](), [(value.owner.operation, False)]
    while waiting:
        op, is_ready = waiting.pop()
        if is_ready:
            yield op
        elif op not in done:
            done.add(op)
            waiting.append((op, True))
            waiting += [(operand.owner.operation, False) for operand in op.operands]


def _loaded(value: Any) -> list[Any]:
    return [op.results[0] for op in _chain(value) if op.name == _LOAD]


@dataclass(frozen=True, kw_only=True)
class _Ways:
    """How values are made, numbered: the same for what is made alike, and for nothing else."""

    by_op: dict[Any, int]
    known: dict[Hashable, int]

    def of(self, value: Any) -> _Way:
        """The number of an operation's way, and which result of it."""
        for op in _chain(value):
            if op in self.by_op:
                continue
            attributes = tuple(sorted(f"{name}={op.attributes[name]}" for name in op.attributes))
            operands = tuple((self.by_op[o.owner.operation], _number(o)) for o in op.operands)
            way = (op.name, attributes, operands, tuple(str(each.type) for each in op.results))
            self.by_op[op] = self.known.setdefault(way, len(self.known))
        return self.by_op[value.owner.operation], _number(value)


def _number(value: Any) -> int:
    return list(value.owner.operation.results).index(value)


def _make_once(module: Any, values: list[Any], symbol: str) -> None:
    """One global in the place of values that are made alike."""
    from iree.compiler import ir

    from edgec.toolchain.ir import global_values

    first = values[0]
    start = next(op for op in module.body.operations if op.operation.name == "func.func")
    with ir.InsertionPoint(start):
        global_values.declare(symbol, first.type)
        block = global_values.initializer()
    copies: dict[Any, Any] = {}
    with ir.InsertionPoint(block):
        for op in _chain(first):
            copy = op.clone()
            for number, operand in enumerate(op.operands):
                made = copies[operand.owner.operation]
                copy.operands[number] = made.results[_number(operand)]
            copies[op] = copy
        global_values.store(symbol, copies[first.owner.operation].results[_number(first)])
        ir.Operation.create("util.return")
    for value in values:
        with ir.InsertionPoint(value.owner.operation), value.owner.operation.location:
            loaded = global_values.load(symbol, value.type)
        value.replace_all_uses_with(loaded)
