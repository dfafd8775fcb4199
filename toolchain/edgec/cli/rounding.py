"""`--precision`: what the compiler is told, or a program whose weights are integers first.

Halves are the compiler's affair. Integers are what `edgec quantise` makes, by the same code: the
program's own answers are then those of its rounded weights, which prove the module.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.floats import precision_of
from edgec.cli.session import Session
from edgec.runtime.errors import UsageError, WrongAnswer

if TYPE_CHECKING:
    from edgec.quantising import Quantised, Scheme
    from edgec.toolchain import Program
    from edgec.toolchain.precision import Precision

__all__ = [
    "MaxErrorOption",
    "PrecisionOption",
    "Rounding",
    "part_of",
    "rounding_of",
    "weights_file_of",
]

_INT8 = "int8"
_MOST_ERROR = 0.1
"""What answers may be off by where nothing else is asked for: golden answers prove little of a
program that is off by more (`edgec export` says so of models that are)."""

PrecisionOption = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="declared|f16|int8",
        help="f16 halves the weights. GPUs compute products in it, too (norms, softmax and sums "
        "stay f32); processors compute in f32. int8 keeps the weights of products and looked-up "
        "tables in 8 bits, as `edgec quantise` does. Inputs and outputs stay as declared. A note "
        "says the error.",
    ),
]
MaxErrorOption = Annotated[
    str | None,
    typer.Option(
        "--max-error",
        metavar="PART",
        help="With --precision=int8: refuse if the answers are off by more than this part of "
        "their spread: 1% or 0.01 (default: 10%).",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """What `--precision` asks for.

    Attributes:
        precision: what the compiler is told.
        scheme: how the weights of products and tables are kept; None as they are.
        most: what answers may be off by, as a part of their spread.
    """

    precision: "Precision"
    scheme: "Scheme | None" = None
    most: float = math.inf

    def program(self, session: Session, source: str, given: "Program") -> "Program":
        """The program that is compiled; where its weights are outside, theirs is a new file.

        Raises:
            UsageError: it has no weights to round.
            WrongAnswer: the answers would be off by more than is allowed.
            ProgramError: it has no golden answers, or NumPy does not know it.
        """
        from edgec.quantising import quantise
        from edgec.toolchain.weights_file import write_weights

        if self.scheme is None:
            return given
        outside = given.info.weights
        file = None if outside is None else weights_file_of(Path(outside.file), self.scheme)
        try:
            found = quantise(
                given,
                self.scheme,
                max_error=self.most,
                weights_file=file,
                seconds=0.0,
                tell=session.say,
            )
        except WrongAnswer as error:
            program = given.path or Path(f"{given.name}.mlirbc")
            first = "" if given.path else f"edgec export {source} -o {program}, then "
            raise WrongAnswer(
                error.what,
                hint=f"{error.hint} ({first}edgec quantise {program} -o NEW.mlirbc takes that); "
                f"or leave out --precision={self.scheme}, or allow more with --max-error",
            ) from error
        if file is not None:
            base = Path() if given.path is None else given.path.parent
            write_weights(found.weights, base / file)
        session.note(_said(self.scheme, found, file))
        return replace(found.program, path=given.path)


def rounding_of(word: str, max_error: str | None) -> Rounding:
    """What `--precision` and `--max-error` say.

    Raises:
        UsageError: there is no such choice, or the two do not go together.
    """
    from edgec.quantising import Scheme
    from edgec.toolchain.precision import Precision

    if word != _INT8:
        if max_error is not None:
            raise UsageError(
                f"--max-error is for --precision={_INT8}",
                hint="how far off a module's answers may be otherwise, --atol and --rtol say",
            )
        return Rounding(precision=precision_of(word, _INT8))
    most = _MOST_ERROR if max_error is None else part_of(max_error)
    return Rounding(precision=Precision.DECLARED, scheme=Scheme.parse(word), most=most)


def part_of(text: str) -> float:
    """`1%` or `0.01`.

    Raises:
        UsageError: it is neither.
    """
    number, percent, rest = text.partition("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = math.nan
    if rest or not value > 0:
        raise UsageError(f"--max-error={text} is no part of a whole", hint="say 1% or 0.01")
    return value


def weights_file_of(file: Path, scheme: "Scheme") -> Path:
    """`net.safetensors` → `net.int8.safetensors`: what a program's rounded weights go into."""
    return file.with_name(f"{file.stem}.{scheme}.safetensors")


def _said(scheme: "Scheme", found: "Quantised", file: Path | None) -> str:
    """`weights of int8: 1.00 MiB before, 265 KiB after; left as they are: 80 x 5: …`."""
    from edgec.cli.amounts import bytes_text

    sizes = f"{bytes_text(found.before)} before, {bytes_text(found.after)} after"
    kept = f"; left as they are: {found.why_kept}" if found.kept else ""
    at = "" if file is None else f", in {file.name}"
    return f"weights of {scheme}: {sizes}{at}{kept}"
