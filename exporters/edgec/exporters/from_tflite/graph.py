"""A subgraph of a `.tflite` file as a JAX function: operators one after the other, by the table.

What is computed of constants and shapes alone is computed while tracing, so that operators which
need known sizes find them; with dynamic dimensions these are NumPy arrays of symbols.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from edgec.exporters.from_tflite.call import Call, dequantized, quantized
from edgec.exporters.from_tflite.control import CONTROL, first_numbers, inner
from edgec.exporters.from_tflite.integers import fits, product
from edgec.exporters.from_tflite.items import with_items
from edgec.exporters.from_tflite.model import (
    TfliteOperator,
    TfliteSubgraph,
    TfliteTensor,
)
from edgec.exporters.from_tflite.operators import RULES, Numbers, Operator
from edgec.exporters.from_tflite.variables import VARIABLES, first_runs, name_of
from edgec.exporters.lift_weights import SMALLEST
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.framework_values import place_name

__all__ = ["compute", "first_values", "weights_of"]

_FOLDED = 1024  # elements; larger results of constants are computed by the module


def weights_of(graph: TfliteSubgraph) -> dict[str, TfliteTensor]:
    """The constants that are weights, by names that differ."""
    used = {i for operator in graph.operators for i in operator.inputs}
    found: dict[str, TfliteTensor] = {}
    for tensor in graph.tensors:
        if tensor.index not in used or tensor.data is None or tensor.data.nbytes < SMALLEST:
            continue
        name, number = tensor.name, 1
        while name in found:
            number += 1
            name = f"{tensor.name}__{number}"
        found[name] = tensor
    return found


def first_values(
    graph: TfliteSubgraph, graphs: Sequence[TfliteSubgraph] = ()
) -> dict[str, np.ndarray]:
    """The variables of a subgraph that have a value before its first call, by name."""
    found: dict[str, Any] = {}
    for place in first_runs(graph, graphs):
        compute(graphs[place], [], {}, graphs, variables=found)
    return {name: np.asarray(value) for name, value in found.items()}


def compute(
    graph: TfliteSubgraph,
    inputs: Sequence[Any],
    weights: Mapping[int, Any],
    graphs: Sequence[TfliteSubgraph] = (),
    first: int | None = None,
    variables: dict[str, Any] | None = None,
) -> list[Any]:
    """The outputs of a subgraph.

    Args:
        graph: tensors and operators, all in the table.
        inputs: JAX arrays in the subgraph's order.
        weights: JAX arrays for the constants that are weights, by tensor.
        graphs: all subgraphs of the file, for loops and branches.
        first: where the numbers of its tensors begin, which locations are to carry; None for none.
        variables: by name what they are before; what they are after is set here.

    Raises:
        UnsupportedOp: an operator has a form that is not taken.
    """
    graph = with_items(graph)
    run = _Run(graph, graphs, first, {} if variables is None else variables)
    for index, value in zip(graph.inputs, inputs, strict=True):
        run.values[index] = value
    run.values.update(weights)
    import jax
    import jax.numpy as jnp

    for operator in graph.operators:
        with jax.named_scope(_title(operator, graph)), run.numbered(operator):
            run.step(operator)
    return [jnp.asarray(run.value(i)) for i in graph.outputs]


def _title(operator: TfliteOperator, graph: TfliteSubgraph) -> str:
    """What an operator is called in errors: its kind and, since it has no name, its result's."""
    made = [graph.tensors[index].name for index in operator.outputs if index >= 0]
    return f"{operator.kind} {made[0]}" if made and made[0] else str(operator.kind)


