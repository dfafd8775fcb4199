"""A program to one whose convolutions and products multiply bytes, and what that costs its answers.

Ranges of values are those of some calls, computed in NumPy: the golden ones, or what a user gives.
Tables that rows are looked up in become bytes as `quantise` keeps them.
Each line's error alone, and the answers of the new program, are as `quantise` has them.
"""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from edgec.quantising.keeping import is_named, refusal
from edgec.quantising.quantise import CALLS, SECONDS, Line, Quantised
from edgec.quantising.ranges import ByteRange, Seen
from edgec.quantising.rounding import round_weights, upright
from edgec.quantising.scheme import Scheme
from edgec.runtime.conditioning import apart, unsettled
from edgec.runtime.errors import ProgramError, UsageError
from edgec.runtime.golden import Golden, GoldenCall
from edgec.toolchain.blocked_weights import BlockedWeights
from edgec.toolchain.computed import answered, refuse_other, weights_of
from edgec.toolchain.portable import to_portable
from edgec.toolchain.program import Input, Loss, Program

__all__ = ["quantise_to_bytes"]

_Array = np.ndarray[Any, np.dtype[Any]]
_HOW = "int8, activations of int8"
_EIGHT = Scheme(bits=8)
_MOVED = 1e-6
"""Of a scale: what sums of f32 are off by."""


def quantise_to_bytes(
    program: Program,
    *,
    keep: Sequence[str] = (),
    max_error: float = math.inf,
    calibrate: Sequence[GoldenCall] = (),
    calls: int = CALLS,
    seconds: float = SECONDS,
    tell: Callable[[str], None] = lambda _: None,
) -> Quantised:
    """Compute convolutions and products by constant weights in bytes, and keep tables in bytes.

    Args:
        program: with golden answers, its weights inside.
        keep: lines that stay as they are; the end of a line's place will do.
        max_error: how far the answers may be off.
        calibrate: calls whose values say what bytes stand for, their outputs of no matter; the
            golden calls without it.
        calls: how many golden calls, from the first on, the answers are compared of.
        seconds: what all lines alone may take, each on as many of the calls as that allows.
        tell: is told what is at work.

    Raises:
        UsageError: there is nothing to compute in bytes, or `keep` names nothing.
        WrongAnswer: the answers would be off by more than `max_error`; it says what to keep.
        ProgramError: NumPy does not know the program, or computes something else.
    """
    work = _Work(program, measurable(program, calls), keep, tell)
    work.calibrate(calibrate)
    work.measure(seconds)
    if max_error < math.inf and (error := work.error(list(work.lines))) > max_error:
        raise refusal(f"weights of {_HOW}", work.alone, max_error, error, work.error, tell)
    return work.written()


@dataclass(frozen=True, kw_only=True)
class _Opened:
    """A program's code with its calls inlined.

    Attributes:
        module: the code.
        sites: what can multiply bytes, in order.
        tables: constants that rows are looked up in, in order.
        kept: what stays as it is.
    """

    module: Any
    sites: Sequence[Any]
    tables: Sequence[Any]
    kept: Sequence[Any]


@dataclass(kw_only=True)
class _Members:
    """What stands in a line: numbers of sites, and places among the tables."""

    sites: list[int] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class _Written:
    """The program with some lines in bytes, and what the weights of its sites take, by number."""

    module: Any
    sizes: Mapping[int, int]


