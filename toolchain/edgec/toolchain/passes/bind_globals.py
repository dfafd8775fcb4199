"""Arguments that are parameters or state become globals of the module."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgec.runtime.errors import ProgramError
from edgec.runtime.module import GET_STATE, SET_STATE
from edgec.toolchain.ir.functions import (
    entry_block,
    find_function,
    functions,
    returns,
    set_types,
)
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation
from edgec.toolchain.program import (
    STATE_FUNCTION,
    Dialect,
    Function,
    Input,
    Output,
    Parameter,
    ProgramInfo,
    State,
)

__all__ = ["BindGlobals"]


@dataclass(frozen=True, kw_only=True)
class BindGlobals:
    """Parameter and state arguments become globals; state results become stores.

    Programs are lifted so that any StableHLO tool can read them: weights kept outside and state
    are plain arguments and results. A caller should give only real inputs, and a KV cache should
    stay on the device between calls, so each parameter becomes a global that the runtime fills
    from the weights file (`#flow.parameter.named`), and each state a mutable global that every
    function of the module shares, set at load to what `edgec_initial_state` returns. The exported
    `edgec_get_state` and `edgec_set_state` read and write all states at once.

    Measured: MiniLM with its weights outside is a 100 KB module beside an 86 MB file that several
    modules map, instead of 86 MB a module; answers equal to 1.7e-7.

    The compiler updates states in place, and keeps equal constants once: states that begin alike
    would be one memory, and what one is given the other would have, too (keys and values of a
    cache). Each begins in a copy of its own.

    Unsigned integers are kept as signless bits, since the compiler's globals hold no others.
    """

    info: ProgramInfo

    name = "bind-globals"
    purpose = Purpose.MODULE

    @classmethod
    def plan(cls, situation: Situation) -> "BindGlobals | None":
        """For every program."""
        return cls(info=situation.info)

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module`) in place; how many values were bound.

        Raises:
            ProgramError: the code and its description do not fit.
        """
        from iree.compiler import ir

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            for function in self.info.functions:
                _check_counts(find_function(module, function.signature.name), function)
            bound = _Globals(module=module, types={})
            if self.info.states:
                self._declare_states(module, bound)
            for function in self.info.functions:
                self._bind(module, function, bound)
        return sum(
            not isinstance(role, Input | Output)
            for function in self.info.functions
            for role in (*function.arguments, *function.results)
        )

    def _bind(self, module: Any, function: Function, bound: "_Globals") -> None:
        operation = find_function(module, function.signature.name)
        self._bind_arguments(operation, function, bound)
        self._bind_results(operation, function, bound)
        set_types(
            operation,
            [i for i, role in enumerate(function.arguments) if isinstance(role, Input)],
            [i for i, role in enumerate(function.results) if isinstance(role, Output)],
        )

    def _bind_arguments(self, operation: Any, function: Function, bound: "_Globals") -> None:
        from iree.compiler import ir

        block = entry_block(operation)
        with ir.InsertionPoint.at_block_begin(block):
            for index, role in enumerate(function.arguments):
                argument = block.arguments[index]
                if isinstance(role, Parameter):
                    symbol = bound.parameter(self._scope, role.name, argument.type)
                elif isinstance(role, State):
                    symbol = _state_symbol(role.name)
                else:
                    continue
                argument.replace_all_uses_with(bound.load(symbol, argument.type))
        for index in reversed(range(len(function.arguments))):
            if not isinstance(function.arguments[index], Input):
                block.erase_argument(index)

    def _bind_results(self, operation: Any, function: Function, bound: "_Globals") -> None:
        from iree.compiler import ir

        if all(isinstance(role, Output) for role in function.results):
            return
        for terminator in list(returns(operation)):
            values = list(terminator.operands)
            with ir.InsertionPoint(terminator), terminator.location:
                for value, role in zip(values, function.results, strict=True):
                    if isinstance(role, State):
                        bound.store(_state_symbol(role.name), value)
                kept = [
                    value
                    for value, role in zip(values, function.results, strict=True)
                    if isinstance(role, Output)
                ]
                ir.Operation.create("func.return", operands=kept)
            terminator.erase()

    def _in_memory_of_its_own(self, value: Any, number: int) -> Any:
        """A copy of a state's first value: equal constants are one, and so would the states be."""
        from edgec.toolchain.ir import write as graph
        from edgec.toolchain.ir.filling import filled

        if self.info.dialect is not Dialect.STABLEHLO:
            return value
        return filled(value) or graph.copied(value, number)

    @property
    def _scope(self) -> str:
        if self.info.weights is None:
            raise ProgramError(
                "the program has parameters outside but names no weights file",
                hint="export the model again",
            )
        return self.info.weights.scope

    def _declare_states(self, module: Any, bound: "_Globals") -> None:
        """Globals, their initializer, and the functions that read and write them all."""
        from iree.compiler import ir

        initial = find_function(module, STATE_FUNCTION)
        terminator = next(returns(initial))
        if len(terminator.operands) != len(self.info.states):
            raise ProgramError(
                f"{STATE_FUNCTION} returns {len(terminator.operands)} values "
                f"for {len(self.info.states)} states",
                hint="export the model again",
            )
        types = [value.type for value in terminator.operands]
        symbols = [_state_symbol(state.name) for state in self.info.states]
        with ir.InsertionPoint(terminator):
            for index, (symbol, value) in enumerate(
                zip(symbols, list(terminator.operands), strict=True)
            ):
                bound.state(symbol, value.type)
                alone = types.count(value.type) == 1
                kept = value if alone else self._in_memory_of_its_own(value, index)
                terminator.operands[index] = bound.stored_form(kept)
        initial.attributes["sym_visibility"] = ir.StringAttr.get("private")
        set_types(initial, [], range(len(types)))
        _initializer(module, symbols, [value.type for value in terminator.operands])
        _function(module, GET_STATE, [], types, lambda _: [*map(bound.load, symbols, types)])

        def keep(arguments: list[Any]) -> list[Any]:
            for symbol, argument in zip(symbols, arguments, strict=True):
                bound.store(symbol, argument)
            return []

        _function(module, SET_STATE, types, [], keep)


