"""A PyTorch model and example inputs to a functional graph in core aten operations.

The graph is `torch.export`'s: weights, buffers and inputs are its placeholders, and what the model
changes in place comes out as a further result.
"""

import contextlib
import functools
import inspect
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from edgec.exporters.from_torch.chosen_rows import take_all_rows
from edgec.exporters.from_torch.constraints import explain_constraint
from edgec.exporters.from_torch.covariances import covariances
from edgec.exporters.from_torch.decompositions import decompositions
from edgec.exporters.from_torch.indices import count_from_start
from edgec.exporters.from_torch.joined import join_twins
from edgec.exporters.from_torch.lines import user_line
from edgec.exporters.from_torch.pairs import composites
from edgec.exporters.from_torch.parcels import join_parcels
from edgec.exporters.from_torch.ranges import known_ranges
from edgec.exporters.from_torch.resampling import pools_in_two_dimensions
from edgec.exporters.from_torch.settled import Number, is_on_data, numbers_read, settled
from edgec.exporters.from_torch.sparse import is_about_sparse
from edgec.exporters.from_torch.state import Snapshot
from edgec.exporters.from_torch.substitutions import substitutions_at_once
from edgec.exporters.from_torch.systems import unchecked
from edgec.exporters.from_torch.ways import is_raised_by_model, unmoved, unnoticed
from edgec.exporters.from_torch.whole_loops import over_all, turns_change_nothing
from edgec.exporters.places import describe, is_users, place_of_error
from edgec.runtime.errors import ExportError, SourceError, UnsupportedOp

__all__ = ["Callee", "callee", "capture", "evaluating", "quiet"]

_UNKNOWN_RESULT = re.compile(r"Found <class '([\w.]+)'> in output, which is not a known type")

_LOG = logging.getLogger("edgec.exporters")
_TALKATIVE = ("torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor")
"""Loggers of torch that print what an error of edgec's says."""
_DEPENDS = "the model's control flow or a shape depends on data"
_ON_DATA = (
    "choose with torch.where and keep sizes fixed; an `if` or loop on a tensor's value has no "
    "portable form"
)


@dataclass(frozen=True, kw_only=True)
class Callee:
    """What is exported, in the forms it is needed in.

    Attributes:
        owner: the `torch.nn.Module` that holds weights and buffers.
        forward: the function that stands in for the owner's `forward` while it is traced, or None.
        program: the `torch.export.ExportedProgram`, where the user gave one.
        run: calls the original in eager mode; without gradients if it is a module.
        answers: what its results are put through, in eager mode and while it is traced; or None.
        parameters: the function's own parameters; empty where they are not known.
        is_model: whether it is a module (which runs in eval mode) rather than a plain function.
    """

    owner: Any
    forward: Callable[..., Any] | None = None
    program: Any | None = None
    run: Callable[..., Any]
    answers: Callable[[Any], Any] | None = None
    parameters: tuple[inspect.Parameter, ...]
    is_model: bool = True

    @property
    def place(self) -> str | None:
        """The user's line that defines what is exported; None if somebody else wrote it."""
        function = self.forward or getattr(type(self.owner), "forward", None)
        code = getattr(inspect.unwrap(function), "__code__", None) if function else None
        if code is None or not is_users(code.co_filename):
            return None
        return describe(code.co_filename, code.co_firstlineno, code.co_name)


def callee(function: Any) -> Callee:
    """Look at what the user gave: a module, a module's method, a function, an exported program.

    Raises:
        SourceError: it is none of these.
    """
    import torch

    if isinstance(function, torch.export.ExportedProgram):
        return _callee_of_program(function)
    if isinstance(function, torch.nn.Module):
        return Callee(
            owner=function,
            run=_without_gradients(function),
            parameters=_parameters(function.forward),
        )
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return Callee(
            owner=owner,
            forward=function,
            run=_without_gradients(function),
            parameters=_parameters(function),
        )
    if not callable(function):
        raise SourceError(
            f"a {type(function).__name__} is no PyTorch model",
            hint="give a torch.nn.Module, one of its methods, a function of tensors or an "
            "ExportedProgram",
        )
    holder = torch.nn.Module()
    for name, module in _captured_modules(function).items():
        holder.add_module(name, module)
    forward = _with_signature(function)
    return Callee(
        owner=holder,
        forward=forward,
        run=forward,
        parameters=_parameters(function),
        is_model=False,
    )


