"""What a framework or the user's own code raises, said in one line with the user's place."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from edgec.exporters.places import place_of_error
from edgec.runtime.errors import EdgecError, ExportError

__all__ = ["reason_of", "user_errors"]


def reason_of(error: BaseException, *, line: int = 0) -> str:
    """`ValueError: the message`: an error's kind and one line of what it says.

    Args:
        line: which of the lines that are not empty; -1 where a framework says the cause last.
    """
    lines = [text.strip() for text in str(error).splitlines() if text.strip()]
    return f"{type(error).__name__}: {lines[line] if lines else ''}"


@contextmanager
def user_errors(
    name: str,
    doing: str,
    *,
    hint: str | Callable[[Exception], str],
    place: Callable[[BaseException], str | None] = place_of_error,
    line: int = 0,
) -> Iterator[None]:
    """What is raised inside becomes "`name` cannot be `doing`: the reason", at the user's line.

    Args:
        hint: what to do next, or what says so of an error.
        place: where in the user's code an error arose.
        line: which line of the message to give, as in `reason_of`.

    Raises:
        ExportError: something else than an error of edgec's own was raised inside.
    """
    try:
        yield
    except EdgecError:
        raise
    except Exception as error:
        raise ExportError(
            f"{name} cannot be {doing}: {reason_of(error, line=line)}",
            where=place(error),
            hint=hint if isinstance(hint, str) else hint(error),
        ) from error
