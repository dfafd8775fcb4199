"""A flat JAX function, equation by equation: numbered where it is lowered, noted where it is run.

The same walk does both. Where it is traced, each equation is bound below a name scope that says its
number, which JAX writes into locations. Where it runs on arrays, each is computed by itself, loops
turn by turn, and what it gives is kept. Jitted helpers are walked into; so are the bodies of loops
and branches, whose equations have numbers of their own.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from edgec.toolchain.framework_values import MOST_TIMES, FrameworkValue, place_name, storable

__all__ = ["numbered", "values_of"]

_CALLS = {
    "pjit": "jaxpr",
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
}
"""Equations that stand for another function's, by the parameter that holds it."""

_BODIES = {
    "scan": ("jaxpr",),
    "while": ("cond_jaxpr", "body_jaxpr"),
    "cond": ("branches",),
}
"""Loops and branches, by the parameters that hold what they turn."""

See = Callable[[int, Any, str, Sequence[Any]], None]
"""Is told of an equation's number, the equation, its line, and what it gives."""


def numbered(call: Callable[..., Any], specs: Sequence[Any]) -> Callable[..., Any]:
    """The function with each equation below a name that says its number; its results are flat.

    Args:
        call: a function of the nestings in `specs`.
        specs: what it is traced with, symbolic sizes among them.
    """
    import jax

    closed = jax.make_jaxpr(call)(*specs)

    def again(*arguments: Any) -> Any:
        return _Walk(None).through(closed, jax.tree_util.tree_leaves(arguments), 0)

    again.__name__ = call.__name__
    return again


def values_of(
    call: Callable[..., Any], arguments: Sequence[Any], function: str, *, fixed: int
) -> tuple[FrameworkValue, ...]:
    """What each equation gives that depends on more than the first arguments.

    Args:
        call: the function.
        arguments: what it is called with: nestings of arrays.
        function: the signature's name.
        fixed: how many arrays are weights; the first ones.
    """
    import jax

    arguments = jax.tree_util.tree_map(jax.numpy.asarray, list(arguments))
    closed = jax.make_jaxpr(call)(*arguments)
    leaves = jax.tree_util.tree_leaves(arguments)
    kept: dict[tuple[int, int], tuple[Any, str, list[np.ndarray]]] = {}

    def see(number: int, equation: Any, line: str, results: Sequence[Any]) -> None:
        for place, result in enumerate(results):
            known = kept.setdefault((number, place), (equation, line, []))[2]
            if not jax.dtypes.issubdtype(getattr(result, "dtype", np.float32), jax.dtypes.extended):
                del known[MOST_TIMES - 1 :]  # of many turns the last stays
                known.append(np.asarray(result))

    walk = _Walk(see)
    walk.depends = {id(var) for var in closed.jaxpr.invars[fixed:]}
    walk.through(closed, leaves, 0)
    return tuple(
        FrameworkValue(
            function=function,
            number=number,
            name=_name(equation, number, place),
            operation=equation.primitive.name,
            line=line,
            arrays=tuple(arrays),
        )
        for (number, place), (equation, line, arrays) in kept.items()
        if arrays and storable(arrays[0]) and arrays[0].size
    )