@contextlib.contextmanager
def evaluating(made: Callee) -> Iterator[None]:
    """Keep a module in eval mode, and say so where that changes what it computes."""
    training = [m for m in made.owner.modules() if m.training] if made.is_model else []
    if made.program is None and any(_differs_in_training(child) for child in training):
        _LOG.warning(
            "%s is in training mode; it is exported in eval mode "
            "(a plain function of tensors keeps the mode of the modules it uses)",
            type(made.owner).__name__,
        )
    for child in training:
        child.training = False
    try:
        yield
    finally:
        for child in training:
            child.training = True


def capture(made: Callee, args: tuple[Any, ...], kwargs: Mapping[str, Any], shapes: Any) -> Any:
    """The `ExportedProgram` in the operations that the lowering knows.

    Args:
        made: what to export.
        args: example positional arguments.
        kwargs: example keyword arguments.
        shapes: `torch.export`'s `dynamic_shapes`, or None.

    Raises:
        UnsupportedOp: the model does what a graph cannot say (control flow on data, an operation
            without a functional form …).
        ExportError: a dimension asked to be dynamic is fixed by the model.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    pools = contextlib.nullcontext() if shapes is None else pools_in_two_dimensions()
    with (
        torch.no_grad(),
        sdpa_kernel(SDPBackend.MATH),
        quiet(),
        _forwarding(made),
        unmoved(),
        unchecked(),
        pools,
        covariances(),
        known_ranges(),
    ):
        try:
            program = made.program
            if program is None:
                program = _exported(made, args, kwargs, shapes)
            return _decomposed(program)
        except Exception as error:  # torch raises errors of every kind here
            refusal = _refusal(error, made)
            if made.is_model or shapes is not None:
                raise refusal from error
        try:
            return _differentiated(made.run, args, kwargs)
        except Exception as error:  # likewise
            raise refusal from error


def _exported(made: Callee, args: tuple[Any, ...], kwargs: Mapping[str, Any], shapes: Any) -> Any:
    """torch.export's program, decisions on constants taken."""
    import torch

    def export() -> Any:
        return torch.export.export(
            made.owner, args, dict(kwargs), dynamic_shapes=shapes, strict=False
        )

    way: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    try:
        try:
            return export()
        except Exception as error:  # torch raises errors of every kind here
            if not is_raised_by_model(error):
                raise
            way = unnoticed
            with unnoticed():
                return export()
    except Exception as error:
        if not is_on_data(error) or shapes is not None:  # a constant may depend on the sizes
            raise
        numbers = _numbers(made, args, kwargs)
    varying = [number.place for number in numbers if number.value is None]
    try:
        with settled(numbers), way():
            return export()
    except Exception as error:
        if is_on_data(error) and varying:
            if _may_turn_for_all(made, args, kwargs):
                with settled(numbers), way(), over_all():
                    return export()
            raise _on_data(user_line(str(error)) or describe(*varying[0])) from error
        raise


def _numbers(made: Callee, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Number]:
    """The numbers that the model reads from tensors; what it changes is no constant."""
    import torch
    import torch.utils._pytree as pytree

    own = Snapshot(made.owner, parameters=not made.is_model)
    held = [*made.owner.buffers(), *made.owner.parameters()]
    given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    before = [tensor._version for tensor in held]
    found = numbers_read(lambda: made.run(*args, **kwargs), given)
    changed = [t for t, version in zip(held, before, strict=True) if t._version != version]
    if changed:
        own.restore()
        found = numbers_read(lambda: made.run(*args, **kwargs), [*given, *changed])
    own.restore()
    return found


