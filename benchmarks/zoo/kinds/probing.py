"""A PyTorch module to inputs that it takes, found by asking it: no name means anything here.

An argument's annotation says what kind of thing it is. Its shape is looked for among the widths
that the module's own layers read: every argument is changed in turn, and what lets the call come
furthest (the most layers answered, then the furthest line of `forward`) is kept, until the call
comes to its end. Where that ends nowhere, tensors are changed by an axis, and arguments in pairs.
"""

import inspect
import itertools
import math
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["inputs_for"]

_TOKENS, _SIDE, _FRAMES, _SAMPLES = 16, 16, 4, 2048
_SECONDS, _MORE_SECONDS = 20.0, 40.0
_TURNS = 4
_AXES, _SIZES = 5, 24

_Maker = Callable[[], Any]


@dataclass(frozen=True, kw_only=True)
class _Argument:
    """One argument of `forward` and what it may be given; `None` is to leave it out."""

    name: str
    choices: tuple[_Maker | None, ...]


@dataclass(frozen=True, kw_only=True)
class _Tensor:
    """A tensor to be made: reals (all 7 on one axis), small whole numbers, or what is true."""

    kind: str
    shape: tuple[int, ...]
    listed: bool = False

    def __call__(self) -> Any:
        import torch

        if self.kind == "true":
            made = torch.ones(self.shape, dtype=torch.bool)
        elif self.kind == "whole":
            made = torch.arange(torch.Size(self.shape).numel()).reshape(self.shape) % 3
        elif len(self.shape) < 2:
            made = torch.full(self.shape, 7.0)
        else:
            made = torch.randn(*self.shape, generator=torch.Generator().manual_seed(0))
        return [made] if self.listed else made


@dataclass(frozen=True, kw_only=True)
class _Reached:
    """How far a call came."""

    done: bool
    layers: int
    line: int = 0
    operations: int = 0
    problem: str = ""

    @property
    def far(self) -> tuple[bool, int, int]:
        """More is further."""
        return self.done, self.layers, self.line

    @property
    def furthest(self) -> tuple[bool, int, int, int]:
        """As `far`; of what is as far, more operations are further."""
        return *self.far, self.operations


def inputs_for(model: Any) -> dict[str, Any]:
    """Arguments by name with which the call comes to its end.

    Raises:
        ValueError: none were found; with what the call that came furthest died of.
    """
    arguments = _arguments(model, _widths(model))
    chosen: dict[str, _Maker | None] = {a.name: a.choices[0] for a in arguments}
    end = time.thread_time() + _SECONDS
    best = _reach(model, chosen)
    for _ in range(_TURNS):
        before = best
        for argument in arguments:
            for choice in argument.choices:
                if best.done:
                    return _made(chosen)
                if time.thread_time() > end:
                    break
                reached = _reach(model, {**chosen, argument.name: choice})
                if reached.far > best.far:
                    best, chosen[argument.name] = reached, choice
        if best == before:
            break
    if not best.done:
        best, chosen = _further(model, chosen, best)
    if best.done:
        return _made(chosen)
    raise ValueError(f"no inputs were found: {best.problem}")


def _further(
    model: Any, chosen: Mapping[str, _Maker | None], best: _Reached
) -> tuple[_Reached, dict[str, _Maker | None]]:
    """From where no single choice helps: tensors with an axis changed, and two choices at once."""
    now, sizes = dict(chosen), _sizes(model)
    arguments = _arguments(model, sizes)
    end = time.thread_time() + _MORE_SECONDS
    found = True
    while found and not best.done:
        found = False
        for changes in (_axes, _singles, _pairs):
            for change in changes(arguments, now, sizes):
                if best.done or time.thread_time() > end:
                    return best, now
                reached = _reach(model, {**now, **change})
                if reached.furthest > best.furthest:
                    best, found = reached, True
                    now.update(change)
    return best, now


_Now = Mapping[str, _Maker | None]


def _singles(arguments: Sequence[_Argument], now: _Now, sizes: Sequence[int]) -> Iterator[_Now]:
    del now, sizes
    return ({a.name: choice} for a in arguments for choice in a.choices)


def _pairs(arguments: Sequence[_Argument], now: _Now, sizes: Sequence[int]) -> Iterator[_Now]:
    both = itertools.combinations(_singles(arguments, now, sizes), 2)
    return ({**one, **other} for one, other in both if not one.keys() & other.keys())


def _axes(arguments: Sequence[_Argument], now: _Now, sizes: Sequence[int]) -> Iterator[_Now]:
    """Each tensor with one more axis, one of another size, or one less; the small before others."""
    del arguments
    tensors = [(name, maker) for name, maker in now.items() if isinstance(maker, _Tensor)]
    shapes = [(n, t, shape) for n, t in tensors for shape in _other_axes(t.shape, sizes)]
    for name, tensor, shape in sorted(shapes, key=lambda one: math.prod(one[2])):
        yield {name: replace(tensor, shape=shape)}