class _Work:
    """One program on its way."""

    def __init__(
        self, program: Program, golden: Golden, keep: Sequence[str], tell: Callable[[str], None]
    ) -> None:
        self.program, self.golden, self.tell = program, golden, tell
        self.weights = weights_of(program)
        opened = _opened(program)
        self.module, self.tables, self.kept = opened.module, opened.tables, list(opened.kept)
        self.rounded: dict[int, BlockedWeights] = {}
        known = [each.where for each in (*opened.sites, *opened.tables)]
        unknown = [each for each in keep if not any(is_named(name, "", each) for name in known)]
        if unknown:
            raise UsageError(
                f"no convolution or product by weights, and no table, is at {unknown[0]}",
                hint="name a line as the table does (model.py:12)",
            )
        self.lines: dict[str, _Members] = {}
        self.sites = {site.number: site for site in opened.sites}
        for site in opened.sites:
            if self._is_rounded(site, keep):
                self.lines.setdefault(site.where, _Members()).sites.append(site.number)
        for place, table in enumerate(opened.tables):
            if self._is_rounded(table, keep):
                self.lines.setdefault(table.where, _Members()).tables.append(place)
        if not any(line.sites for line in self.lines.values()):
            reasons = "; ".join(dict.fromkeys(f"{k.what}: {k.reason}" for k in self.kept))
            raise UsageError(
                f"{program.path or program.name} has nothing that is computed in bytes",
                hint=reasons or "convolutions and products by weights in the program are",
            )
        self.ranges: dict[int, ByteRange] = {}
        self.alone: dict[str, float | None] = {}
        self.calls = len(golden.calls)

    def _is_rounded(self, found: Any, keep: Sequence[str]) -> bool:
        """Whether a site or a table becomes bytes; what is to stay is told among what does."""
        from edgec.quantising.layers import Kept

        if not any(is_named(found.where, "", each) for each in keep):
            return True
        self.kept.append(Kept(where=found.where, what=found.what, reason="as asked"))
        return False

    def calibrate(self, given: Sequence[GoldenCall]) -> None:
        """See what values the sites read in some calls.

        Raises:
            ProgramError: a site's value is computed in none of them.
        """
        calls = Golden(calls=tuple(given) or self.golden.calls)
        self.tell(f"computing {len(calls.calls)} calls to see what values there are")
        seen = Seen()
        wanted: dict[Any, set[Any]] = {}
        for site in self.sites.values():
            wanted.setdefault(site.value, set()).add(site.layer)

        def see(_: int, op: Any, results: Sequence[_Array]) -> None:
            for value, array in zip(op.results, results, strict=True):
                for layer in wanted.get(value, ()):
                    seen.add(layer, array)

        answered(self.module, self.program.info, self.weights, calls, seen=see)
        for value, (name, index) in _inputs(self.module, self.program).items():
            for call in calls.calls:
                for layer in wanted.get(value, ()) if call.signature == name else ():
                    seen.add(layer, call.inputs[index])
        found = seen.ranges()
        for where in list(self.lines):
            for number in self.lines[where].sites:
                layer = self.sites[number].layer
                if layer not in found:
                    raise ProgramError(
                        f"{where} reads a value that no call computes, so that nothing says what "
                        "its bytes stand for",
                        hint=f"--keep={where.rpartition('/')[2]}, or more calls to calibrate with",
                    )
                self.ranges[number] = found[layer]

    def table(self, place: int) -> BlockedWeights:
        """What a table becomes."""
        if place not in self.rounded:
            self.rounded[place] = upright(round_weights(self.tables[place].matrix, _EIGHT))
        return self.rounded[place]

    def put(self, lines: Sequence[str], *, moved: float = 0.0) -> _Written:
        """The program with some lines in bytes; scales of values moved by a part of themselves."""
        from iree.compiler import ir

        from edgec.quantising.byte_rewriting import put_bytes
        from edgec.quantising.rewriting import put_blocks

        opened = _opened(self.program)
        numbers = {number for where in lines for number in self.lines[where].sites}
        places = [place for where in lines for place in self.lines[where].tables]
        sites = [site for site in opened.sites if site.number in numbers]
        ranges = {site.value: self.ranges[site.number].scaled(1 + moved) for site in sites}
        tables = [opened.tables[place] for place in places]
        sizes = put_bytes(sites, ranges, tables)
        blocks = {opened.tables[n].key: (opened.tables[n], self.table(n)) for n in places}
        with opened.module.context, ir.Location.unknown():
            put_blocks(opened.module, self.program.info, blocks)
        return _Written(module=opened.module, sizes=sizes)

    def answers(self, lines: Sequence[str], golden: Golden) -> Answers:
        """What the program gives with some lines in bytes."""
        module = self.put(lines).module
        return answers_of(module, self.program.info, self.weights, golden)

    def error(self, lines: Sequence[str]) -> float:
        """Of all answers with some lines in bytes."""
        return distance(self.answers(lines, self.golden), Answers(golden=self.golden))

    def measure(self, seconds: float) -> None:
        """Compare NumPy with the framework, and each line alone with both."""
        self.tell(f"computing {len(self.golden.calls)} calls of the program in NumPy")
        own = answers_of(self.module, self.program.info, self.weights, self.golden)
        refuse_other(own.golden, self.golden)
        self.calls = calls_within(seconds / len(self.lines), own.seconds, self.golden)
        some = Golden(calls=self.golden.calls[: self.calls])
        wanted = own
        if self.calls < len(self.golden.calls):
            wanted = answers_of(self.module, self.program.info, self.weights, some)
        for number, where in enumerate(self.lines):
            self.tell(f"rounding {where} alone ({number + 1} of {len(self.lines)})")
            self.alone[where] = distance(self.answers([where], some), wanted)

    def written(self) -> Quantised:
        """The program with all lines in bytes, and its own answers."""
        from iree.compiler import ir

        from edgec.quantising.constants import bytes_of_constants
        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.program import PROGRAM_ATTRIBUTE

        self.tell("writing the program and computing its answers in NumPy")
        made = self.put(list(self.lines))
        module = made.module
        with module.context, ir.Location.unknown():
            erase_unused(module)
            module.operation.verify()
            own = answers_of(module, self.program.info, self.weights, self.golden)
            error = distance(own, Answers(golden=self.golden))
            info = replace(self.program.info, loss=Loss(weights=_HOW, error=error))
            module.operation.attributes[PROGRAM_ATTRIBUTE] = ir.StringAttr.get(info.to_json())
            buffer = io.BytesIO()
            module.operation.write_bytecode(buffer)
        outside = sum(array.nbytes for array in self.weights.values())
        return Quantised(
            program=Program(
                bytecode=to_portable(buffer.getvalue()),
                info=info,
                golden=self._settled(own.golden),
            ),
            weights=self.weights,
            lines=tuple(
                sorted(
                    (self._line(where, made.sizes) for where in self.lines),
                    key=lambda line: -(line.error or 0.0),
                )
            ),
            kept=tuple((each.where, each.what, each.reason) for each in self.kept),
            before=outside + bytes_of_constants(self.module),
            after=outside + bytes_of_constants(module),
            error=error,
            calls=self.calls,
        )

    def _settled(self, own: Golden) -> Golden:
        """Answers with how far they are settled: values that lie between two bytes become either.

        Devices round sums of f32 in ways of their own, and a value half-way between two bytes falls
        to another side. Scales that are moved by as little show what that makes of the answers.
        """
        self.tell("computing how far the answers are settled")
        others = []
        for moved in (-_MOVED, _MOVED):
            module = self.put(list(self.lines), moved=moved).module
            found = answers_of(module, self.program.info, self.weights, self.golden)
            others.append(found.golden.calls)
        calls = []
        for call, *rest in zip(without_slack(own.calls), *others, strict=True):
            pairs = [
                (answer, [other.outputs[number] for other in rest])
                for number, answer in enumerate(call.outputs)
            ]
            within = tuple(apart(answer, found) for answer, found in pairs)
            masks = tuple(unsettled(answer, found) for answer, found in pairs)
            calls.append(
                replace(
                    call,
                    within=within if any(within) else (),
                    open=masks if any(mask.any() for mask in masks) else (),
                )
            )
        return Golden(calls=tuple(calls))

    def _line(self, where: str, sizes: Mapping[int, int]) -> Line:
        sites = [self.sites[number] for number in self.lines[where].sites]
        tables = self.lines[where].tables
        all_ = [*sites, *(self.tables[place] for place in tables)]
        shapes = list(dict.fromkeys(each.what for each in all_))
        many = f"{len(all_)} of " if len(all_) > 1 else ""
        own = [site.weights.nbytes for site in sites if sizes[site.number]]
        return Line(
            where=where,
            what=f"{many}{shapes[0]}{' and others' if len(shapes) > 1 else ''}",
            schemes=(_EIGHT,),
            before=sum(own) + sum(self.tables[place].numbers.nbytes for place in tables),
            after=sum(sizes[site.number] for site in sites)
            + sum(self.table(place).size for place in tables),
            error=self.alone[where],
            activations=str(_EIGHT) if sites else "",
        )


