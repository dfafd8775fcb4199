"""States that a function computes anew to dispatches that put them where they were.

What is computed anew has memory of its own at each call, and several such states share one piece of
it, at places that the host looks up. So the commands of a call are made again, although nothing in
them has changed but addresses. Where all states stay where they are, the commands are made once,
and a GPU replays them as a graph.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.functions import entry_block, functions
from edgec.toolchain.ir.read import element_type, is_dynamic
from edgec.toolchain.kernels.gpu.dispatches import written_into
from edgec.toolchain.kernels.gpu.moves import Mover, Part, Place
from edgec.toolchain.kernels.spec import Declined

__all__ = ["keep_states", "spread_tests"]

_MOST_BYTES = 8 << 20
"""What a GPU's memory copies in the time in which some ten commands are made."""
_LOAD, _STORE = "util.global.load", "util.global.store"


def keep_states(module: Any, mover: Mover) -> None:
    """Rewrite `module` in place: functions whose states are small keep them where they are."""
    for function in functions(module).values():
        if not list(function.regions[0].blocks):
            continue
        anew = list(_computed_anew(entry_block(function)))
        size = sum(_bytes(store.operands[0]) for store in anew)
        if size <= _MOST_BYTES and all(_fits(store.operands[0], mover.elements) for store in anew):
            for store in anew:
                _keep(store, mover)


def _computed_anew(block: Any) -> Iterator[Any]:
    """The stores of states whose values lie elsewhere than the states."""
    for view in block.operations:
        op = view.operation
        if op.name == _STORE and not _lies_there(op.operands[0], _symbol(op)):
            yield op


def _lies_there(value: Any, symbol: Any) -> bool:
    """Whether a value is what the state was, or that with parts that are written into it."""
    while (array := written_into(value)) is not None:
        value = array
    if isinstance(value.owner, ir.Block) or value.owner.name != _LOAD:
        return False
    return bool(_symbol(value.owner.operation) == symbol)


def _symbol(op: Any) -> Any:
    return op.attributes["global"]


def _bytes(value: Any) -> int:
    if is_dynamic(value):
        return _MOST_BYTES + 1
    return math.prod(graph.shape(value)) * -(-int(graph.element(value).width) // 8)


def _fits(value: Any, elements: Collection[str]) -> bool:
    return str(element_type(value)) in elements and math.prod(graph.shape(value)) > 0


def _keep(store: Any, mover: Mover) -> None:
    """Put what is stored into the state."""
    value = store.operands[0]
    with ir.InsertionPoint(store), store.location:
        old = ir.Operation.create(
            _LOAD, results=[value.type], attributes={"global": _symbol(store)}
        ).results[0]
        found = mover.put([Part(value=value)], [old], Place())
        if isinstance(found, Declined):
            old.owner.erase()
        else:
            store.operands[0] = found[0]


def spread_tests(module: Any) -> None:
    """Choices between arrays by one truth have it as an array.

    The compiler takes one truth as a number of the host's, which waits for the device to say it.
    """
    from edgec.toolchain.ir.rewriting import rewrite_each

    rewrite_each(module, ["stablehlo.select"], _spread)


def _spread(op: Any) -> Sequence[Any] | None:
    test, then, otherwise = op.operands
    sizes = graph.shape(then)
    if graph.shape(test) == sizes or not sizes:
        return None
    return [graph.select(graph.broadcast(test, sizes), then, otherwise)]
