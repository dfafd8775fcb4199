"""A PyTorch module to inputs that it takes, found by asking it: no name means anything here.

An argument's annotation says what kind of thing it is. Its shape is looked for among the widths
that the module's own layers read: every argument is changed in turn, and what lets the call come
furthest (the most layers answered, then the furthest line of `forward`) is kept, until the call
comes to its end.
"""

import inspect
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["inputs_for"]

_TOKENS, _SIDE, _FRAMES, _SAMPLES = 16, 16, 4, 2048
_SECONDS = 20.0
_TURNS = 4

_Maker = Callable[[], Any]


@dataclass(frozen=True, kw_only=True)
class _Argument:
    """One argument of `forward` and what it may be given; `None` is to leave it out."""

    name: str
    choices: tuple[_Maker | None, ...]


def inputs_for(model: Any) -> dict[str, Any]:
    """Arguments by name with which the call comes to its end.

    Raises:
        ValueError: none were found; with what the call that came furthest died of.
    """
    arguments = [_argument(name, found, model) for name, found in _parameters(model).items()]
    chosen: dict[str, _Maker | None] = {a.name: a.choices[0] for a in arguments}
    end = time.monotonic() + _SECONDS
    best = _reach(model, chosen)
    for _ in range(_TURNS):
        before = best
        for argument in arguments:
            for choice in argument.choices:
                if best.done:
                    return _made(chosen)
                if time.monotonic() > end:
                    raise ValueError(f"no inputs were found: {best.problem}")
                reached = _reach(model, {**chosen, argument.name: choice})
                if reached.far > best.far:
                    best, chosen[argument.name] = reached, choice
        if best == before:
            break
    if best.done:
        return _made(chosen)
    raise ValueError(f"no inputs were found: {best.problem}")


@dataclass(frozen=True, kw_only=True)
class _Reached:
    """How far a call came."""

    done: bool
    layers: int
    line: int = 0
    problem: str = ""

    @property
    def far(self) -> tuple[bool, int, int]:
        """More is further."""
        return self.done, self.layers, self.line


def _reach(model: Any, chosen: Mapping[str, _Maker | None]) -> _Reached:
    import torch

    layers = 0

    def answered(*_: Any) -> None:
        nonlocal layers
        layers += 1

    hooks = [m.register_forward_hook(answered) for m in model.modules()]
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model(**_made(chosen))
    except Exception as error:  # noqa: BLE001 - the guess does not fit; this says how far it came
        said = (str(error).splitlines() or [""])[0][:100]
        problem = f"{type(error).__name__}: {said}"
        return _Reached(done=False, layers=layers, line=_line(error, model), problem=problem)
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


def _parameters(model: Any) -> dict[str, inspect.Parameter]:
    return {
        name: parameter
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and (parameter.default is parameter.empty or parameter.default is None)
    }


def _argument(name: str, parameter: inspect.Parameter, model: Any) -> _Argument:
    absent: tuple[_Maker | None, ...] = () if parameter.default is parameter.empty else (None,)
    said = "" if parameter.annotation is parameter.empty else str(parameter.annotation)
    return _Argument(name=name, choices=(*absent, *_choices(said, model)))


def _choices(annotation: str, model: Any) -> Iterator[_Maker]:
    """What an annotation lets an argument be, the likeliest first."""
    plain = annotation.lower()
    holds_tensor = "tensor" in plain or not annotation
    listed = "list[" in plain and not plain.startswith("torch")
    if holds_tensor and ("int" in plain.split("[")[0] or "float |" in plain or "| float" in plain):
        yield _floats((1,))  # a tensor or a number: a step
    if holds_tensor:
        for maker in _tensors(plain, model):
            yield _in_list(maker) if listed else maker
    elif "tuple[int" in plain:
        yield lambda: [(1, 4, 4)] if listed else (1, 4, 4)
    elif "int" in plain:
        for number in (1, 2, 4, _TOKENS):
            yield (lambda n: lambda: [n] if listed else n)(number)


def _tensors(annotation: str, model: Any) -> Iterator[_Maker]:
    """Tensors of the kind that an annotation names; of any kind where it names none."""
    named = [kind for kind in ("float", "long", "int", "bool") if f"{kind}tensor" in annotation]
    if not named or "float" in named:
        yield from _real(_widths(model))
    if not named or {"long", "int"} & {*named}:
        yield _whole((1,))
        yield _whole((1, _TOKENS))
    if not named or "bool" in named:
        yield _truths((1, _TOKENS))


def _real(widths: Sequence[int]) -> Iterator[_Maker]:
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


def _floats(shape: tuple[int, ...]) -> _Maker:
    import torch

    if len(shape) == 1:
        return lambda: torch.full(shape, 7.0)
    return lambda: torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def _whole(shape: tuple[int, ...]) -> _Maker:
    import torch

    return lambda: torch.arange(torch.Size(shape).numel()).reshape(shape) % 3


def _truths(shape: tuple[int, ...]) -> _Maker:
    import torch

    return lambda: torch.ones(shape, dtype=torch.bool)


def _in_list(maker: _Maker) -> _Maker:
    return lambda: [maker()]
