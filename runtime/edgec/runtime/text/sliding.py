"""A text that outgrows the context to the tokens of it that the model reads."""

from collections.abc import Sequence
from enum import Enum

__all__ = ["SINKS", "WhenFull", "window"]

SINKS = 4
"""Tokens at the beginning that stay: attention leans on the first ones, whatever they say."""


class WhenFull(Enum):
    """What becomes of an answer when the context is full."""

    STOP = "stop"
    """It ends."""
    SLIDE = "slide"
    """It goes on: the beginning and the last part of the text are read anew."""


def window(tokens: Sequence[int], *, context: int, keep: int = SINKS) -> list[int]:
    """The tokens that are read of a text: all of a short one; else its beginning and its end.

    Of what is between go whole halves of the context, so that a text that grows is cut at one
    place for long, and is read anew once in so many tokens.

    Args:
        tokens: the text.
        context: how many tokens the model keeps.
        keep: how many stay at the beginning; at most half of the context.
    """
    if len(tokens) <= context:
        return list(tokens)
    keep = min(keep, context // 2)
    half = max(1, (context - keep) // 2)
    gone = -(-(len(tokens) - context) // half) * half
    return [*tokens[:keep], *tokens[keep + gone :]]
