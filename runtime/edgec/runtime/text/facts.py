"""What a language model's program and module say of its text: tokenizer, template, sizes."""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from edgec.runtime.errors import ModuleError

__all__ = [
    "DECODE",
    "ENCODE",
    "HISTORY",
    "PREFILL",
    "RESET",
    "SAMPLE",
    "SAMPLE_ALLOWED",
    "VERIFY",
    "TextFacts",
    "packed",
]

PREFILL = "prefill_{size}"
"""The function that takes a chunk of a prompt: `tokens` (i32[size]), of which `count` are real."""

DECODE = "decode"
"""The function that takes one `token`; as `prefill`, it gives the likeliest next one, or -1 where
the context has no room for what it was given."""

ENCODE = "encode"
"""The function that reads the source of a model with an encoder: tokens (i32[source], `count` of
them real), or features of sound; it forgets all tokens, and gives -1 where it refuses."""

VERIFY = "verify_{size}"
"""The function that takes a token and guesses behind it (`tokens`, i32[size], `count` of them
real): it reads the token and the guesses that are the likeliest, and gives what is likeliest after
each that it read, and -1 for the others."""

SAMPLE = "sample"
"""The function that draws another next token from what the last call left on the device."""

SAMPLE_ALLOWED = "sample_allowed"
"""The same among some tokens alone: `allowed` (i32, a bit for each, the first the lowest), and then
what `sample` takes."""

RESET = "reset"
"""The function that forgets all tokens from a `position` on."""

HISTORY = "tokens"
"""The state that holds the tokens of the text so far; as long as each cache."""

_SCHEMA = 1
_RECURRENT = 2
"""The schema of what is said of a recurrent model."""
_MOST = 256 << 20
"""Bytes that a tokenizer may unpack to."""


@dataclass(frozen=True, kw_only=True)
class TextFacts:
    """What it takes to make tokens of text, and text of tokens.

    Attributes:
        context: how many tokens the module keeps, prompt and answer together.
        prefill: how many tokens a call of each `prefill` function takes, smallest first.
        vocabulary: how many tokens there are; the largest is one less.
        stop: the tokens that end an answer.
        packed: the tokenizer, `packed`; it is long (9 MB of Llama 3's), and not every use of a
            model has text.
        template: a Jinja template that makes one prompt of a conversation; empty where there is
            none.
        verify: how many tokens a call of `verify` takes; 0 where there is none.
        source: the size of what an encoder reads first: tokens, or features by frames; empty where
            there is none.
        start: the tokens that a text after a source begins with.
        special: what the template calls some tokens (`bos_token` …), and their text.
        recurrent: whether the model keeps what all tokens so far have left, of which none can be
            taken back: a call of `prefill` is then given as many tokens as it takes, and `reset`
            keeps all of them or none.
    """

    context: int
    prefill: tuple[int, ...]
    vocabulary: int
    stop: tuple[int, ...]
    packed: str
    template: str = ""
    verify: int = 0
    source: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    special: Mapping[str, str] = field(default_factory=dict)
    recurrent: bool = False

    def chunk(self, left: int) -> int:
        """How many tokens the next call reads of a text of which so many are `left`; 1 by `decode`.

        It is the largest of which more than half are tokens, and that of a recurrent model is full.
        """
        if left == 1 or not self.prefill:
            return 1
        if self.recurrent:
            return max((size for size in self.prefill if size <= left), default=1)
        return max((size for size in self.prefill if size < 2 * left), default=self.prefill[0])

    @cached_property
    def tokenizer(self) -> str:
        """What the package `tokenizers` reads (`tokenizer.json`).

        Raises:
            ModuleError: it is damaged.
        """
        try:
            return _unpacked(self.packed)
        except (ValueError, zlib.error) as error:
            raise _damaged(error) from None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            # A runtime that does not know of recurrent models refuses them.
            "schema": _RECURRENT if self.recurrent else _SCHEMA,
            "context": self.context,
            "prefill": list(self.prefill),
            "vocabulary": self.vocabulary,
            "stop": list(self.stop),
            "template": self.template,
            "verify": self.verify,
            "source": list(self.source),
            "start": list(self.start),
            "special": dict(self.special),
            "tokenizer": self.packed,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TextFacts":
        """The inverse of `to_json`; whether the tokenizer is sound is seen when it is used.

        Raises:
            ModuleError: it is damaged, or of another version of edgec.
        """
        try:
            if value["schema"] not in (_SCHEMA, _RECURRENT):
                raise ModuleError(
                    f"what it says of its text has schema {value['schema']}, and this edgec "
                    f"reads {_SCHEMA} and {_RECURRENT}",
                    hint="export the model again with this version of edgec",
                )
            return cls(
                context=int(value["context"]),
                prefill=tuple(map(int, value["prefill"])),
                vocabulary=int(value["vocabulary"]),
                stop=tuple(map(int, value["stop"])),
                packed=str(value["tokenizer"]),
                template=str(value["template"]),
                verify=int(value.get("verify", 0)),
                source=tuple(map(int, value.get("source", ()))),
                start=tuple(map(int, value.get("start", ()))),
                special={str(name): str(text) for name, text in value["special"].items()},
                recurrent=value["schema"] == _RECURRENT,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(error) from None

    @classmethod
    def parse(cls, text: str) -> "TextFacts":
        """Of a module's attribute.

        Raises:
            ModuleError: as `from_json`.
        """
        try:
            return cls.from_json(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise _damaged(error) from None


def packed(tokenizer: str) -> str:
    """A `tokenizer.json` as a program and a module hold it."""
    return base64.b64encode(zlib.compress(tokenizer.encode(), 9)).decode()


def _damaged(error: Exception) -> ModuleError:
    return ModuleError(
        f"what it says of its text is damaged: {error!r}", hint="export the model again"
    )


def _unpacked(text: str) -> str:
    """The tokenizer; no more of it than any could have."""
    unpack = zlib.decompressobj()
    try:
        data = unpack.decompress(base64.b64decode(text, validate=True), _MOST)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
    if not unpack.eof:
        raise ValueError("the tokenizer is cut short, or too large")
    return data.decode()
