"""PyTorch modules, their methods, plain functions and `.pt2` programs to traced functions."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.exporters.bundle import Bundle, Entry
from edgec.exporters.conditioning import answers_beside, conditioned, moves
from edgec.exporters.dynamic import Dynamic, other_sizes, resize
from edgec.exporters.extras import need
from edgec.exporters.failures import reason_of, user_errors
from edgec.exporters.from_torch.arguments import Arguments, bind_arguments, named_values
from edgec.exporters.from_torch.capture import Callee, callee, capture, evaluating, quiet
from edgec.exporters.from_torch.cuts import Cut, cut_out, put_back
from edgec.exporters.from_torch.distributed import whole_weights
from edgec.exporters.from_torch.doubled import chooses, in_double
from edgec.exporters.from_torch.fourier import OPERATION as FOURIER
from edgec.exporters.from_torch.fourier import FourierCut
from edgec.exporters.from_torch.further import not_lowered, written_further
from edgec.exporters.from_torch.graph import Lifted, Storage, lift, mutated, names_of
from edgec.exporters.from_torch.halves import halves_summed_in_f32
from edgec.exporters.from_torch.inline import copied
from edgec.exporters.from_torch.lower import NoLowering, to_stablehlo, to_torch_dialect
from edgec.exporters.from_torch.on_the_way import numbers_of, values_of
from edgec.exporters.from_torch.own_kernels import kernel_cuts
from edgec.exporters.from_torch.pairs import has_complex, in_pairs, put_together
from edgec.exporters.from_torch.results import refuse_objects, taken_apart
from edgec.exporters.from_torch.rounded import rounding
from edgec.exporters.from_torch.scalars import scalars_as_rows
from edgec.exporters.from_torch.scatters import OPERATION as COMBINE
from edgec.exporters.from_torch.scatters import CombineCut
from edgec.exporters.from_torch.shapes import Symbols, named_axes, torch_shapes, trace_sizes
from edgec.exporters.from_torch.sparse import dense_weights
from edgec.exporters.from_torch.state import Snapshot
from edgec.exporters.from_torch.turns import OPERATION as TURNS
from edgec.exporters.from_torch.turns import turn_cuts
from edgec.exporters.from_torch.values import (
    as_tensors,
    dtype_of,
    register_dataclasses,
    skeleton,
    to_numpy,
    to_tensor,
)
from edgec.exporters.traced import TracedCall, TracedFunction
from edgec.kernels.in_torch import OPERATION as KERNEL
from edgec.runtime.errors import ExportError, SourceError, UnsupportedOp, UsageError
from edgec.runtime.mesh.plan import Sharding
from edgec.runtime.signature import Dim, Signature, TensorSpec
from edgec.runtime.tree import Tree, leaf_names
from edgec.toolchain.framework_values import FrameworkValue
from edgec.toolchain.program import Dialect, Input, State

__all__ = ["answers", "load", "trace"]

_ROUNDS_WITH_STATE = 3
_ROUNDINGS = 3
"""So often a model is rounded on the way: the largest of few numbers is a matter of luck."""


@dataclass(kw_only=True)
class _Work:
    """One entry on its way; what is learnt of it is filled in step by step."""

    entry: Entry
    made: Callee
    snapshot: Snapshot
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    arguments: Arguments
    shapes: tuple[tuple[int | Dim, ...], ...]
    cuts: Mapping[str, Sharding] = field(default_factory=dict)
    program: Any = None
    lifted: Lifted | None = None
    result: Tree = None
    calls: list[TracedCall] = field(default_factory=list)
    values: tuple[FrameworkValue, ...] = ()


def trace(
    bundle: Bundle, *, dynamic: Dynamic, values: bool = False, golden: bool = True
) -> tuple[TracedFunction, ...]:
    """Trace each entry of a bundle, and run it in eager PyTorch for golden answers.

    With `values`, what PyTorch computes on the way to each one's first answer is kept, too.
    Without `golden` each entry runs once, which shows what it gives, and that answer alone is kept.

    Buffers (and parameters) that a call changes are state, by their names in the module; entries
    that are methods of one module share them.

    Raises:
        ExportError: the model cannot run on its examples or be traced; UnsupportedOp where an
            operation is the reason.
        MissingExtra: PyTorch or torch-mlir is not installed.
        SourceError: an entry holds no PyTorch model.
        UsageError: example inputs or dynamic dimensions that do not fit.
    """
    need("torch", extra="torch", why="exporting a PyTorch model")
    need("torch_mlir", extra="torch", why="exporting a PyTorch model")
    state = as_tensors(bundle.state)
    first = _state_leaves(state)
    names = tuple(first)
    with contextlib.ExitStack() as stack:
        works = _captured(bundle, state, names, dynamic, stack)
        initial = {name: to_numpy(value, name) for name, value in first.items()}
        for work in works:
            _add_initial(initial, work)
        _run_all(works, state, rounds=_ROUNDS_WITH_STATE if golden else 1)
        if values:
            _keep_values(works, dict(initial))
        graphs = [_lifted(work).graph for work in works]
        modules, dialect, kept = _lowered(graphs, numbered=values)
        return tuple(
            replace(_traced(work, initial, module, dialect), kept=kept)
            for work, module in zip(works, modules, strict=True)
        )


def answers(entry: Entry) -> tuple[TracedCall, ...]:
    """What eager PyTorch gives for an entry's examples, as `trace` notes it, and no program.

    Raises:
        As `trace`.
    """
    with contextlib.ExitStack() as stack:
        works = _captured(Bundle((entry,)), None, (), Dynamic(), stack)
        _run_all(works, None, rounds=1)
        return tuple(works[0].calls)


def load(path: Path, *, signatures: tuple[str, ...] = ()) -> Bundle:
    """Open a `.pt2` file: one entry, `main`, with the example inputs it was exported with.

    Raises:
        SourceError: it cannot be read as an exported program.
        UsageError: another signature than `main` is asked for.
    """
    need("torch", extra="torch", why="reading a .pt2 file")
    import torch

    if set(signatures) - {"main"}:
        raise UsageError(
            f"{path} has the one signature main, not {', '.join(signatures)}",
            hint="leave --signature out",
        )
    try:
        with quiet():
            program = torch.export.load(path)
    except Exception as error:  # torch raises errors of every kind here
        raise SourceError(
            f"{path} cannot be read as an exported PyTorch program: {reason_of(error)}",
            hint="write it with torch.export.save(torch.export.export(model, args), path)",
        ) from error
    if program.example_inputs is None:
        raise SourceError(
            f"{path} holds no example inputs",
            hint="export it again with torch.export, or load it in Python and give inputs",
        )
    args, kwargs = program.example_inputs
    return Bundle((Entry(program, tuple(args), kwargs),))


def _captured(
    bundle: Bundle,
    state: Any,
    names: tuple[str, ...],
    dynamic: Dynamic,
    stack: contextlib.ExitStack,
) -> list[_Work]:
    """The graphs of a bundle's entries, with the leaves of its state and their names."""
    works = [_prepare(entry, state, names, dynamic, stack) for entry in bundle.entries]
    for work in works:
        _capture(work)
    changed: dict[Storage, str] = {}
    for work in works:
        changed |= mutated(work.program)
    for work in works:
        new = names if work.entry.updates_state else ()
        work.lifted = lift(
            work.program, work.arguments.roles, changed, new, names_of(work.made.owner)
        )
    return works


