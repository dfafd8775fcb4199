"""How a library's own documentation makes a model: the calls in its classes' examples, made small.

An example is read, never run: of its Python the calls that construct are taken, with constants and
with what names before them stand for. A model that an example loads, or leaves to the reader, is
made as its own class's example says.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Call", "documented"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A constructor of the library and what it is given.

    Attributes:
        name: the class.
        arguments: by name: constants, lists and dicts of some, and further calls.
    """

    name: str
    arguments: Mapping[str, Any]

    def made(self, library: Any, small: Callable[[str, Mapping[str, Any]], dict[str, Any]]) -> Any:
        """What it constructs.

        Args:
            library: the module that has the classes.
            small: from a class's name and its arguments, those to be given.
        """
        given = {
            key: value.made(library, small) if isinstance(value, Call) else value
            for key, value in small(self.name, self.arguments).items()
        }
        return getattr(library, self.name)(**given)


def documented(name: str, library: Any) -> Call | None:
    """The first call that makes this class with values of its own, wherever it is documented."""
    return _documented(name, library, frozenset())


def _documented(name: str, library: Any, outer: frozenset[str]) -> Call | None:
    if name in outer:
        return None
    others = (other for other in sorted(vars(library)) if other != name)
    for place in (name, *others):
        for block in _blocks(getattr(library, place).__doc__ or "", name):
            found = _Reader(library, outer | {name}).first(name, block)
            if found is not None:
                return found
    return None


def _blocks(text: str, name: str) -> Iterator[ast.Module]:
    """The examples of a text that speak of a class."""
    for block in re.findall(r"```(?:python)?\n(.*?)```", text, re.DOTALL):
        if name not in block:
            continue
        try:
            yield ast.parse(textwrap.dedent(block))
        except SyntaxError:  # an example that is no Python; there may be others
            continue


class _Unknown(Exception):
    """A value that is no constant and no model."""


class _Reader:
    """Reads one example."""

    def __init__(self, library: Any, outer: frozenset[str]) -> None:
        self._library, self._outer = library, outer
        self._known: dict[str, ast.expr] = {}

    def first(self, name: str, block: ast.Module) -> Call | None:
        """The first call of this class that needs nothing unknown."""
        for statement in block.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and _called(node)[-1:] == [name]:
                    try:
                        return self._call(node, name)
                    except _Unknown:
                        continue
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                self._known[statement.targets[0].id] = statement.value
        return None

    def _call(self, node: ast.Call, name: str) -> Call:
        names = inspect.signature(getattr(self._library, name)).parameters
        given = dict(zip(names, map(self._value, node.args), strict=False))
        for word in node.keywords:
            value = self._value(word.value)
            given |= {word.arg: value} if word.arg else value
        return Call(name=name, arguments=given)

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name) and node.id in self._known:
            return self._value(self._known[node.id])
        if isinstance(node, ast.Call):
            return self._model(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):  # [True] * 30
            return self._value(node.left) * self._value(node.right)
        try:
            value = ast.literal_eval(node)
        except ValueError as error:
            raise _Unknown(ast.dump(node)) from error
        if value is ...:
            raise _Unknown("an example that leaves it open")
        return value

    def _model(self, node: ast.Call) -> Call:
        names = [n for n in _called(node) if inspect.isclass(getattr(self._library, n, None))]
        if not names:
            raise _Unknown(ast.dump(node.func))
        try:
            if _called(node)[-1] == names[-1]:
                return self._call(node, names[-1])
        except _Unknown:
            pass
        return _documented(names[-1], self._library, self._outer) or Call(
            name=names[-1], arguments={}
        )


def _called(node: ast.Call) -> list[str]:
    """`keras_hub.models.X.from_preset(…)` as its words."""
    words: list[str] = []
    function: ast.expr = node.func
    while isinstance(function, ast.Attribute):
        words.insert(0, function.attr)
        function = function.value
    return [function.id, *words] if isinstance(function, ast.Name) else words
