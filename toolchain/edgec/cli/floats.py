"""`--f32` and `--precision`: words of the command line to how floats are computed."""

from enum import Enum
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from edgec.runtime.errors import UsageError

if TYPE_CHECKING:
    from edgec.toolchain.precision import F32, Precision

__all__ = ["F32Option", "f32_of", "precision_of"]

_Choice = TypeVar("_Choice", bound=Enum)

F32Option = Annotated[
    str,
    typer.Option(
        "--f32",
        metavar="full|tf32",
        help="How CUDA multiplies f32: with all its bits, or rounded to nearest TF32 first "
        "(11 bits; faster, off by about 3e-4 a product).",
    ),
]


def f32_of(word: str) -> "F32":
    """What `--f32` says.

    Raises:
        UsageError: there is no such choice.
    """
    from edgec.toolchain.precision import F32

    return _chosen(F32, "--f32", word)


def precision_of(word: str, *others: str) -> "Precision":
    """What `--precision` says; `others` are what it may say that is not the compiler's affair.

    Raises:
        UsageError: there is no such choice.
    """
    from edgec.toolchain.precision import Precision

    return _chosen(Precision, "--precision", word, *others)


def _chosen(kind: type[_Choice], flag: str, word: str, *others: str) -> _Choice:
    try:
        return kind(word)
    except ValueError:
        *most, last = [*(str(each.value) for each in kind), *others]
        known = f"{', '.join(most)} or {last}"
        raise UsageError(f"{flag} takes no {word}", hint=f"say {known}") from None
