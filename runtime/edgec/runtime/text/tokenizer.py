"""Text to tokens and back, by the package `tokenizers`."""

from collections.abc import Sequence
from typing import Any

from edgec.runtime.errors import InputError, MissingExtra, ModuleError

__all__ = ["TextStream", "Tokenizer", "check_text", "missing"]


def missing(package: str, why: str) -> MissingExtra:
    """The error where one of the packages for text is not installed."""
    return MissingExtra(
        f"{why} needs the package {package}, which is not installed",
        hint='pip install "edgec-runtime[text]"',
    )


def check_text(text: str) -> None:
    """Refuse what came from bytes that are no UTF-8.

    Raises:
        InputError: it did.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text is no UTF-8 at its character {error.start}", hint="give text in UTF-8"
        ) from None


class Tokenizer:
    """A module's own tokenizer."""

    def __init__(self, text: str) -> None:
        """Read what `tokenizers` wrote.

        Raises:
            MissingExtra: the package is not installed.
            ModuleError: it cannot be read.
        """
        try:
            from tokenizers import Tokenizer as Native
        except ImportError:
            raise missing("tokenizers", "making tokens of text") from None
        try:
            self._native: Any = Native.from_str(text)
        except Exception as error:  # the package raises plain exceptions
            raise ModuleError(
                f"the module's tokenizer cannot be read: {error}", hint="export the model again"
            ) from error
        # The module pads prompts itself, and an answer is not cut.
        self._native.no_padding()
        self._native.no_truncation()

    def encode(self, text: str, *, special: bool) -> list[int]:
        """The tokens of a text; `special` adds those that the tokenizer begins and ends with.

        Raises:
            InputError: it came from bytes that are no UTF-8.
        """
        check_text(text)
        return list(self._native.encode(text, add_special_tokens=special).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        return str(self._native.decode(list(tokens), skip_special_tokens=True))

    def stream(self) -> "TextStream":
        """What makes text of tokens that come one by one."""
        return TextStream(self, self._native)


class TextStream:
    """Tokens that come one by one to pieces of text, each of whole characters."""

    def __init__(self, tokenizer: Tokenizer, native: Any) -> None:
        from tokenizers.decoders import DecodeStream

        self._tokenizer = tokenizer
        self._native = native
        self._stream: Any = DecodeStream(skip_special_tokens=True)
        self._tokens: list[int] = []
        self._said = ""

    def add(self, token: int) -> str:
        """The text that is known now and was not before; empty inside of a character."""
        self._tokens.append(token)
        piece = self._stream.step(self._native, token) or ""
        self._said += piece
        return piece

    def rest(self) -> str:
        """What is left at the end: characters that were never finished."""
        whole = self._tokenizer.decode(self._tokens)
        return whole[len(self._said) :] if whole.startswith(self._said) else ""
