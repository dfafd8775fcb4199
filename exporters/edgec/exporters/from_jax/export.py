"""JAX functions and models (plain, Flax linen and nnx, Equinox) to traced StableHLO functions.

`jax.export` lowers a flat function `(weights, state, inputs) -> (new state, outputs)`; everything
that has a name keeps it in the signature and the roles.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.exporters.bundle import Bundle, Entry
from edgec.exporters.conditioning import answers_beside, conditioned
from edgec.exporters.dynamic import Dynamic, other_sizes, resize
from edgec.exporters.examples import example_array
from edgec.exporters.extras import need
from edgec.exporters.failures import user_errors
from edgec.exporters.from_jax.algorithms import any_algorithm
from edgec.exporters.from_jax.arguments import Arguments, bind_arguments, skeleton_of
from edgec.exporters.from_jax.captured import captured_arrays
from edgec.exporters.from_jax.lower import Lowered, cut_of, lower, lower_for_mesh
from edgec.exporters.from_jax.models import Pure, path_name, pure
from edgec.exporters.from_jax.on_the_way import values_of
from edgec.exporters.from_jax.pallas import interpreted
from edgec.exporters.from_jax.shapes import InputShapes, choose_shapes
from edgec.exporters.traced import TracedCall, TracedFunction
from edgec.runtime import tree
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError, InputError
from edgec.runtime.mesh.plan import Mesh
from edgec.runtime.signature import Signature, TensorSpec
from edgec.runtime.tree import Tree
from edgec.toolchain.framework_values import FrameworkValue
from edgec.toolchain.program import Dialect, Input, Output, Parameter, Role, State

__all__ = ["trace", "trace_for_mesh"]

_ROUNDS_WITH_STATE = 3


@dataclass(frozen=True, kw_only=True)
class _Prepared:
    """One entry, flat: `call` takes weights, states and inputs as lists of arrays."""

    entry: Entry
    arguments: Arguments
    shapes: InputShapes
    weights: Mapping[str, Any]
    states: tuple[str, ...]
    updates: tuple[str, ...]
    call: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Any]]


def trace(bundle: Bundle, *, dynamic: Dynamic, values: bool = False) -> tuple[TracedFunction, ...]:
    """Trace each entry of a bundle, and run it in JAX for golden answers.

    With `values`, what JAX computes on the way to each one's first answer is kept, too.

    Raises:
        ExportError: JAX cannot run or trace it; UnsupportedOp where an operation is the reason.
        MissingExtra: JAX is not installed.
        SourceError: an entry holds no JAX model.
        UsageError: example inputs or dynamic dimensions that do not fit.
    """
    need("jax", extra="jax", why="exporting a JAX model")
    with interpreted(), any_algorithm():
        return _trace(bundle, dynamic, values=values)


def trace_for_mesh(bundle: Bundle, *, mesh: Mesh) -> tuple[TracedFunction, ...]:
    """As `trace`, for the devices of a mesh: the modules hold Shardy's notes, not StableHLO alone.

    Specifications without a mesh (`with_sharding_constraint(x, P("x"))`) are of this one. JAX runs
    the example inputs on devices of its own, of which it needs as many.

    Raises:
        As `trace`; ExportError where JAX has too few devices.
    """
    need("jax", extra="jax", why="exporting a JAX model")
    import jax
    from jax.sharding import AxisType

    if len(jax.devices()) < mesh.devices:
        raise ExportError(
            f"the mesh {mesh} has {mesh.devices} devices, and JAX has {len(jax.devices())} here",
            hint=f'jax.config.update("jax_num_cpu_devices", {mesh.devices}) before JAX is used, or '
            "`edgec export --mesh` from the command line",
        )
    with interpreted(), any_algorithm():
        if jax.sharding.get_abstract_mesh().axis_names:  # the model has set its own
            return _trace(bundle, Dynamic.parse(None), values=False, for_mesh=True)
        sizes, names = tuple(mesh.axes.values()), tuple(mesh.axes)
        kinds = (AxisType.Auto,) * len(names)
        devices = jax.devices()[: mesh.devices]
        with jax.set_mesh(jax.make_mesh(sizes, names, axis_types=kinds, devices=devices)):
            return _trace(bundle, Dynamic.parse(None), values=False, for_mesh=True)


def _trace(
    bundle: Bundle, dynamic: Dynamic, *, values: bool, for_mesh: bool = False
) -> tuple[TracedFunction, ...]:
    initial = _bundle_state(bundle.state)
    states = dict(initial)
    prepared = [_prepare(entry, bundle.state, initial, states, dynamic) for entry in bundle.entries]
    # Lowered before it is run: what has no portable form is refused before it prints anything.
    lowered = [_lowered(one, states, values=values, for_mesh=for_mesh) for one in prepared]
    calls: list[list[TracedCall]] = [[] for _ in prepared]
    skeletons: list[Tree] = [None] * len(prepared)
    current = dict(states)
    on_the_way: list[tuple[FrameworkValue, ...]] = [() for _ in prepared]
    stateful = any(one.states for one in prepared)
    for number in range(_ROUNDS_WITH_STATE if stateful else 1):
        for index, one in enumerate(prepared):
            for data in _example_data(one, first=number == 0):
                if values and not calls[index]:
                    on_the_way[index] = _on_the_way(one, data, current)
                call, skeletons[index] = _run(one, data, current)
                calls[index].append(call)
    return tuple(
        replace(_traced(one, code, skeleton, tuple(made), states), values=noted, computed_by="jax")
        for one, code, skeleton, made, noted in zip(
            prepared, lowered, skeletons, calls, on_the_way, strict=True
        )
    )


def _bundle_state(state: Any) -> dict[str, Any]:
    import jax

    found, _ = jax.tree_util.tree_flatten_with_path(state)
    return {path_name(path) or "state": jax.numpy.asarray(leaf) for path, leaf in found}


def _prepare(
    entry: Entry,
    bundle_state: Any,
    initial: Mapping[str, Any],
    states: dict[str, Any],
    dynamic: Dynamic,
) -> _Prepared:
    """Flatten one entry; states that its model itself keeps are added to `states`."""
    model = pure(entry.function)
    arguments = bind_arguments(
        model, entry.inputs, dict(entry.kwargs or {}), skip=1 if entry.has_state else 0
    )
    shapes = choose_shapes(arguments.leaves, dynamic)
    names = tuple(initial) if entry.has_state else ()
    changed = _changed_arrays(entry, model, bundle_state, arguments, shapes)
    for name in changed:
        value = model.arrays[name]
        if name in states and states[name] is not value:
            raise ExportError(
                f"two models in one program both keep a state named {name}",
                hint="export them as two programs, or name the layers differently",
            )
        states[name] = value
    weights = {name: value for name, value in model.arrays.items() if name not in changed}
    call = _flat_call(entry, model, bundle_state, arguments, tuple(changed))
    return _Prepared(
        entry=entry,
        arguments=arguments,
        shapes=shapes,
        weights=weights,
        states=names + tuple(changed),
        updates=(names if entry.updates_state else ()) + tuple(changed),
        call=call,
    )


def _flat_call(
    entry: Entry, model: Pure, bundle_state: Any, arguments: Arguments, changed: Sequence[str]
) -> Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Any]]:
    """The entry over flat lists; `changed` names the model's arrays that are state."""
    import jax

    leaves, structure = jax.tree_util.tree_flatten(bundle_state)
    count = len(leaves) if entry.has_state else 0
    keys = [_key_of(value) for value in leaves]
    order = list(model.arrays)
    array_keys = {name: _key_of(value) for name, value in model.arrays.items()}

    def call(
        weights: Sequence[Any], states: Sequence[Any], inputs: Sequence[Any]
    ) -> tuple[Sequence[Any], Any]:
        args, kwargs = arguments.build(inputs)
        own = dict(zip(changed, states[count:], strict=True))
        rest = iter(weights)
        arrays = [
            _wrap(own[name] if name in own else next(rest), array_keys[name]) for name in order
        ]
        if entry.has_state:
            given = [_wrap(v, k) for v, k in zip(states[:count], keys, strict=True)]
            args = (jax.tree_util.tree_unflatten(structure, given), *args)
        after, result = model.call(arrays, args, kwargs)
        new: list[Any] = []
        if entry.updates_state:
            state, result = _split_state(entry, result)
            new = _checked_state(entry, state, structure, leaves)
        by_name = dict(zip(order, after, strict=True))
        new += [by_name[name] for name in changed]
        return [_raw(v) for v in new], jax.tree_util.tree_map(_raw, result)

    call.__name__ = entry.name  # JAX writes it into the names of operations
    return call