class _Run:
    """The values of a subgraph's tensors as they become known."""

    def __init__(
        self,
        graph: TfliteSubgraph,
        graphs: Sequence[TfliteSubgraph],
        first: int | None,
        variables: dict[str, Any],
    ) -> None:
        self._graph, self._graphs, self._first = graph, graphs, first
        self._variables = variables
        self._handles: dict[int, str] = {}
        self.values: dict[int, Any] = {}
        self.known = {t.index: t.data for t in graph.tensors if t.data is not None}
        made = {*graph.inputs, *(i for o in graph.operators for i in o.outputs)}
        for tensor in graph.tensors:  # a constant without elements has no bytes in the file
            if tensor.data is None and 0 in tensor.shape and tensor.index not in made:
                self.known[tensor.index] = np.zeros(tensor.shape, tensor.dtype)

    def numbered(self, operator: TfliteOperator) -> AbstractContextManager[None]:
        """A scope of JAX's that says the number of what an operator gives, where that is asked."""
        import jax

        if self._first is None or not operator.outputs:
            return nullcontext()
        scope: AbstractContextManager[None] = jax.named_scope(
            place_name(self._first + operator.outputs[0])
        )
        return scope

    def value(self, index: int) -> Any:
        """A tensor's value: computed, given, or constant."""
        if index in self.values:
            return self.values[index]
        if index in self.known:
            return self.known[index]
        tensor = self._graph.tensors[index]
        raise UnsupportedOp(
            f"the tensor {tensor.name} keeps its value from call to call"
            if tensor.data is None
            else f"the tensor {tensor.name} is not computed",
            hint="convert the model with its state as inputs and outputs",
        )

    def step(self, operator: TfliteOperator) -> None:
        """Compute an operator's outputs."""
        import jax
        import jax.numpy as jnp

        if operator.kind in CONTROL:
            self._control(operator)
            return
        if operator.kind in VARIABLES:
            self._variable(operator)
            return
        rule = RULES[operator.kind]
        inputs = [i if i >= 0 else None for i in operator.inputs]
        given = [None if i is None else self.known.get(i) for i in inputs]
        sizes = any(g is not None and g.dtype == object for g in given)
        folds = all(i is None or i in self.known for i in inputs) and not sizes
        folds = folds and all(
            int(np.prod(self._graph.tensors[i].shape)) <= _FOLDED for i in operator.outputs
        )
        if sizes and rule.on_sizes and all(i is None or i in self.known for i in inputs):
            results = self._apply(operator, rule, given, np)
        elif folds:
            with jax.ensure_compile_time_eval():
                arrays = [None if g is None else jnp.asarray(g) for g in given]
                results = [np.asarray(r) for r in self._apply(operator, rule, arrays, jnp)]
        else:
            arrays = [None if i is None else self._array(i) for i in inputs]
            results = self._apply(operator, rule, arrays, jnp)
        for index, result in zip(operator.outputs, results, strict=False):
            (self.known if isinstance(result, np.ndarray) else self.values)[index] = result

    def _control(self, operator: TfliteOperator) -> None:
        """A loop or branch: its subgraphs as functions of the values that it carries."""
        import jax.numpy as jnp
        from jax import lax

        starts: Sequence[int | None] = (None, None)
        if self._first is not None:
            starts = first_numbers(operator, self._graph, self._graphs, self._first)
        first, second = zip(inner(operator, self._graphs), starts, strict=True)
        values = tuple(jnp.asarray(self.value(i)) for i in operator.inputs)

        def run(chosen: tuple[int, int | None], carried: Sequence[Any]) -> tuple[Any, ...]:
            graph = self._graphs[chosen[0]]
            results = compute(graph, carried, {}, self._graphs, chosen[1])
            kinds = [graph.tensors[i].dtype for i in graph.outputs]
            return tuple(r.astype(kind) for r, kind in zip(results, kinds, strict=True))

        if operator.kind == "WHILE":
            results = lax.while_loop(
                lambda carried: run(first, carried)[0].reshape(()),
                lambda carried: run(second, carried),
                values,
            )
        else:
            results = lax.cond(
                values[0].reshape(()),
                lambda *given: run(first, given),
                lambda *given: run(second, given),
                *values[1:],
            )
        self.values.update(zip(operator.outputs, results, strict=True))

    def _variable(self, operator: TfliteOperator) -> None:
        """Name, read or set a variable; what runs once has run."""
        if operator.kind == "VAR_HANDLE":
            self._handles[operator.outputs[0]] = name_of(operator)
        elif operator.kind == "ASSIGN_VARIABLE":
            handle, value = operator.inputs
            self._variables[self._handles[handle]] = self._array(value)
        elif operator.kind == "READ_VARIABLE":
            name = self._handles[operator.inputs[0]]
            if name not in self._variables:
                raise UnsupportedOp(
                    f"the variable {name} is read and has no first value",
                    hint="convert the model with an initialiser for it (CALL_ONCE)",
                )
            self.values[operator.outputs[0]] = self._variables[name]

    def _array(self, index: int) -> Any:
        import jax.numpy as jnp

        value = self.value(index)
        if isinstance(value, np.ndarray) and value.dtype == object:
            return value  # for an operator that only asks for known sizes
        return jnp.asarray(value)

    def _apply(
        self, operator: TfliteOperator, rule: Operator, values: Sequence[Any], module: Any
    ) -> list[Any]:
        tensors = self._graph.tensors
        inputs = [None if i < 0 else tensors[i] for i in operator.inputs]
        outputs = [tensors[i] for i in operator.outputs]
        call = Call(
            operator=operator,
            values=values,
            known=[None if i < 0 else self.known.get(i) for i in operator.inputs],
            inputs=inputs,
            outputs=outputs,
            xp=module,
        )
        if module is np:  # a single size comes as a bare symbol
            return [np.array(r, dtype=object) for r in _each(rule.function(call))]
        if rule.product is not None and fits(call, *rule.product):
            return [product(call, rule.function, *rule.product)]
        if rule.numbers is Numbers.MOVED and _same_grid(rule, call):
            return _typed(_each(rule.function(call)), outputs)
        real = [
            value
            if value is None or tensor is None or _is_sizes(value)
            else dequantized(value, tensor, wide=number == rule.bias)
            for number, (value, tensor) in enumerate(zip(values, inputs, strict=True))
        ]
        results = _each(rule.function(Call(**{**vars(call), "values": real})))
        return _typed([quantized(r, t) for r, t in zip(results, outputs, strict=False)], outputs)


def _each(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def _is_sizes(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object


def _typed(results: Sequence[Any], outputs: Sequence[TfliteTensor]) -> list[Any]:
    """Results in the types that the file says, unless they are sizes."""
    return [
        r if _is_sizes(r) else r.astype(t.dtype) for r, t in zip(results, outputs, strict=False)
    ]


def _same_grid(rule: Operator, call: Call) -> bool:
    """Whether the data and the outputs of an operator that moves integers mean the same by them."""
    chosen = range(len(call.inputs)) if rule.data is None else rule.data
    data = [call.inputs[i] for i in chosen if i < len(call.inputs)]
    outputs = [t for t in call.outputs if t.quantization is not None and t.dtype.itemsize <= 2]
    grids = {_grid(t) for t in (*data, *outputs) if t is not None}
    return not outputs or len(grids) <= 1


def _grid(tensor: TfliteTensor) -> Any:
    given = tensor.quantization
    return None if given is None else (tensor.dtype.name, given.scales, given.zero_points)