@dataclass(frozen=True)
class _Globals:
    """The globals made so far, by symbol, and how values get in and out of them."""

    module: Any
    types: dict[str, Any]

    def parameter(self, scope: str, key: str, kind: Any) -> str:
        """The symbol of the global that holds a parameter; made at first use."""
        from iree.compiler import ir

        symbol = f"__parameter.{key}"
        stored = _stored_type(kind)
        is_new = symbol not in self.types
        if self.types.setdefault(symbol, stored) != stored:
            raise ProgramError(f"the functions disagree on the type of the parameter {key}")
        if is_new:
            scope_text, key_text = ir.StringAttr.get(scope), ir.StringAttr.get(key)
            value = ir.Attribute.parse(
                f"#flow.parameter.named<{scope_text}::{key_text}> : {stored}"
            )
            self._declare(symbol, {"initial_value": value})
        return symbol

    def state(self, symbol: str, kind: Any) -> None:
        """Declare a mutable global."""
        from iree.compiler import ir

        self.types[symbol] = _stored_type(kind)
        self._declare(symbol, {"is_mutable": ir.UnitAttr.get()})

    def _declare(self, symbol: str, attributes: Mapping[str, Any]) -> None:
        from iree.compiler import ir

        from edgec.toolchain.ir import global_values

        with ir.InsertionPoint.at_block_begin(self.module.body):
            global_values.declare(symbol, self.types[symbol], **attributes)

    def load(self, symbol: str, kind: Any) -> Any:
        """The global's value, as the type the program uses."""
        from edgec.toolchain.ir import global_values

        value = global_values.load(symbol, self._known(symbol))
        if value.type == kind:
            return value
        if str(kind).startswith("!torch"):
            return _cast("torch_c.from_builtin_tensor", value, kind)
        return _cast("stablehlo.bitcast_convert", value, kind)

    def store(self, symbol: str, value: Any) -> None:
        """Set the global."""
        from edgec.toolchain.ir import global_values

        stored = self.stored_form(value)
        if stored.type != self._known(symbol):
            raise ProgramError(
                f"the state {symbol} is {self._known(symbol)} and is given {stored.type}"
            )
        global_values.store(symbol, stored)

    def stored_form(self, value: Any) -> Any:
        """A value as globals can hold it: a builtin tensor of signless elements."""
        stored = _stored_type(value.type)
        if value.type == stored:
            return value
        if str(value.type).startswith("!torch"):
            return _cast("torch_c.to_builtin_tensor", value, stored)
        return _cast("stablehlo.bitcast_convert", value, stored)

    def _known(self, symbol: str) -> Any:
        if symbol not in self.types:
            raise ProgramError(f"the program uses a state it does not declare: {symbol}")
        return self.types[symbol]


