"""A JSON schema, a grammar or a pattern to which tokens a text may go on with.

The package `llguidance` reads them and follows a text; the module takes what it allows as one bit
a token, and chooses among those.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from edgec.runtime.errors import InputError, MissingExtra, ModuleError
from edgec.runtime.text.facts import TextFacts

__all__ = ["Constraint", "Follower"]

_JSON = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""Blanks as Python's own `json` writes them: a model that may write as many as it likes may write
nothing else. A schema's `x-guidance` says otherwise."""


class _Kind(Enum):
    SCHEMA = "JSON schema"
    GRAMMAR = "grammar"
    PATTERN = "pattern"


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """What an answer has to be: made by one of the three functions below.

    An answer that a limit or a full context ends is the beginning of such a text.
    """

    kind: _Kind
    text: str

    @classmethod
    def json_schema(cls, schema: str | Mapping[str, Any]) -> "Constraint":
        """JSON by a schema.

        Raises:
            InputError: it is no JSON object.
        """
        try:
            value = json.loads(schema) if isinstance(schema, str) else dict(schema)
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise _refused(_Kind.SCHEMA, str(error)) from None
        if not isinstance(value, dict):
            raise _refused(_Kind.SCHEMA, "it is no JSON object")
        return cls(kind=_Kind.SCHEMA, text=text)

    @classmethod
    def grammar(cls, lark: str) -> "Constraint":
        """A context-free grammar as Lark writes them; the text is what its rule `start` is."""
        return cls(kind=_Kind.GRAMMAR, text=lark)

    @classmethod
    def pattern(cls, regex: str) -> "Constraint":
        """A regular expression, which the whole answer has to match."""
        return cls(kind=_Kind.PATTERN, text=regex)

    def follower(self, facts: TextFacts) -> "Follower":
        """What follows one answer of a model.

        Raises:
            MissingExtra: `llguidance` is not installed.
            ModuleError: it does not take the module's tokenizer.
            InputError: this cannot be read, or asks for what is not known.
        """
        try:
            from llguidance import LLMatcher, LLTokenizer
        except ImportError:
            raise MissingExtra(
                f"a text by a {self.kind.value} needs the package llguidance, which is not "
                "installed",
                hint='pip install "edgec-runtime[constrained]"',
            ) from None
        try:
            known = LLTokenizer(
                facts.tokenizer, n_vocab=facts.vocabulary, eos_token=list(facts.stop) or None
            )
        except ValueError as error:
            raise ModuleError(
                f"the module's tokenizer cannot be held to a {self.kind.value}: {error}",
                hint="write the text without one",
            ) from error
        matcher = LLMatcher(known, self._source(), log_level=0)
        if matcher.is_error():
            raise _refused(self.kind, matcher.get_error())
        return Follower(matcher, self.kind, facts.vocabulary)

    def _source(self) -> str:
        from llguidance import LLMatcher

        if self.kind is _Kind.SCHEMA:
            return str(LLMatcher.grammar_from_json_schema(self.text, defaults=_JSON))
        if self.kind is _Kind.GRAMMAR:
            return str(LLMatcher.grammar_from_lark(self.text))
        return str(LLMatcher.grammar_from_regex(self.text))


class Follower:
    """A text by a constraint, as far as it is written."""

    def __init__(self, matcher: Any, kind: _Kind, vocabulary: int) -> None:
        self._matcher, self._kind = matcher, kind
        self._vocabulary = vocabulary

    def allowed(self) -> np.ndarray | None:
        """Which tokens may come next, a bit each, the first the lowest (i32); None at the end.

        Raises:
            InputError: following the text takes more than the package allows itself.
        """
        if not self._matcher.is_error() and self._matcher.is_stopped():
            return None
        bits = self._matcher.compute_bitmask()
        if self._matcher.is_error():
            raise _refused(self._kind, self._matcher.get_error())
        words = np.frombuffer(bits, np.int32)[: -(-self._vocabulary // 32)]
        return words if words.any() else None

    def add(self, token: int) -> None:
        """A token that the text goes on with.

        Raises:
            InputError: it is none of those that were allowed.
        """
        if not self._matcher.consume_token(token):
            raise _refused(self._kind, self._matcher.get_error())


def _refused(kind: _Kind, reason: str) -> InputError:
    return InputError(
        f"the {kind.value} cannot be followed: {reason.strip()}",
        hint="llguidance's documentation says which schemas, grammars and patterns it takes",
    )