def _split_state(entry: Entry, result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise ExportError(
            f"{entry.name} updates the state and returned {_kind(result)}",
            hint="return (new_state, outputs)",
        )
    return result


def _checked_state(entry: Entry, state: Any, structure: Any, leaves: Sequence[Any]) -> list[Any]:
    import jax

    new: list[Any]
    new, new_structure = jax.tree_util.tree_flatten(state)
    if new_structure != structure:
        raise ExportError(
            f"{entry.name} returned a state of another structure: {new_structure}",
            hint=f"return (new_state, outputs) with a state like the initial one: {structure}",
        )
    names = [path_name(p) for p, _ in jax.tree_util.tree_flatten_with_path(state)[0]]
    for name, value, before in zip(names, new, leaves, strict=True):
        now, was = jax.numpy.asarray(value), jax.numpy.asarray(before)
        if (now.shape, now.dtype) != (was.shape, was.dtype):
            raise ExportError(
                f"{entry.name} turns the state {name or 'state'} from {was.dtype}{list(was.shape)} "
                f"into {now.dtype}{list(now.shape)}",
                hint="a state keeps its shape and dtype; cast it back (x.astype(state.dtype))",
            )
    return new


def _changed_arrays(
    entry: Entry, model: Pure, bundle_state: Any, arguments: Arguments, shapes: InputShapes
) -> tuple[str, ...]:
    """Which of the model's own arrays a call replaces: caches, counters."""
    if not model.arrays:
        return ()
    import jax

    leaves, structure = jax.tree_util.tree_flatten(bundle_state)

    def arrays_after(before: Sequence[Any], state: Sequence[Any], inputs: Sequence[Any]) -> Any:
        args, kwargs = arguments.build(inputs)
        if entry.has_state:
            args = (jax.tree_util.tree_unflatten(structure, state), *args)
        return list(model.call(before, args, kwargs)[0])

    with user_errors(entry.name, "traced by JAX", hint=_advice):
        arrays = list(model.arrays.values())
        jaxpr = jax.make_jaxpr(arrays_after)(arrays, leaves, shapes.specs).jaxpr
    updated, before = jaxpr.outvars, jaxpr.invars[: len(arrays)]
    return tuple(
        name for name, out, own in zip(model.arrays, updated, before, strict=True) if out is not own
    )


def _example_data(one: _Prepared, *, first: bool) -> list[list[np.ndarray]]:
    """Inputs for the calls of one round: the example's, then other sizes in the first round."""
    example = [
        leaf.value if hasattr(leaf.value, "__array__") else example_array(spec, one.shapes.sizes)
        for leaf, spec in zip(one.arguments.leaves, one.shapes.inputs, strict=True)
    ]
    sets = [[np.asarray(value) for value in example]]
    if not first or one.states:
        return sets
    for sizes in other_sizes(one.shapes.dims, one.shapes.sizes):
        sets.append(
            [
                resize(value, [d if isinstance(d, int) else sizes[d.name] for d in spec.shape])
                for value, spec in zip(sets[0], one.shapes.inputs, strict=True)
            ]
        )
    return sets


def _run(
    one: _Prepared, data: Sequence[np.ndarray], current: dict[str, Any]
) -> tuple[TracedCall, Tree]:
    """One golden call in JAX: flat answers and their nesting; `current` states move on."""
    import jax

    inputs = [
        value.item() if leaf.weak else value
        for leaf, value in zip(one.arguments.leaves, data, strict=True)
    ]
    run = jax.jit(one.call)
    weights = [_raw(v) for v in one.weights.values()]
    states = [_raw(current[name]) for name in one.states]
    with user_errors(one.entry.name, "run on the example inputs", hint=_advice):
        new, result = run(weights, states, inputs)
    for name, value in zip(one.updates, new, strict=True):
        current[name] = _wrap(value, _key_of(current[name]))
    leaves: list[Any] = []
    skeleton = skeleton_of(result, leaves)
    answers = tuple(np.asarray(leaf) for leaf in leaves)
    weak = any(leaf.weak for leaf in one.arguments.leaves)

    def answered(given: Sequence[np.ndarray]) -> list[np.ndarray]:
        found: list[Any] = []
        skeleton_of(run(weights, states, given)[1], found)
        return [np.asarray(leaf) for leaf in found]

    alone = one.states or not one.entry.settled or weak
    others = [] if alone else answers_beside(answered, data, answers)
    return conditioned(data, answers, others, name=one.entry.name), skeleton


def _on_the_way(
    one: _Prepared, data: Sequence[np.ndarray], current: Mapping[str, Any]
) -> tuple[FrameworkValue, ...]:
    """What JAX computes in a call, equation by equation."""
    weights = [_raw(value) for value in one.weights.values()]
    states = [_raw(current[name]) for name in one.states]
    with user_errors(one.entry.name, "run on the example inputs", hint=_advice):
        return values_of(
            one.call, (weights, states, list(data)), one.entry.name, fixed=len(weights)
        )


def _lowered(one: _Prepared, states: Mapping[str, Any], *, values: bool, for_mesh: bool) -> Lowered:
    weights = [_raw(value) for value in one.weights.values()]
    own = [_raw(states[name]) for name in one.states]
    if for_mesh and own:
        raise ExportError(
            f"{one.entry.name} keeps state between calls, which programs for a mesh do not",
            hint="take the state as an argument and return it, or leave out --mesh",
        )
    with user_errors(one.entry.name, "traced by JAX", hint=_advice):
        if for_mesh:
            return lower_for_mesh(
                one.call,
                weights,
                one.shapes.specs,
                cuts=[cut_of(leaf.value) for leaf in one.arguments.leaves],
                name=one.entry.name,
            )
        return lower(one.call, weights, own, one.shapes.specs, name=one.entry.name, values=values)


def _traced(
    one: _Prepared,
    lowered: Lowered,
    skeleton: Tree,
    calls: tuple[TracedCall, ...],
    states: Mapping[str, Any],
) -> TracedFunction:
    name = one.entry.name
    weights = {n: _raw(v) for n, v in one.weights.items()}
    own = {n: _raw(states[n]) for n in one.states}
    inputs: tuple[Role, ...] = tuple(Input(index=i) for i in range(len(one.shapes.inputs)))
    outputs = _output_specs(one, lowered, skeleton, len(one.updates))
    return TracedFunction(
        module=lowered.bytecode,
        dialect=Dialect.STABLEHLO,
        signature=Signature(
            name=name,
            inputs=one.shapes.inputs,
            outputs=outputs,
            arguments=one.arguments.arguments,
            result=skeleton,
        ),
        arguments=(
            *(Parameter(name=n) for n in weights),
            *(State(name=n) for n in own),
            *inputs,
        ),
        results=(
            *(State(name=n) for n in one.updates),
            *(Output(index=i) for i in range(len(outputs))),
        ),
        parameters={n: np.asarray(v) for n, v in weights.items()},
        states={n: np.asarray(v) for n, v in own.items()},
        constants=captured_arrays(one.entry.function) if not one.weights else {},
        calls=calls,
    )


def _output_specs(
    one: _Prepared, lowered: Lowered, skeleton: Tree, skip: int
) -> tuple[TensorSpec, ...]:
    root = "" if isinstance(skeleton, dict) else "result"
    names = tree.leaf_names(skeleton, root)
    shapes = lowered.results[skip:]
    if len(names) != len(shapes):
        raise ExportError(
            f"{one.entry.name} returned {len(names)} arrays when run and {len(shapes)} when traced",
            hint="make what it returns depend on nothing but its inputs",
        )
    return tuple(
        TensorSpec(name=names[i], shape=one.shapes.named(shape), dtype=_dtype(dtype, names[i]))
        for i, (shape, dtype) in enumerate(shapes)
    )


def _dtype(dtype: Any, name: str) -> DType:
    try:
        return DType.of(dtype)
    except InputError as error:
        raise ExportError(
            f"the result {name} has elements of type {dtype}, which edgec has not",
            hint="cast it to one of " + ", ".join(d.value for d in DType),
        ) from error


def _key_of(value: Any) -> Any:
    """The implementation of a typed random key, None for an array."""
    import jax

    dtype = getattr(value, "dtype", None)
    if dtype is None or not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        return None
    return jax.random.key_impl(value)


def _wrap(value: Any, key: Any) -> Any:
    import jax

    return value if key is None else jax.random.wrap_key_data(value, impl=key)


def _raw(value: Any) -> Any:
    import jax

    return value if _key_of(value) is None else jax.random.key_data(value)


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"a {type(value).__name__}"


def _advice(error: Exception) -> str:
    kinds = {c.__name__ for c in type(error).__mro__}
    if kinds & {
        "ConcretizationTypeError",
        "TracerBoolConversionError",
        "TracerArrayConversionError",
    }:
        return (
            "use jax.lax.cond/while_loop or jnp.where instead of Python's own if and loops; a "
            "value that only configures the model can be fixed with functools.partial"
        )
    if "InconclusiveDimensionOperation" in kinds:
        return (
            "JAX cannot decide this for every size: name fewer dimensions as dynamic, or give "
            "tighter bounds"
        )
    if kinds & {"ModifyScopeVariableError"}:
        return "call the model in evaluation mode (train=False, use_running_average=True)"
    return "call the function on the example inputs yourself; it must run under jax.jit"