def _opened(program: Program) -> _Opened:
    from iree.compiler import ir

    from edgec.quantising.layers import Kept, find_layers
    from edgec.quantising.sites import find_sites
    from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
    from edgec.toolchain.stablehlo import parse_stablehlo

    module = parse_stablehlo(program.bytecode, ir.Context())
    InlineCalls().run(module)
    sites, kept = find_sites(module)
    layers, others = find_layers(module, program.info, weights_of(program))
    looked_up = [layer for layer in layers if layer.looked_up]
    reason = "weights that are no constants: bytes on both sides are for those in the program"
    kept += [each for each in others if each.looked_up]
    kept += [Kept(where=t.where, what=t.what, reason=reason) for t in looked_up if t.name]
    return _Opened(
        module=module,
        sites=sites,
        tables=[table for table in looked_up if not table.name],
        kept=kept,
    )


def _inputs(module: Any, program: Program) -> dict[Any, tuple[str, int]]:
    """The arguments that a caller gives: of which function, and which of its inputs."""
    from edgec.toolchain.ir.functions import entry_block, functions

    bodies = functions(module)
    return {
        argument: (function.signature.name, role.index)
        for function in program.info.functions
        for argument, role in zip(
            entry_block(bodies[function.signature.name]).arguments, function.arguments, strict=True
        )
        if isinstance(role, Input)
    }
