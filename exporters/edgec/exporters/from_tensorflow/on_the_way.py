"""A traced `tf.function` and what it is called with to the value of every node, by TensorFlow.

What lies between two calls, loops or branches is run at once; calls are walked into, loops turn by
turn. XLA writes a node's path into the locations of what it makes: the names of the calls that it
is in, and its own. In the body of a loop or branch paths begin anew.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.exporters.from_tensorflow.bodies import Body, bodies_of, owner, tensor, together
from edgec.exporters.from_tensorflow.nodes import Nodes
from edgec.toolchain.framework_values import MOST_TIMES, FrameworkValue, storable

__all__ = ["values_of"]

_CALLS = {"PartitionedCall": "f", "StatefulPartitionedCall": "f"}
_LOOPS = {"While", "StatelessWhile"}
_BRANCHES = {"If", "StatelessIf", "Case", "StatelessCase"}
_SIZES = {"Shape", "ShapeN", "Size", "Rank"}
"""What depends on inputs' sizes alone."""
_PASSED_ON = {"Identity", "IdentityN", "StopGradient", "PreventGradient", "EnsureShape"}
"""What computes nothing."""


def values_of(
    concrete: Any, given: Sequence[Any], varying: Sequence[bool], nodes: Nodes, function: str
) -> tuple[FrameworkValue, ...]:
    """What each node gives that depends on inputs or state, each time that it is computed.

    Args:
        concrete: the `ConcreteFunction`.
        given: tensors for its inputs, captured ones among them.
        varying: of each, whether it is an input or state.
        nodes: which numbers the program's locations say.
        function: the signature's name.
    """
    walk = _Walk(concrete)
    walk.through(walk.body, given, varying, _Place(where="", path=""))
    return tuple(
        FrameworkValue(
            function=function,
            number=nodes.number(noted.path),
            name=noted.path if place == 0 else f"{noted.path}:{place}",
            operation=noted.operation,
            line=nodes.text(noted.path),
            arrays=tuple(noted.arrays),
        )
        for (_, place), noted in walk.noted.items()
    )


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a body is run: like no other, and as XLA says it."""

    where: str
    path: str

    def call(self, node: Any) -> "_Place":
        return _Place(where=f"{self.where}{node.name}/", path=f"{self.path}{node.name}/")

    def inside(self, node: Any, number: int) -> "_Place":
        """One of the bodies of a loop or branch."""
        return _Place(where=f"{self.where}{node.name}.{number}/", path="")


@dataclass(frozen=True, kw_only=True)
class _Noted:
    path: str
    operation: str
    arrays: list[np.ndarray]


class _Walk:
    """One way through a function's graph, and those in it."""

    def __init__(self, concrete: Any) -> None:
        self.body, self._bodies, self._library = bodies_of(concrete)
        self.noted: dict[tuple[str, int], _Noted] = {}

    def through(
        self, body: Body, given: Sequence[Any], varying: Sequence[bool], place: _Place
    ) -> tuple[list[Any], list[bool]]:
        """What a body gives, and which of it depends on what varies."""
        values = dict(zip(body.given, given, strict=True))
        depends = dict(zip(body.given, varying, strict=True))
        for nodes in self._parts(body):
            if self._stands_for(nodes[0]):
                self._walked(nodes[0], values, depends, place)
                continue
            found = together(body, nodes, values, self._library)
            values |= found
            made: dict[str, list[str]] = {}
            for name in found:
                made.setdefault(owner(name), []).append(name)
            for node in nodes:
                read = [tensor(text) for text in node.input if not text.startswith("^")]
                known = node.op not in _SIZES and any(depends[name] for name in read)
                depends |= dict.fromkeys(made.get(node.name, ()), known)
                if known and node.op not in _PASSED_ON:
                    self._note(node, [values[name] for name in made.get(node.name, ())], place)
        return [values[name] for name in body.results], [depends[name] for name in body.results]

    def _note(self, node: Any, results: Sequence[Any], place: _Place) -> None:
        for number, result in enumerate(results):
            if not (result.dtype.is_floating or result.dtype.is_integer or result.dtype.is_bool):
                continue
            array = np.asarray(result.numpy())
            if not storable(array) or not array.size:
                continue
            key = (f"{place.where}{node.name}", number)
            path = f"{place.path}{node.name}"
            noted = self.noted.setdefault(key, _Noted(path=path, operation=node.op, arrays=[]))
            del noted.arrays[MOST_TIMES - 1 :]  # of many turns the last stays
            noted.arrays.append(array)

    def _parts(self, body: Body) -> Iterator[list[Any]]:
        """Nodes that can be run at once; one that stands for functions alone."""
        part: list[Any] = []
        for node in body.nodes:
            if self._stands_for(node):
                if part:
                    yield part
                yield [node]
                part = []
            else:
                part.append(node)
        if part:
            yield part

    def _stands_for(self, node: Any) -> bool:
        return node.op in _LOOPS | _BRANCHES | set(_CALLS) or node.op in self._bodies

    def _walked(
        self, node: Any, values: dict[str, Any], depends: dict[str, bool], place: _Place
    ) -> None:
        """Run what a node stands for, and keep what it gives."""
        names = [tensor(text) for text in node.input if not text.startswith("^")]
        given, varying = [values[name] for name in names], [depends[name] for name in names]
        if node.op in _LOOPS:
            results, known = self._turned(node, given, varying, place)
        elif node.op in _BRANCHES:
            results, known = self._chosen(node, given, varying, place)
        else:
            name = node.attr[_CALLS[node.op]].func.name if node.op in _CALLS else node.op
            results, known = self.through(self._bodies[name], given, varying, place.call(node))
        for number, (result, varies) in enumerate(zip(results, known, strict=True)):
            values[f"{node.name}:{number}"], depends[f"{node.name}:{number}"] = result, varies

    def _turned(
        self, node: Any, given: Sequence[Any], varying: Sequence[bool], place: _Place
    ) -> tuple[list[Any], list[bool]]:
        asked, turned = (self._bodies[node.attr[key].func.name] for key in ("cond", "body"))
        carried = list(given)
        known = [any(varying)] * len(carried)
        while bool(self.through(asked, carried, known, place.inside(node, 0))[0][0]):
            carried, _ = self.through(turned, carried, known, place.inside(node, 1))
        return carried, known

    def _chosen(
        self, node: Any, given: Sequence[Any], varying: Sequence[bool], place: _Place
    ) -> tuple[list[Any], list[bool]]:
        which, *rest = given
        if "branches" in node.attr:
            functions = node.attr["branches"].list.func
            number = int(which)
            number = number if 0 <= number < len(functions) else len(functions) - 1
        else:
            functions = [node.attr[f"{key}_branch"].func for key in ("then", "else")]
            number = 0 if np.asarray(which.numpy()).all() else 1
        body = self._bodies[functions[number].name]
        results, known = self.through(body, rest, varying[1:], place.inside(node, number))
        return results, [varying[0] or each for each in known]
