"""Random numbers of a graph: PyTorch's generator draws them before the graph's module runs.

A module has no generator of PyTorch's. What an operation draws rests on sizes alone, not on values,
for dropout, noise and the like: so the numbers become inputs of the module, drawn in the graph's
order by the very operations. The same seed then gives the answers of eager PyTorch.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from edgec.exporters.from_torch.lines import user_line
from edgec.runtime.errors import UnsupportedOp

__all__ = ["Draws"]

_FILLS = {
    *("bernoulli.p", "normal_functional", "uniform", "exponential", "geometric", "log_normal"),
    *("cauchy", "random", "random.from", "random.to"),
}
"""Operations that give a tensor of another's sizes, whatever that holds; `*_like` are more."""
_DROPOUT = "native_dropout"


class Draws:
    """What a graph draws, in its order."""

    def __init__(self, graph: Any) -> None:
        """Find what draws.

        Raises:
            UnsupportedOp: what an operation draws rests on the values of a tensor.
        """
        self._graph = graph
        self._nodes = [node for node in graph.graph.nodes if _is_random(node)]
        self._calls: list[Callable[[], Any]] = []
        for node in self._nodes:
            if not _rests_on_sizes(node):
                raise UnsupportedOp(
                    f"{node.target} draws random numbers from PyTorch's generator by the values of "
                    "a tensor",
                    where=user_line(node.stack_trace),
                    hint="draw them outside what is compiled; options={'refused': 'eager'} leaves "
                    "this graph to PyTorch",
                )

    def answers(self, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Run the graph in PyTorch: its results, and the numbers that it drew.

        From then on `again` draws for inputs of these sizes.
        """
        self._calls.clear()
        drawn: list[Any] = []

        def draw(target: Any, args: Sequence[Any], kwargs: Any) -> Any:
            self._calls.append(_alone(target, args, kwargs))
            drawn.append(self._calls[-1]())
            return drawn[-1]

        return list(_run(self._graph, self._nodes, draw, inputs)), drawn

    def again(self) -> list[Any]:
        """Draw the numbers of one more call."""
        return [call() for call in self._calls]

    def put(self, drawn: Iterable[Any], inputs: Sequence[Any]) -> Sequence[Any]:
        """Run the graph with numbers that were drawn before."""
        numbers = iter(drawn)
        results: Sequence[Any] = _run(self._graph, self._nodes, lambda *_: next(numbers), inputs)
        return results


def _run(graph: Any, nodes: Sequence[Any], draw: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    import torch

    class Interpreter(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: Any) -> Any:
            if n not in nodes:
                return super().run_node(n)
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            drawn = draw(n.target, args, kwargs)
            return (args[0] * drawn, drawn != 0) if _name(n) == _DROPOUT else drawn

    # Each operation keeps the user's line.
    with torch.fx.traceback.preserve_node_meta():
        return Interpreter(graph).run(*inputs)


def _alone(target: Any, args: Sequence[Any], kwargs: Any) -> Callable[[], Any]:
    """The operation on tensors that have sizes and no values; of dropout, what it multiplies by."""
    import torch

    def shell(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        # Numbers are drawn in the order of memory, so the strides count.
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).fill_(1)

    shells = [shell(value) for value in args]
    if _base(target) == _DROPOUT:
        return lambda: target(*shells, **kwargs)[0]
    return lambda: target(*shells, **kwargs)


def _is_random(node: Any) -> bool:
    import torch

    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags and _argument(node, "dropout_p") != 0


def _rests_on_sizes(node: Any) -> bool:
    import torch

    name = _name(node)
    if name in _FILLS or name == _DROPOUT or _base(node.target).endswith("_like"):
        return True
    return not any(
        isinstance(given.meta.get("val"), torch.Tensor) for given in node.all_input_nodes
    )


def _base(target: Any) -> str:
    return str(target.overloadpacket.__name__)


def _name(node: Any) -> str:
    """An operation's name, with its overload if that has one."""
    overload = node.target._overloadname
    return _base(node.target) + ("" if overload == "default" else f".{overload}")


def _argument(node: Any, name: str) -> Any:
    """An operation's argument by its name, or None."""
    schema = getattr(node.target, "_schema", None)
    for index, argument in enumerate(() if schema is None else schema.arguments):
        if argument.name == name:
            given = node.args[index] if index < len(node.args) else argument.default_value
            return node.kwargs.get(name, given)
    return None