def _other_axes(shape: tuple[int, ...], sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for axis in reversed(range(len(shape) + 1)) if len(shape) < _AXES else ():
        for size in sizes:
            yield (*shape[:axis], size, *shape[axis:])
    for axis in range(len(shape)):
        for size in sizes:
            yield (*shape[:axis], size, *shape[axis + 1 :])
    for axis in range(len(shape)):
        yield (*shape[:axis], *shape[axis + 1 :])


def _reach(model: Any, chosen: Mapping[str, _Maker | None]) -> _Reached:
    import torch
    from torch.overrides import TorchFunctionMode

    layers = 0

    def answered(*_: Any) -> None:
        nonlocal layers
        layers += 1

    class Counted(TorchFunctionMode):  # type: ignore[misc]
        operations = 0

        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = function(*args, **kwargs or {})
            Counted.operations += 1
            return result

    hooks = [m.register_forward_hook(answered) for m in model.modules()]
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = _made(chosen)
            with Counted():
                model(**given)
    except Exception as error:  # noqa: BLE001 - the guess does not fit; this says how far it came
        said = (str(error).splitlines() or [""])[0][:100]
        problem = f"{type(error).__name__}: {said}"
        return _Reached(
            done=False,
            layers=layers,
            line=_line(error, model),
            operations=Counted.operations,
            problem=problem,
        )
    finally:
        for hook in hooks:
            hook.remove()
    return _Reached(done=True, layers=layers)


def _line(error: Exception, model: Any) -> int:
    """The line of the module's own `forward` that failed; 0 if it was not reached."""
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_name == "forward" and frame.f_locals.get("self") is model:
            return number
    return 0


def _made(chosen: Mapping[str, _Maker | None]) -> dict[str, Any]:
    return {name: maker() for name, maker in chosen.items() if maker is not None}


def _arguments(model: Any, widths: Sequence[int]) -> list[_Argument]:
    return [_argument(name, found, widths) for name, found in _parameters(model).items()]


def _parameters(model: Any) -> dict[str, inspect.Parameter]:
    return {
        name: parameter
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and (parameter.default is parameter.empty or parameter.default is None)
    }


def _argument(name: str, parameter: inspect.Parameter, widths: Sequence[int]) -> _Argument:
    absent: tuple[_Maker | None, ...] = () if parameter.default is parameter.empty else (None,)
    said = "" if parameter.annotation is parameter.empty else str(parameter.annotation)
    return _Argument(name=name, choices=(*absent, *_choices(said, widths)))


def _choices(annotation: str, widths: Sequence[int]) -> Iterator[_Maker]:
    """What an annotation lets an argument be, the likeliest first."""
    plain = annotation.lower()
    holds_tensor = "tensor" in plain or not annotation
    listed = "list[" in plain and not plain.startswith("torch")
    if holds_tensor and ("int" in plain.split("[")[0] or "float |" in plain or "| float" in plain):
        yield _floats((1,))  # a tensor or a number: a step
    if holds_tensor:
        for maker in _tensors(plain, widths):
            yield replace(maker, listed=True) if listed else maker
    elif "tuple[int" in plain:
        yield lambda: [(1, 4, 4)] if listed else (1, 4, 4)
    elif "int" in plain:
        for number in (1, 2, 4, _TOKENS):
            yield (lambda n: lambda: [n] if listed else n)(number)


def _tensors(annotation: str, widths: Sequence[int]) -> Iterator[_Tensor]:
    """Tensors of the kind that an annotation names; of any kind where it names none."""
    named = [kind for kind in ("float", "long", "int", "bool") if f"{kind}tensor" in annotation]
    if not named or "float" in named:
        yield from _real(widths)
    if not named or {"long", "int"} & {*named}:
        yield _whole((1,))
        yield _whole((1, _TOKENS))
    if not named or "bool" in named:
        yield _truths((1, _TOKENS))


def _real(widths: Sequence[int]) -> Iterator[_Tensor]:
    yield _floats((1,))
    for rank_of in _SHAPES:
        for width in widths:
            yield _floats(rank_of(width))
    for width in (2, 3, 4):
        yield _floats((_TOKENS, width))
        yield _floats((1, width))


_SHAPES: tuple[Callable[[int], tuple[int, ...]], ...] = (
    lambda width: (1, width, _SIDE, _SIDE),
    lambda width: (1, _TOKENS, width),
    lambda width: (1, width, _FRAMES, _SIDE, _SIDE),
    lambda width: (1, _FRAMES, width, _SIDE, _SIDE),
    lambda width: (1, width, _SAMPLES),
    lambda width: (1, width),
)


def _widths(model: Any) -> list[int]:
    """How many features the module's layers read, in the order of the layers."""
    found: dict[int, None] = {}
    for module in model.modules():
        for name in ("in_channels", "in_features", "normalized_shape"):
            width = getattr(module, name, None)
            width = width[-1] if isinstance(width, tuple) and width else width
            if isinstance(width, int):
                found.setdefault(width)
    return list(found)


def _sizes(model: Any) -> list[int]:
    """Sizes that an axis may have: few, what it was made with, and its weights'."""
    own = (size for weight in model.parameters() for size in weight.shape)
    given = getattr(model, "config", {})
    told = (n for n in dict(given).values() if type(n) is int) if isinstance(given, dict) else ()
    guessed = (1, 2, 3, 4, _TOKENS)
    return list(dict.fromkeys((*guessed, *_widths(model), *told, *own)))[:_SIZES]


def _floats(shape: tuple[int, ...]) -> _Tensor:
    return _Tensor(kind="real", shape=shape)


def _whole(shape: tuple[int, ...]) -> _Tensor:
    return _Tensor(kind="whole", shape=shape)


def _truths(shape: tuple[int, ...]) -> _Tensor:
    return _Tensor(kind="true", shape=shape)