class _Walk:
    """One way through a function's equations."""

    def __init__(self, see: See | None) -> None:
        self._see = see
        self._tracebacks: list[Any] = [None]
        self.depends: set[int] = set()

    def through(self, closed: Any, arguments: Sequence[Any], first: int) -> list[Any]:
        """What a function gives; its equations are numbered from `first`."""
        from jax.extend.core import Literal

        jaxpr = closed.jaxpr
        known = dict(zip(jaxpr.constvars, closed.consts, strict=True))
        known |= dict(zip(jaxpr.invars, arguments, strict=True))

        def read(var: Any) -> Any:
            return var.val if isinstance(var, Literal) else known[var]

        for number, equation in zip(_numbers(jaxpr, first), jaxpr.eqns, strict=True):
            self._note(equation)
            # Jitted helpers of JAX' own have no line of the user's; what calls them has.
            own = equation.source_info.traceback
            self._tracebacks.append(own if _line(own) else self._tracebacks[-1])
            results = self._bind(equation, [read(var) for var in equation.invars], number)
            known |= dict(zip(equation.outvars, results, strict=True))
            if self._see is not None and self._is_seen(equation):
                self._see(number, equation, _line(self._tracebacks[-1]), results)
            self._tracebacks.pop()
        return [read(var) for var in jaxpr.outvars]

    def _is_seen(self, equation: Any) -> bool:
        """Whether an equation computes something of its own, of inputs."""
        computes = equation.primitive.name not in _CALLS and equation.outvars
        return bool(computes) and id(equation.outvars[0]) in self.depends

    def _note(self, equation: Any) -> None:
        """Whether an equation depends on inputs; then so does all in it."""
        if any(id(var) in self.depends for var in equation.invars):
            self.depends |= {id(var) for var in equation.outvars}
            for inner in _inside(equation):
                self.depends |= {id(var) for var in inner.jaxpr.invars}

    def _bind(self, equation: Any, given: Sequence[Any], number: int) -> Sequence[Any]:
        import jax
        from jax._src import source_info_util

        name = equation.primitive.name
        if name in _CALLS:
            return self.through(_inside(equation)[0], given, number + 1)
        if name in _BODIES and self._see is not None:
            return self._turned(equation, given, number)
        params = equation.params
        if name in _BODIES:
            params = self._numbered_bodies(equation, number)
        traceback = self._tracebacks[-1]
        bound = equation.primitive.get_bind_params(params)
        functions, params = bound if isinstance(bound, tuple) else ((), bound)
        scope = jax.named_scope(place_name(number))
        with source_info_util.user_context(traceback), scope, equation.ctx.manager:
            results = equation.primitive.bind(*functions, *given, **params)
        return list(results) if equation.primitive.multiple_results else [results]

    def _numbered_bodies(self, equation: Any, number: int) -> dict[str, Any]:
        """The parameters of a loop or branch, with numbers in its bodies."""
        import jax

        params = dict(equation.params)
        for key in _BODIES[equation.primitive.name]:
            bodies = params[key] if isinstance(params[key], tuple) else (params[key],)
            made = []
            for body in bodies:
                first = self._first(equation, body, number)

                def turn(*arguments: Any, body: Any = body, first: int = first) -> Any:
                    return self.through(body, arguments, first)

                made.append(jax.make_jaxpr(turn)(*body.in_avals))
            params[key] = tuple(made) if isinstance(params[key], tuple) else made[0]
        return params

    @staticmethod
    def _first(equation: Any, body: Any, number: int) -> int:
        """The number of the first equation of one of the bodies."""
        first = number + 1
        for inner in _inside(equation):
            if inner is body:
                break
            first += _count(inner.jaxpr)
        return first

    def _turned(self, equation: Any, given: Sequence[Any], number: int) -> Sequence[Any]:
        """What a loop or branch gives, computed turn by turn."""
        params, name = equation.params, equation.primitive.name
        if name == "cond":
            which, *rest = given
            branches = params["branches"]
            body = branches[int(np.clip(int(which), 0, len(branches) - 1))]
            return self.through(body, rest, self._first(equation, body, number))
        if name == "while":
            return self._while(equation, given, number)
        return self._scan(equation, given, number)

    def _while(self, equation: Any, given: Sequence[Any], number: int) -> Sequence[Any]:
        params = equation.params
        asked, turned = params["cond_nconsts"], params["body_nconsts"]
        for_asked, for_turn = given[:asked], given[asked : asked + turned]
        carry = list(given[asked + turned :])
        asks, turns = params["cond_jaxpr"], params["body_jaxpr"]
        one, other = (self._first(equation, body, number) for body in (asks, turns))
        while bool(self.through(asks, [*for_asked, *carry], one)[0]):
            carry = self.through(turns, [*for_turn, *carry], other)
        return carry

    def _scan(self, equation: Any, given: Sequence[Any], number: int) -> Sequence[Any]:
        import jax.numpy as jnp

        params = equation.params
        fixed, carried, length = params["num_consts"], params["num_carry"], params["length"]
        consts, carry = given[:fixed], list(given[fixed : fixed + carried])
        along = given[fixed + carried :]
        body = params["jaxpr"]
        rows: dict[int, list[Any]] = {}
        turns = range(length)
        for turn in reversed(turns) if params["reverse"] else turns:
            found = self.through(body, [*consts, *carry, *(x[turn] for x in along)], number + 1)
            carry = found[:carried]
            rows[turn] = found[carried:]
        if not rows:
            shapes = [var.aval for var in equation.outvars[carried:]]
            return [*carry, *(jnp.zeros(each.shape, each.dtype) for each in shapes)]
        columns = zip(*(rows[turn] for turn in turns), strict=True)
        return [*carry, *(jnp.stack(column) for column in columns)]


def _inside(equation: Any) -> list[Any]:
    """The functions in an equation that is walked into, closed."""
    from jax.extend.core import ClosedJaxpr

    name = equation.primitive.name
    keys = (_CALLS[name],) if name in _CALLS else _BODIES.get(name, ())
    found = []
    for key in keys:
        held = equation.params[key]
        for each in held if isinstance(held, tuple) else (held,):
            found.append(each if isinstance(each, ClosedJaxpr) else ClosedJaxpr(each, ()))
    return found


def _numbers(jaxpr: Any, first: int) -> Iterator[int]:
    """The numbers of a function's own equations; between them are those of what they hold."""
    for equation in jaxpr.eqns:
        yield first
        first += 1 + sum(_count(inner.jaxpr) for inner in _inside(equation))


def _count(jaxpr: Any) -> int:
    """How many numbers a function's equations take."""
    return sum(1 + sum(_count(inner.jaxpr) for inner in _inside(e)) for e in jaxpr.eqns)


def _name(equation: Any, number: int, place: int) -> str:
    several = f":{place}" if len(equation.outvars) > 1 else ""
    return f"{equation.primitive.name}_{number}{several}"


def _line(traceback: Any) -> str:
    """The user's line in a traceback; empty where there is none."""
    from jax._src import source_info_util

    frame = None if traceback is None else source_info_util.user_frame(traceback)
    return "" if frame is None else f"{frame.file_name}:{frame.start_line}"