def _state_symbol(name: str) -> str:
    return f"__state.{name}"


def _stored_type(kind: Any) -> Any:
    """The type of a global for values of this type."""
    from iree.compiler import ir

    text = str(kind)
    if text.startswith("!torch.vtensor<["):
        shape, _, element = text.removeprefix("!torch.vtensor<[").removesuffix(">").partition("],")
        sizes = [size for size in shape.split(",") if size]
        element = element.lstrip("su") if element[:2] in ("si", "ui") else element
        return ir.Type.parse(f"tensor<{'x'.join([*sizes, element])}>")
    tensor = ir.RankedTensorType(kind)
    element_type = tensor.element_type
    if not isinstance(element_type, ir.IntegerType) or element_type.is_signless:
        return kind
    return ir.RankedTensorType.get(tensor.shape, ir.IntegerType.get_signless(element_type.width))


def _cast(operation: str, value: Any, kind: Any) -> Any:
    from iree.compiler import ir

    return ir.Operation.create(operation, results=[kind], operands=[value]).results[0]


def _check_counts(operation: Any, function: Function) -> None:
    arguments = len(entry_block(operation).arguments)
    results = len(next(returns(operation)).operands)
    if (arguments, results) != (len(function.arguments), len(function.results)):
        raise ProgramError(
            f"{function.signature.name} has {arguments} arguments and {results} results; "
            f"its description has {len(function.arguments)} and {len(function.results)}",
            hint="export the model again",
        )


def _initializer(module: Any, symbols: list[str], types: list[Any]) -> None:
    """`util.initializer` that stores what the initial-state function returns."""
    from iree.compiler import ir

    from edgec.toolchain.ir import global_values

    with ir.InsertionPoint(module.body):
        block = global_values.initializer()
    with ir.InsertionPoint(block):
        call = ir.Operation.create(
            "func.call",
            results=types,
            attributes={"callee": ir.FlatSymbolRefAttr.get(STATE_FUNCTION)},
        )
        for symbol, value in zip(symbols, call.results, strict=True):
            global_values.store(symbol, value)
        ir.Operation.create("util.return")


def _function(
    module: Any,
    name: str,
    inputs: list[Any],
    results: list[Any],
    body: Callable[[list[Any]], list[Any]],
) -> None:
    """A public function whose body `body` builds from its arguments."""
    from iree.compiler import ir

    if name in functions(module):
        raise ProgramError(f"the program already has a function {name}; that name is edgec's own")
    with ir.InsertionPoint(module.body):
        function = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get(name),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, results)),
            },
            regions=1,
        )
    location = ir.Location.current
    block = function.regions[0].blocks.append(*inputs, arg_locs=[location] * len(inputs))
    with ir.InsertionPoint(block):
        values = body(list(block.arguments))
        ir.Operation.create("func.return", operands=values)
