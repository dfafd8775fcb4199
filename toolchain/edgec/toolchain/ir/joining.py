"""A function whose last arguments are computed from its last results, with what computes them.

An importer that cannot write some operation leaves it out: what the operation reads is a result
then, and what it gives an argument. Here both are inside again.
"""

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.runtime.errors import ProgramError
from edgec.toolchain.ir.functions import entry_block, find_function, functions, returns, set_types
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["Piece", "called", "given_by", "joined"]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What was left out.

    Attributes:
        name: the operation's, for locations.
        takes, gives: how many results it reads, and how many arguments it gives.
        bodies: modules in StableHLO whose function `main` it calls.
        write: writes it, at the insertion point: from the functions of its bodies (`func.func`)
            and the values that it takes to those that it gives.
    """

    name: str
    takes: int
    gives: int
    bodies: Sequence[bytes]
    write: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


def joined(code: bytes, pieces: Sequence[Piece]) -> bytes:
    """The module with all pieces in the function `main`, without the arguments and results.

    Args:
        code: a module in StableHLO; arguments and results of the pieces are the last, in order.
        pieces: what was left out.

    Raises:
        ProgramError: a piece and the function do not fit.
    """
    from iree.compiler import ir

    with ir.Context() as context, ir.Location.unknown():
        module = parse_stablehlo(code, context)
        main = find_function(module, "main")
        block, end = entry_block(main), next(returns(main))
        inputs = len(block.arguments) - sum(piece.gives for piece in pieces)
        results = len(end.operands) - sum(piece.takes for piece in pieces)
        taken, given = results, inputs
        for piece in pieces:
            bodies = [_included(module, body) for body in piece.bodies]
            values = [end.operands[taken + n] for n in range(piece.takes)]
            try:
                with ir.InsertionPoint(end), ir.Location.name(piece.name):
                    found = piece.write(bodies, values)
            except (ir.MLIRError, ValueError) as error:
                raise ProgramError(f"{piece.name} has no loop: {error}") from error
            for number, value in enumerate(found):
                argument = block.arguments[given + number]
                if argument.type != value.type:
                    raise ProgramError(
                        f"{piece.name} gives {value.type} where {argument.type} is read"
                    )
                argument.replace_all_uses_with(value)
            taken, given = taken + piece.takes, given + piece.gives
        _shorten(main, inputs, results)
        _order(block)
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            raise ProgramError(f"its loops do not fit: {error}") from error
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def called(function: Any, values: Sequence[Any]) -> list[Any]:
    """The results of a call of a `func.func`, at the insertion point.

    Raises:
        ValueError: the values are not what it takes.
    """
    from iree.compiler import ir

    kind = _kind(function)
    if [value.type for value in values] != list(kind.inputs):
        raise ValueError(f"{[str(v.type) for v in values]} for {kind}")
    name = ir.StringAttr(function.attributes["sym_name"]).value
    call = ir.Operation.create(
        "func.call",
        results=list(kind.results),
        operands=list(values),
        attributes={"callee": ir.FlatSymbolRefAttr.get(name)},
    )
    return list(call.results)


def given_by(function: Any) -> list[Any]:
    """The types of a `func.func`'s results."""
    return list(_kind(function).results)


def _kind(function: Any) -> Any:
    from iree.compiler import ir

    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def _included(module: Any, code: bytes) -> Any:
    """The `main` of another module as a private function of this one, once for equal code."""
    from iree.compiler import ir

    name = f"part_{hashlib.sha256(code).hexdigest()[:12]}"
    known = functions(module)
    if name in known:
        return known[name]
    other = parse_stablehlo(code, module.context)
    for old, function in functions(other).items():
        new = name if old == "main" else old
        if new in known:
            continue
        if new != old:
            ir.SymbolTable.set_symbol_name(function, new)
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")
        function.clone(ip=ir.InsertionPoint(module.body))
    return functions(module)[name]


def _shorten(function: Any, inputs: int, results: int) -> None:
    """Drop the arguments and results after the first so many."""
    from iree.compiler import ir

    block, end = entry_block(function), next(returns(function))
    with ir.InsertionPoint(end), end.location:
        ir.Operation.create("func.return", operands=list(end.operands)[:results])
    end.erase()
    while len(block.arguments) > inputs:
        block.erase_argument(len(block.arguments) - 1)
    set_types(function, range(inputs), range(results))


def _order(block: Any) -> None:
    """Put operations behind those whose results they read, and leave the rest as it is."""
    *operations, end = [op.operation for op in block.operations]
    here = set(operations)
    done: set[Any] = set()
    for first in operations:
        pending = [first]
        while pending:
            op = pending[-1]
            before = [o for o in _read(op) if o in here and o not in done and o != op]
            if before and op not in done:
                pending += before
                continue
            pending.pop()
            if op not in done:
                done.add(op)
                op.move_before(end)


def _read(operation: Any) -> list[Any]:
    """The operations whose results an operation reads, also inside of it."""
    from iree.compiler import ir

    from edgec.toolchain.ir.functions import inside

    values = [v for op in (operation, *inside(operation)) for v in op.operands]
    return [v.owner.operation for v in values if not isinstance(v.owner, ir.Block)]