def _may_turn_for_all(made: Callee, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    own = Snapshot(made.owner, parameters=not made.is_model)
    try:
        return turns_change_nothing(made.run, args, kwargs)
    finally:
        own.restore()


def _on_data(where: str) -> UnsupportedOp:
    return UnsupportedOp(f"{_DEPENDS}: it reads the value of a tensor", where=where, hint=_ON_DATA)


def _decomposed(program: Any) -> Any:
    """The program in the operations that the lowering knows, in the forms that it gets right."""
    import torch

    join_twins(program)
    known = dict(decompositions())
    found = program.run_decompositions(known)
    while several := composites(found.graph_module.graph) - known.keys():
        usual = torch.export.default_decompositions()
        known |= {operator: usual[operator] for operator in several}
        found = found.run_decompositions(known)
    count_from_start(found)
    join_parcels(found)
    take_all_rows(found)
    substitutions_at_once(found.graph_module.graph)
    return found


def _opaque_result(kind: str, made: Callee) -> ExportError:
    """A model that returns an object, at the line where what is exported begins."""
    name = kind.rpartition(".")[2]
    return UnsupportedOp(
        f"the model returns a {name}, which is no tensor and nothing that holds them",
        where=made.place,
        hint="return tensors, or tuples, lists, dicts or dataclasses of them",
    )


def _differentiated(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """The `ExportedProgram` of a function that takes gradients, which torch.export alone cannot.

    The function is run once with its operations, backward ones too, written down. Only tensors are
    its inputs then.
    """
    import torch
    import torch.utils._pytree as pytree
    from torch.fx.experimental.proxy_tensor import make_fx

    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[place].detach().clone() for place in places]

    def flat(*values: Any) -> Any:
        filled = list(leaves)
        for place, value in zip(places, values, strict=True):
            filled[place] = value
        again, keywords = pytree.tree_unflatten(filled, structure)
        return function(*again, **keywords)

    with torch.enable_grad():
        written = make_fx(torch.func.functionalize(flat, remove="mutations"))(*tensors)
    program = torch.export.export(written, tuple(tensors), strict=False)
    return _decomposed(program)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep torch's own words from the user: deprecations inside it, and graphs that it gave up."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _callee_of_program(program: Any) -> Callee:
    positional, keywords = program.call_spec.in_spec.children()
    signature = program.module_call_graph[0].signature
    count = positional.num_children
    names = list(signature.forward_arg_names or ()) if signature is not None else []
    if len(names) < count:
        names = [f"arg{index}" for index in range(count)]
    kind = inspect.Parameter
    parameters = [kind(name, kind.POSITIONAL_OR_KEYWORD) for name in names[:count]]
    parameters += [kind(name, kind.KEYWORD_ONLY) for name in keywords.context]
    module = program.module()
    return Callee(
        owner=module,
        program=program,
        run=_without_gradients(module),
        parameters=tuple(parameters),
    )


def _parameters(function: Any) -> tuple[inspect.Parameter, ...]:
    try:
        return tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()


def _with_signature(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, in one of Python's if it is one of C's, whose parameters nobody can ask for."""
    with contextlib.suppress(TypeError, ValueError):
        inspect.signature(function)
        return function
    return lambda *args, **kwargs: function(*args, **kwargs)


def _without_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            return function(*args, **kwargs)

    return run


def _differs_in_training(module: Any) -> bool:
    import torch.nn.modules as modules

    if isinstance(module, modules.dropout._DropoutNd):
        return float(module.p) > 0
    return isinstance(module, modules.batchnorm._NormBase) and bool(module.track_running_stats)


@contextlib.contextmanager
def _forwarding(made: Callee) -> Iterator[None]:
    """Let the owner's `forward` be the function that is exported, with the results wanted."""
    forward, answers = made.forward, made.answers
    if answers is not None:
        forward = _then(made.owner.forward if forward is None else forward, answers)
    if forward is None:
        yield
        return
    previous = made.owner.__dict__.get("forward")
    made.owner.forward = forward
    try:
        yield
    finally:
        if previous is None:
            del made.owner.forward
        else:
            made.owner.forward = previous


def _then(function: Callable[..., Any], answers: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(function)  # torch asks it for its parameters
    def both(*args: Any, **kwargs: Any) -> Any:
        return answers(function(*args, **kwargs))

    return both


def _captured_modules(function: Any) -> dict[str, Any]:
    """The modules that a plain function uses from around it, by the names it uses."""
    import torch

    try:
        found = inspect.getclosurevars(function)
    except TypeError:
        return {}
    values = {**found.globals, **found.nonlocals}
    return {name: v for name, v in values.items() if isinstance(v, torch.nn.Module)}


def _refusal(error: Exception, made: Callee) -> ExportError:
    """What torch said, as one error with the user's line and a next step."""
    if isinstance(error, ExportError):
        return error
    text = str(error)
    where = user_line(text) or place_of_error(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if is_on_data(error):
        return UnsupportedOp(f"{_DEPENDS}: {first}", where=where, hint=_ON_DATA)
    if "Constraints violated" in text or "ConstraintViolation" in type(error).__name__:
        return explain_constraint(text, where)
    if is_about_sparse(text):
        return UnsupportedOp(
            "the model takes a sparse tensor that is no weight of a module, or makes one",
            where=where,
            hint="keep it as a buffer of the module (register_buffer), or make it dense with "
            ".to_dense()",
        )
    kind = _UNKNOWN_RESULT.search(text)
    if kind is not None:
        return _opaque_result(kind[1], made)
    if "does not require grad" in text:
        return UnsupportedOp(
            f"a training step that changes its model in place cannot be exported: {first}",
            where=where,
            hint="write it as step(state, batch) -> (new_state, loss) with "
            "torch.func.grad_and_value, and give Bundle the state",
        )
    return UnsupportedOp(
        f"torch.export refuses the model: {type(error).__name__}: {first}",
        where=where,
        hint="rewrite that line with operations that torch.export can trace",
    )