def _prepare(
    entry: Entry,
    state: Any,
    names: tuple[str, ...],
    dynamic: Dynamic,
    stack: contextlib.ExitStack,
) -> _Work:
    made = callee(entry.function)
    cuts = stack.enter_context(whole_weights(made.owner))
    stack.enter_context(dense_weights(made.owner))
    stack.enter_context(evaluating(made))
    snapshot = Snapshot(made.owner, parameters=not made.is_model)
    stack.callback(snapshot.restore)
    args, kwargs = entry.inputs, dict(entry.kwargs or {})
    register_dataclasses((args, kwargs))
    args, kwargs = as_tensors(args), as_tensors(kwargs)
    if entry.has_state:
        args = (as_tensors(state), *args)
    arguments = bind_arguments(made.parameters, args, kwargs, names if entry.has_state else None)
    refuse_objects(made, named_values(made.parameters, args, kwargs))
    examples = {n: e.shape for n, e in zip(arguments.names, arguments.examples, strict=True)}
    shapes = dynamic.shapes(examples) if entry.dynamic is None else examples
    return _Work(
        entry=entry,
        made=made,
        snapshot=snapshot,
        args=args,
        kwargs=kwargs,
        arguments=arguments,
        shapes=tuple(tuple(shape) for shape in shapes.values()),
        cuts=cuts,
    )


