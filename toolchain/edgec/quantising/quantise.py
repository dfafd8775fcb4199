"""A program to one whose weights are integers: layer by layer, with what that costs its answers.

The framework's answers are the yardstick. NumPy computes the program first as it is, and has to
give them; then with each line's weights rounded alone, which shows where rounding hurts, on as many
calls as there is time for; then as it is written in the end. These last answers become the golden
ones of the new program.
"""

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.quantising.answers import (
    Answers,
    answers_of,
    calls_within,
    distance,
    measurable,
    without_slack,
)
from edgec.quantising.front import Choice
from edgec.quantising.keeping import is_named, refusal
from edgec.quantising.rounding import exact_scheme, round_weights
from edgec.quantising.scheme import LOSSLESS, Scheme
from edgec.runtime.errors import UsageError, WrongAnswer
from edgec.runtime.golden import Golden
from edgec.toolchain.blocked_weights import BlockedWeights
from edgec.toolchain.computed import refuse_other, weights_of
from edgec.toolchain.portable import to_portable
from edgec.toolchain.program import Loss, Program, ProgramInfo

__all__ = ["CALLS", "SECONDS", "Line", "Quantised", "Work", "quantise"]

_Array = np.ndarray[Any, np.dtype[Any]]
CALLS = 32
"""Golden calls that are computed in NumPy, which a language model has many more of."""
SECONDS = 120.0
"""What all lines alone may take together, beside the rounding itself."""
_ROUNDED = "weights of products and tables that are looked up are rounded from 4,096 numbers on"
_LARGE_SHARE = 0.5
"""Of the squared error: a line of 4 bits that makes more of it is kept in 8."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """What became of the weights that a line of the user's source multiplies by or looks up.

    Attributes:
        where: `file:line`, or the weights' name where the framework kept no line.
        what: their sizes, and how many there are.
        schemes: how they are kept now.
        activations: what the other side is; empty for as it was.
        before, after: bytes.
        error: of the program's answers with only this line's weights rounded; None where that
            was not asked for, because rounding changes nothing.
        promoted: why it is kept in more bits than was asked for; empty where it is not.
        tried: where ways were compared, the error of each alone.
    """

    where: str
    what: str
    schemes: tuple[Scheme, ...]
    before: int
    after: int
    error: float | None
    promoted: str = ""
    activations: str = ""
    tried: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Quantised:
    """A quantised program, and what it cost.

    Attributes:
        program: with golden answers of its own, computed in NumPy.
        weights: its parameters by name, where they are kept outside.
        lines: those whose weights were rounded, the one that costs most first.
        kept: what stays as it is: where, what, why.
        before, after: bytes of all weights.
        error: of the answers, against the framework's for the original.
        calls: how many golden calls the lines' errors are of.
        choices: where ways were compared, those for all lines together that were measured, from
            the smallest on.
    """

    program: Program
    weights: Mapping[str, _Array]
    lines: tuple[Line, ...]
    kept: tuple[tuple[str, str, str], ...]
    before: int
    after: int
    error: float
    calls: int
    choices: tuple[Choice, ...] = ()

    @property
    def why_kept(self) -> str:
        """Why some stay as they are, each reason once; empty where none does."""
        return _reasons((what, why) for _, what, why in self.kept)


def with_weights_as_they_are(program: Program, weights_file: str | Path | None = None) -> Quantised:
    """A program none of whose weights are rounded, as what is rounded besides begins with it.

    Args:
        program: it.
        weights_file: where its weights will lie, as in `quantise`.
    """
    from iree.compiler import ir

    from edgec.quantising.constants import bytes_of_constants
    from edgec.toolchain.stablehlo import parse_stablehlo

    weights = weights_of(program)
    module = parse_stablehlo(program.bytecode, ir.Context())
    size = sum(array.nbytes for array in weights.values()) + bytes_of_constants(module)
    info = program.info
    if info.weights is not None and weights_file is not None:
        info = replace(info, weights=replace(info.weights, file=Path(weights_file).as_posix()))
    return Quantised(
        program=replace(program, info=info),
        weights=weights,
        lines=(),
        kept=(),
        before=size,
        after=size,
        error=0.0,
        calls=0,
    )


def quantise(
    program: Program,
    scheme: Scheme | None,
    *,
    keep: Sequence[str] = (),
    max_error: float = math.inf,
    weights_file: Path | str | None = None,
    calls: int = CALLS,
    halves: bool = True,
    seconds: float = SECONDS,
    tell: Callable[[str], None] = lambda _: None,
) -> Quantised:
    """Round the weights of a program's products, and the tables that it looks up rows in.

    Args:
        program: with golden answers.
        scheme: how weights are kept; None for blocks that hold them exactly, where there are some.
        keep: lines or names of weights that stay as they are; the end of a line's place will do.
        max_error: how far the answers may be off.
        weights_file: where the new weights will be, as the program is to name it; they are outside
            only if the program's own are.
        calls: how many golden calls, from the first on, the answers are compared of.
        halves: whether scales of groups are f16 where that is precise enough.
        seconds: what all lines alone may take, each on as many of the calls as that allows; with
            0 they are measured only to say what to keep.
        tell: is told what is at work.

    Raises:
        UsageError: there is nothing to round, or `keep` names nothing.
        WrongAnswer: the answers would be off by more than `max_error`; it says what to keep.
        ProgramError: NumPy does not know the program, or computes something else.
    """
    golden = measurable(program, calls)
    work = Work(program, golden, scheme, keep, tell, halves=halves)
    work.compare()
    if seconds > 0:
        work.measure(seconds)
    work.promote()
    if max_error < math.inf and (error := work.error()) > max_error:
        raise work.refusal(max_error, error)
    return work.written(None if weights_file is None else Path(weights_file))


class Work:
    """One program on its way: its layers, what each becomes, and what was measured."""

    def __init__(
        self,
        program: Program,
        golden: Golden,
        scheme: Scheme | None,
        keep: Sequence[str],
        tell: Callable[[str], None],
        *,
        halves: bool,
        others: Sequence[Scheme] = (),
    ) -> None:
        from iree.compiler import ir

        from edgec.quantising.layers import Kept, Layer, find_layers
        from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
        from edgec.toolchain.stablehlo import parse_stablehlo

        self.program, self.golden, self.scheme, self.tell = program, golden, scheme, tell
        self.halves, self.others, self.keep = halves, others, keep
        self.how = LOSSLESS if scheme is None else str(scheme)
        self.weights = weights_of(program)
        self.module = parse_stablehlo(program.bytecode, ir.Context())
        InlineCalls().run(self.module)
        layers, self.kept = find_layers(self.module, program.info, self.weights)
        self.layers: dict[str, list[Layer]] = {}
        self.schemes: dict[Any, Scheme] = {}
        if scheme is None:
            tell(f"looking for blocks that hold {len(layers)} matrices")
        for layer in layers:
            found = self._scheme_of(layer, keep)
            if isinstance(found, str):
                self.kept.append(Kept(where=layer.where, what=layer.what, reason=found))
            else:
                self.layers.setdefault(layer.where, []).append(layer)
                self.schemes[layer.key] = found
        unknown = [
            each for each in keep if not any(is_named(a.where, a.name, each) for a in layers)
        ]
        if unknown:
            raise UsageError(
                f"no product by weights, and no table, is at {unknown[0]}",
                hint="name a line as the table does (model.py:12), or a weight",
            )
        if not self.layers:
            raise UsageError(
                f"{program.path or program.name} has no weights that {self.how} fits: "
                + (_reasons((each.what, each.reason) for each in self.kept) or _ROUNDED),
                hint="`edgec quantise --activations=int8` multiplies convolutions in bytes; "
                "`edgec compile --precision=f16` keeps all weights as halves",
            )
        self.promoted: dict[str, str] = {}
        self.alone: dict[str, float | None] = dict.fromkeys(self.layers)
        self.tried: dict[str, Mapping[str, float]] = {}
        self.own: Answers | None = None
        self.calls = len(golden.calls)
        self.rounded: dict[tuple[Any, Scheme], BlockedWeights] = {}

    def anew(self, schemes: Mapping[str, Scheme | None]) -> "Work":
        """The same program from the beginning, with each line's weights kept as is said."""
        other = Work(
            *(self.program, self.golden, self.scheme, self.keep, self.tell),
            halves=self.halves,
            others=self.others,
        )
        for where, layers in self.layers.items():
            scheme = schemes[where]
            if scheme is None:
                del other.layers[where]
                continue
            other.put(where, scheme)
            for mine, its in zip(layers, other.layers[where], strict=True):
                if (mine.key, scheme) in self.rounded:
                    other.rounded[its.key, scheme] = self.rounded[mine.key, scheme]
        return other

    def _scheme_of(self, layer: Any, keep: Sequence[str]) -> Scheme | str:
        """How a layer's weights are kept, or why they stay."""
        if any(is_named(layer.where, layer.name, each) for each in keep):
            return "as asked"
        if self.scheme is None:
            return exact_scheme(layer.matrix) or "no blocks hold it exactly"
        for scheme in (self.scheme, *self.others):
            if scheme.fits(layer.inner):
                return scheme
        summed = f"{layer.inner} summed" if layer.multiplied else f"{layer.inner} numbers of a row"
        return f"{summed} do not make {self.scheme}"

    def put(self, where: str, scheme: Scheme | None) -> None:
        """Keep a line's weights in another way."""
        if scheme is not None:
            self.schemes |= {layer.key: scheme for layer in self.layers[where]}

    def leave(self, where: str, errors: str) -> None:
        """Leave a line's weights as they are, for what rounding them would cost."""
        from edgec.quantising.layers import Kept

        layers, reason = self.layers.pop(where), f"alone it makes an error of {errors}"
        del self.alone[where]
        self.kept.extend(Kept(where=where, what=layer.what, reason=reason) for layer in layers)

    def made(self, layer: Any) -> BlockedWeights:
        """What a layer's weights become."""
        scheme = self.schemes[layer.key]
        if (layer.key, scheme) not in self.rounded:
            made = round_weights(layer.matrix, scheme)
            self.rounded[layer.key, scheme] = made if self.halves else made.widened()
        return self.rounded[layer.key, scheme]

    def rounded_error(self, lines: Sequence[str], golden: Golden, wanted: Answers) -> float:
        """Of the answers to some calls with the weights of some lines rounded."""
        instead = {
            layer.key: layer.placed(self.made(layer).floats())
            for where in lines
            for layer in self.layers[where]
        }
        found = answers_of(self.module, self.program.info, self.weights, golden, instead)
        return distance(found, wanted)

    def error(self, lines: Sequence[str] | None = None) -> float:
        """Of all answers with the weights of some lines rounded; of all lines without it."""
        chosen = list(self.layers) if lines is None else lines
        return self.rounded_error(chosen, self.golden, Answers(golden=self.golden))

    def compare(self) -> None:
        """Compare NumPy with the framework."""
        count = len(self.golden.calls)
        self.tell(f"computing {count} call{'' if count == 1 else 's'} of the program in NumPy")
        self.own = answers_of(self.module, self.program.info, self.weights, self.golden)
        refuse_other(self.own.golden, self.golden)

    def measure(self, seconds: float) -> None:
        """Compare each line alone with what NumPy gives of all; nothing where none is rounded."""
        if self.scheme is None or self.own is None:
            return
        self.shorten(seconds)
        for number, where in enumerate(self.layers):
            self.tell(f"rounding {where} alone ({number + 1} of {len(self.layers)})")
            self.alone[where] = self.again(where)

    def shorten(self, seconds: float) -> None:
        """Take no more calls than that each line alone, one after the other, takes so long."""
        own = self.own
        if own is None:
            return
        self.calls = calls_within(seconds / len(self.layers), own.seconds, self.golden)
        if self.calls < len(self.golden.calls):
            self.tell(f"computing the first {self.calls} of them")
            some = Golden(calls=self.golden.calls[: self.calls])
            self.own = answers_of(self.module, self.program.info, self.weights, some)

    def again(self, where: str) -> float:
        """A line's error alone, as its weights are kept now."""
        return self.together([where])

    def together(self, lines: Sequence[str]) -> float:
        """The error of some lines, against what NumPy gives of all as they are."""
        if self.own is None:
            raise ValueError("NumPy has not computed the program")
        return self.rounded_error(lines, self.own.golden, self.own)

    def promote(self) -> None:
        """Give lines that make most of the error of 4 bits 8 of them."""
        if self.scheme is None or self.scheme.bits != 4 or len(self.layers) < 3:
            return
        errors = {where: error or 0.0 for where, error in self.alone.items()}
        total = sum(error**2 for error in errors.values())
        for where, error in errors.items():
            if error**2 > _LARGE_SHARE * total:
                self.schemes |= {layer.key: Scheme(bits=8) for layer in self.layers[where]}
                self.alone[where] = self.again(where)
                self.promoted[where] = (
                    f"8 bits: at 4 it alone made an error of {error:.2%}, more than all others"
                )

    def refusal(self, most: float, error: float) -> WrongAnswer:
        """What to keep so that the answers, which are off by `error`, are within a bound."""
        if not any(self.alone.values()):
            self.measure(SECONDS)
        return refusal(f"weights of {self.how}", self.alone, most, error, self.error, self.tell)

    def written(self, weights_file: Path | None, choices: tuple[Choice, ...] = ()) -> Quantised:
        """The program with blocks, and its own answers."""
        from edgec.quantising.constants import bytes_of_constants

        self.tell("writing the program and computing its answers in NumPy")
        before = sum(array.nbytes for array in self.weights.values()) + bytes_of_constants(
            self.module
        )
        info, weights = self._put(weights_file)
        answers = answers_of(self.module, info, weights, self.golden)
        error = distance(Answers(golden=answers.golden), Answers(golden=self.golden))
        return Quantised(
            program=self._program(
                replace(info, loss=Loss(weights=self.how, error=error)),
                Golden(calls=without_slack(answers.golden.calls)),
            ),
            weights=weights,
            lines=tuple(
                sorted(map(self._line, self.layers), key=lambda line: -(line.error or 0.0))
            ),
            kept=tuple((each.where, each.what, each.reason) for each in self.kept),
            before=before,
            after=sum(array.nbytes for array in weights.values()) + bytes_of_constants(self.module),
            error=error,
            calls=self.calls,
            choices=choices,
        )

    def rewritten(self, weights_file: Path) -> tuple[Program, Mapping[str, _Array]]:
        """The program with blocks, whose answers nobody has computed, and its parameters."""
        info, weights = self._put(weights_file)
        return self._program(info, self.golden), weights

    def _put(self, weights_file: Path | None) -> tuple[ProgramInfo, Mapping[str, _Array]]:
        """Write blocks into the module; its description, and its parameters by name."""
        from iree.compiler import ir

        from edgec.quantising.rewriting import put_blocks
        from edgec.toolchain.ir.erase import erase_unused

        layers = [layer for each in self.layers.values() for layer in each]
        with self.module.context, ir.Location.unknown():
            info, added = put_blocks(
                self.module,
                self.program.info,
                {layer.key: (layer, self.made(layer)) for layer in layers},
            )
            erase_unused(self.module)
            self.module.operation.verify()
        gone = {layer.name for layer in layers}
        weights = {n: a for n, a in self.weights.items() if n not in gone} | added
        return _named(info, weights_file), weights

    def _program(self, info: ProgramInfo, golden: Golden) -> Program:
        from iree.compiler import ir

        from edgec.toolchain.program import PROGRAM_ATTRIBUTE

        with self.module.context, ir.Location.unknown():
            self.module.operation.attributes[PROGRAM_ATTRIBUTE] = ir.StringAttr.get(info.to_json())
            buffer = io.BytesIO()
            self.module.operation.write_bytecode(buffer)
        return Program(bytecode=to_portable(buffer.getvalue()), info=info, golden=golden)

    def _line(self, where: str) -> Line:
        layers = self.layers[where]
        sizes = list(dict.fromkeys(layer.what for layer in layers))
        many = f"{len(layers)} of " if len(layers) > 1 else ""
        return Line(
            where=where,
            what=f"{many}{sizes[0]}{' and others' if len(sizes) > 1 else ''}",
            schemes=tuple(dict.fromkeys(self.schemes[layer.key] for layer in layers)),
            before=sum(layer.numbers.nbytes for layer in layers),
            after=sum(self.made(layer).size for layer in layers),
            error=self.alone[where],
            promoted=self.promoted.get(where, ""),
            tried=self.tried.get(where, {}),
        )


def _reasons(kept: Iterable[tuple[str, str]]) -> str:
    """Why weights stay, each reason once, with the first that it is of."""
    of_reason: dict[str, list[str]] = {}
    for what, reason in kept:
        of_reason.setdefault(reason, []).append(what)
    return "; ".join(
        f"{whats[0]}{f' and {len(whats) - 1} more' if len(whats) > 1 else ''}: {reason}"
        for reason, whats in of_reason.items()
    )


def _named(info: ProgramInfo, weights_file: Path | None) -> ProgramInfo:
    """The description with the weights file's new name."""
    if info.weights is None or weights_file is None:
        return info
    return replace(info, weights=replace(info.weights, file=Path(weights_file).as_posix()))