def _capture(work: _Work) -> None:
    """Trace the entry; dynamic dimensions at a size that torch keeps open."""
    examples = work.arguments.examples
    sizes = trace_sizes(work.shapes, [e.shape for e in examples])
    resized = [
        to_tensor(resize(e, _concrete(shape, sizes)))
        for e, shape in zip(examples, work.shapes, strict=True)
    ]
    args, kwargs = _filled(work, resized)
    shapes = work.entry.dynamic
    if shapes is None:
        shapes = torch_shapes(resized, work.shapes)
    # Results that are dataclasses, or no tensors, are known only after a first run.
    answer = _answer(work, *_filled(work, [to_tensor(e) for e in examples]))
    register_dataclasses(answer)
    work.made = taken_apart(work.made, answer)
    work.snapshot.restore()
    work.program = capture(work.made, args, kwargs, shapes)


def _filled(work: _Work, inputs: Sequence[Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The entry's args and kwargs, with these tensors for its inputs, and its state's own."""
    import torch
    import torch.utils._pytree as pytree

    rest = iter(inputs)
    skip = len(pytree.tree_leaves(work.args[0])) if work.entry.has_state else 0
    leaves, structure = pytree.tree_flatten((work.args, dict(work.kwargs)))
    filled = [
        next(rest) if isinstance(leaf, torch.Tensor) and position >= skip else leaf
        for position, leaf in enumerate(leaves)
    ]
    args, kwargs = pytree.tree_unflatten(filled, structure)
    return args, kwargs


def _answer(work: _Work, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What the original gives in eager mode."""
    doing, hint = "run on the example inputs", "call the model on the example inputs yourself"
    owner = work.made.owner
    tensors = [*owner.parameters(), *owner.buffers(), *_tensors((args, dict(kwargs)))]
    with user_errors(work.entry.name, doing, hint=hint), halves_summed_in_f32(tensors):
        return work.made.run(*args, **kwargs)


def _tensors(tree: Any) -> list[Any]:
    import torch
    import torch.utils._pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _state_leaves(state: Any) -> dict[str, Any]:
    """The bundle's state by name: the path of each tensor, as `cache[0].k`."""
    import torch

    values: list[Any] = []

    def number(leaf: Any) -> int:
        if not isinstance(leaf, torch.Tensor):
            raise UsageError(
                f"the state holds {leaf!r}, which is no tensor", hint="make it a tensor"
            )
        values.append(leaf)
        return len(values) - 1

    if state is None:
        return {}
    labels = leaf_names(skeleton(state, number), "")
    return {labels[index] or "state": value for index, value in enumerate(values)}


def _add_initial(initial: dict[str, np.ndarray], work: _Work) -> None:
    """Note the first values of the buffers that are state, before anything runs."""
    for name, tensor in _lifted(work).states.items():
        value = to_numpy(tensor, name).copy()
        if name in initial and not np.array_equal(initial[name], value, equal_nan=True):
            raise ExportError(
                f"two models in one program both keep a state named {name}",
                hint="export them as two programs, or name the buffers differently",
            )
        initial[name] = value


def _run_all(works: Sequence[_Work], state: Any, *, rounds: int) -> None:
    """Make the golden calls: in rounds where there is state, at other sizes where there is none."""
    stateful = any(_has_state(work) for work in works)
    for number in range(rounds if stateful else 1):
        for work in works:
            for inputs in _example_sets(work, others=number == 0 and not stateful):
                state = _run(work, inputs, state)


def _keep_values(works: Sequence[_Work], states: dict[str, np.ndarray]) -> None:
    """Note what is computed on the way to each entry's first answers: the first round of calls."""
    for work in works:
        tensors = list(_lifted(work).tensors.values())
        with halves_summed_in_f32(tensors):
            work.values = values_of(
                _lifted(work),
                work.program.graph_module,
                work.entry.name,
                work.calls[0].inputs,
                states,
            )


def _has_state(work: _Work) -> bool:
    lifted = _lifted(work)
    return any(isinstance(role, State) for role in (*lifted.arguments, *lifted.results))


def _example_sets(work: _Work, *, others: bool) -> list[list[np.ndarray]]:
    examples = list(work.arguments.examples)
    sets = [examples]
    dims = {d.name: d for shape in work.shapes for d in shape if isinstance(d, Dim)}
    if not dims or not others:
        return sets
    sizes = {
        dim.name: size
        for shape, example in zip(work.shapes, examples, strict=True)
        for dim, size in zip(shape, example.shape, strict=True)
        if isinstance(dim, Dim)
    }
    for other in other_sizes(dims, sizes):
        sets.append(
            [
                resize(e, _concrete(shape, other))
                for e, shape in zip(examples, work.shapes, strict=True)
            ]
        )
    return sets


def _concrete(shape: Sequence[int | Dim], sizes: Mapping[str, int]) -> list[int]:
    return [sizes[d.name] if isinstance(d, Dim) else d for d in shape]


def _run(work: _Work, inputs: Sequence[np.ndarray], state: Any) -> Any:
    """One golden call; the state after it."""
    import torch

    args, kwargs = _filled(work, [to_tensor(value) for value in inputs])
    if work.entry.has_state:
        args = (as_tensors(state), *args[1:])
    answer = _answer(work, args, kwargs)
    if work.entry.updates_state:
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise ExportError(
                f"{work.entry.name} updates the state and returned a {type(answer).__name__}",
                hint="return (new_state, outputs)",
            )
        state, answer = as_tensors(answer[0]), answer[1]
    outputs: list[Any] = []

    def number(leaf: Any) -> int | None:
        if not isinstance(leaf, torch.Tensor):
            return None
        outputs.append(leaf)
        return len(outputs) - 1

    work.result = skeleton(answer, number)
    names = _output_names(work.result)
    values = [to_numpy(value, names[index]).copy() for index, value in enumerate(outputs)]
    alone = _has_state(work) or not work.entry.settled
    others = [] if alone else _other_answers(work, inputs, values)
    work.calls.append(conditioned(inputs, values, others, name=work.entry.name))
    return state


def _other_answers(
    work: _Work, inputs: Sequence[np.ndarray], values: Sequence[np.ndarray]
) -> list[list[np.ndarray]]:
    """The model's answers to inputs that differ by rounding, and in more digits.

    The latter where it chooses between numbers, which moving the inputs may move together. Where
    an answer moves with the inputs by more than is usual, those with rounding on the way, too.
    """

    def arrays(answer: Any) -> list[np.ndarray]:
        return [to_numpy(leaf, "an answer") for leaf in _tensors(answer)]

    def answered(given: Sequence[np.ndarray]) -> list[np.ndarray]:
        return arrays(_answer(work, *_filled(work, [to_tensor(value) for value in given])))

    found = answers_beside(answered, inputs, values)
    if work.made.is_model and work.made.program is None and chooses(_lifted(work).graph):
        with contextlib.suppress(Exception):  # models that name their types run in them alone
            given = _filled(work, [to_tensor(value) for value in inputs])
            found.append(arrays(in_double(work.made, *given)))
    if any(moves(values, answer) for answer in found):
        with contextlib.suppress(Exception):  # without them the check is only stricter
            for seed in range(_ROUNDINGS):
                with rounding(seed):
                    found.append(answered(inputs))
    return found


def _output_names(result: Tree) -> dict[int, str]:
    return leaf_names(result, "" if isinstance(result, dict) else "result")


def _lowered(graphs: Sequence[Any], *, numbered: bool) -> tuple[list[bytes], Dialect, str]:
    """The graphs in StableHLO; where one has none, all in the torch dialect, and why."""
    try:
        return [_graph_lowered(graph, numbered=numbered) for graph in graphs], Dialect.STABLEHLO, ""
    except UnsupportedOp as refusal:
        if any(has_complex(graph) for graph in graphs):
            raise  # the torch dialect's passes know few of them, and die of others
        try:
            modules = [to_torch_dialect(graph) for graph in graphs]
        except UnsupportedOp:
            raise refusal from None
        at = f", at {refusal.where}" if refusal.where else ""
        return modules, Dialect.TORCH, f"{refusal.what}{at}"


def _graph_lowered(graph: Any, *, numbered: bool) -> bytes:
    """A graph in StableHLO; operators without a lowering as PyTorch computes them by others."""
    numbers = numbers_of(graph) if numbered else None
    pairs = in_pairs(graph) if has_complex(graph) else None
    graph = copied(graph) if pairs is None else pairs.graph
    scalars_as_rows(graph)
    first: NoLowering | None = None
    tried: set[str] = set()
    while True:
        try:
            module = _with_cuts(copied(graph), numbers)
        except NoLowering as refusal:
            names = not_lowered(graph, refusal.operators)
            if first is None:
                first = refusal.naming(names)
            further = None if tried.issuperset(names) else written_further(graph, names)
            if further is None:
                raise first from None
            tried.update(names)
            graph = further
        else:
            return module if pairs is None else put_together(module, pairs)


def _with_cuts(graph: Any, numbers: Mapping[str, int] | None) -> bytes:
    """A graph in StableHLO, which it is changed for."""
    kinds: dict[str, Callable[[Any], Cut]] = {
        KERNEL: kernel_cuts(_reference_lowered),
        FOURIER: FourierCut.of,
        COMBINE: CombineCut.of,
        TURNS: turn_cuts(_reference_lowered),
    }
    cuts = cut_out(graph, kinds)
    module = to_stablehlo(graph, numbers)
    return put_back(module, cuts) if cuts else module


def _reference_lowered(function: Callable[..., Any], examples: tuple[Any, ...]) -> bytes:
    """A kernel's reference, or the step of a loop, in StableHLO."""
    (traced,) = trace(Bundle((Entry(function, examples),)), dynamic=Dynamic())
    if traced.dialect is not Dialect.STABLEHLO or not all(
        isinstance(role, Input) for role in traced.arguments
    ):
        raise UnsupportedOp(
            "a kernel's reference keeps tensors of its own, or has no form in StableHLO",
            hint="give all that it reads as arguments of the kernel",
        )
    return traced.module if isinstance(traced.module, bytes) else traced.module.encode()


def _traced(
    work: _Work, initial: Mapping[str, np.ndarray], module: bytes, dialect: Dialect
) -> TracedFunction:
    lifted = _lifted(work)
    symbols = Symbols(work.program.range_constraints)
    for value, shape in zip(lifted.inputs, work.shapes, strict=True):
        symbols.learn(value, shape)
    for value, axes in zip(lifted.inputs, _axes_named_by_user(work), strict=False):
        symbols.name(value, axes)
    inputs = _specs(lifted.inputs, dict(enumerate(work.arguments.names)), symbols)
    outputs = _specs(lifted.outputs, _output_names(work.result), symbols)
    states = {role.name for role in (*lifted.arguments, *lifted.results) if isinstance(role, State)}
    return TracedFunction(
        module=module,
        dialect=dialect,
        signature=Signature(
            name=work.entry.name,
            inputs=inputs,
            outputs=outputs,
            arguments=work.arguments.arguments,
            result=work.result,
        ),
        arguments=lifted.arguments,
        results=lifted.results,
        parameters={name: to_numpy(value, name) for name, value in lifted.tensors.items()},
        cuts={name: cut for name, cut in work.cuts.items() if name in lifted.tensors},
        states={name: value for name, value in initial.items() if name in states},
        calls=tuple(work.calls),
        values=work.values,
        computed_by="torch",
    )


def _axes_named_by_user(work: _Work) -> list[dict[int, str]]:
    """The axes that the entry's own dynamic shapes name, for each input."""
    given = work.entry.dynamic
    if isinstance(given, Mapping):
        names = [parameter.name for parameter in work.made.parameters][: len(work.args)]
        positional = named_axes(work.args, [given.get(name) for name in names])
        return positional + named_axes(work.kwargs, given)
    if isinstance(given, list | tuple):
        count = len(work.args)
        by_name = dict(zip(work.kwargs, given[count:], strict=False))
        return named_axes(work.args, given[:count]) + named_axes(work.kwargs, by_name)
    return []


def _specs(
    values: Sequence[Any], names: Mapping[int, str], symbols: Symbols
) -> tuple[TensorSpec, ...]:
    if len(values) != len(names):
        raise ExportError(
            f"the model gave {len(names)} tensors when run and {len(values)} when traced",
            hint="make what it returns depend on nothing but its inputs",
        )
    return tuple(
        TensorSpec(
            name=names[index],
            shape=symbols.shape(value),
            dtype=dtype_of(value.dtype, names[index]),
        )
        for index, value in enumerate(values)
    )


def _lifted(work: _Work) -> Lifted:
    if work.lifted is None:
        raise ExportError("the entry is not traced yet")
    return work.lifted
