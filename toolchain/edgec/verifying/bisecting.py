"""A wrong program to what makes it wrong: a pass, a flag or a runtime, and the least that shows it.

What edgec may leave out is left out by halves, until one thing is left without which the answers
are right. Then the program is cut by halves from its end and from its beginning, as long as what is
left is still wrong. Each step is a compile and a call.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgec.runtime.comparison import compare_call
from edgec.runtime.errors import CompileError, DeviceError, EdgecError, ProgramError
from edgec.runtime.files import write_atomically
from edgec.runtime.golden import Golden
from edgec.runtime.tolerance import Tolerance
from edgec.toolchain.compiling import CompileOptions, compile_with_report, run_passes
from edgec.toolchain.passes import ESSENTIAL
from edgec.toolchain.program import Program
from edgec.verifying.looking import Ask
from edgec.verifying.outputs import Verdict
from edgec.verifying.reducing import Part, Parts
from edgec.verifying.reference import numbered, refer
from edgec.verifying.subject import Subject

__all__ = ["Bisected", "Cause", "bisect", "write_part"]


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What the answers are right without.

    Attributes:
        kind: `pass`, `flag` or `runtime`; empty where nothing was found.
        names: of passes and flags those that have to be left out or given together.
        flags: what to give `edgec compile` or `edgec verify` to be right.
    """

    kind: str
    names: tuple[str, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Bisected:
    """What came of it.

    Attributes:
        call: the golden call that is wrong.
        cause: what makes it so.
        part: the smallest part of the program that is wrong alone; None where none is.
        problem: how the part's answer is off.
        tries: how many compiles that took.
    """

    call: int
    cause: Cause
    part: Part | None
    problem: str
    tries: int


def bisect(
    subject: Subject,
    verdict: Verdict,
    *,
    target: str,
    options: CompileOptions,
    ask: Ask,
    others: Sequence[tuple[str, Ask]] = (),
    suspect: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Bisected:
    """Find what makes a program wrong.

    Args:
        subject: a program that was compiled, with golden answers.
        verdict: on its answers: the first call that is wrong is looked at.
        target: what it is compiled for.
        options: how; `output` is written over again and again.
        ask: makes calls of a module on the device in question.
        others: the same on other runtimes of the device, by name.
        suspect: the operation where it is thought to be wrong first.
        tell: is told what is tried.

    Raises:
        ProgramError: the subject is no program, or one that NumPy does not know.
        EdgecError: the program cannot be compiled, or the device failed.
    """
    program, golden = subject.program, subject.calls
    if program is None or not isinstance(golden, Golden):
        raise ProgramError(
            "what makes a module wrong is found in its program, which is compiled again and again",
            hint="give the program (.mlirbc) that the module was compiled of",
        )
    work = _Bisecting(program, golden, verdict.first_wrong, target, options, ask, tell)
    cause = work.passes() or work.flags() or work.runtimes(others)
    part, problem = work.least(suspect)
    return Bisected(
        call=work.call,
        cause=cause or Cause(kind="", names=(), flags=()),
        part=part,
        problem=problem,
        tries=work.tries,
    )


class _Bisecting:
    """One program, and how often it was tried."""

    def __init__(
        self,
        program: Program,
        golden: Golden,
        call: int,
        target: str,
        options: CompileOptions,
        ask: Ask,
        tell: Callable[[str], None],
    ) -> None:
        self.program, self.golden, self.call = program, golden, call
        self.target, self.options, self.ask, self.tell = target, options, ask, tell
        self.tries = 0

    def problem(
        self,
        program: Program,
        golden: Golden,
        call: int,
        options: CompileOptions,
        ask: Ask | None = None,
    ) -> str:
        """What is wrong with the answers of a program compiled so; empty for nothing.

        Raises:
            CompileError: it cannot be compiled so.
            DeviceError: it dies.
        """
        self.tries += 1
        made = compile_with_report(program, self.target, options)
        asked = [(each.signature, each.inputs) for each in golden.calls[: call + 1]]
        answers = (ask or self.ask)(made.module, asked)
        tolerance: Tolerance | None = made.report.tolerance
        found = compare_call(golden.calls[call], answers[call], tolerance)
        return next((each.problem for each in found if not each.ok), "")

    def right(self, options: CompileOptions) -> bool:
        """Whether the whole program is right, compiled so; one that is refused is not."""
        try:
            return not self.problem(self.program, self.golden, self.call, options)
        except (CompileError, DeviceError, ProgramError):
            return False

    def passes(self) -> Cause | None:
        """The passes without which it is right."""
        changes = run_passes(self.program, self.target, self.options).changes
        names = [name for name, count in changes.items() if count and name not in ESSENTIAL]
        self.tell(f"leaving out {len(names)} passes that change the program, by halves")
        if not names or not self.right(self._without(names)):
            return None
        names = self._fewest(names, lambda some: self.right(self._without(some)))
        return Cause(
            kind="pass",
            names=tuple(names),
            flags=tuple(f"--disable-pass={name}" for name in names),
        )

    def _without(self, names: Sequence[str]) -> CompileOptions:
        return replace(self.options, disabled=(*self.options.disabled, *names))

    def _fewest(self, names: list[str], is_right: Callable[[list[str]], bool]) -> list[str]:
        """The fewest that suffice: half of them, as long as one half does, then one by one."""
        while len(names) > 1:
            half = len(names) // 2
            for some in (names[half:], names[:half]):  # the later one is nearer to the fault
                if is_right(some):
                    self.tell(f"right without {', '.join(some)}")
                    names = some
                    break
            else:
                break
        if len(names) > 1:
            for name in list(names):
                fewer = [each for each in names if each != name]
                if fewer and is_right(fewer):
                    names = fewer
        return names

    def flags(self) -> Cause | None:
        """The compiler's flags with which it is right."""
        tries: list[tuple[str, CompileOptions]] = [
            (f"-O{level}", replace(self.options, level=level))
            for level in reversed(range(self.options.settings.level))
        ]
        tiling = "--iree-opt-data-tiling=false"
        more = (*self.options.iree_args, tiling)
        tries.insert(0, (f"--iree-arg={tiling}", replace(self.options, iree_args=more)))
        for flag, options in tries:
            self.tell(f"trying {flag}")
            if self.right(options):
                return Cause(kind="flag", names=(flag,), flags=(flag,))
        return None

    def runtimes(self, others: Sequence[tuple[str, Ask]]) -> Cause | None:
        """The runtime on which it is right."""
        for name, ask in others:
            self.tell(f"trying {name}")
            try:
                wrong = self.problem(self.program, self.golden, self.call, self.options, ask)
            except EdgecError:
                continue
            if not wrong:
                return Cause(kind="runtime", names=(name,), flags=(f"--device={name}",))
        return None

    def least(self, suspect: int | None) -> tuple[Part | None, str]:
        """The smallest part that is still wrong, and how."""
        numbers = numbered(self.program)
        reference = refer(numbers, self.golden, self.call)
        parts = Parts(numbers, reference, self.golden, self.call)
        ends = [place for place in range(len(parts)) if parts.is_end(place)]
        if not ends:
            return None, ""
        known: dict[tuple[int, int], tuple[Part, str]] = {}

        def wrong(first: int, last: int) -> bool:
            part = parts.part(first, last)
            self.tell(f"trying {part.count} operations")
            try:
                problem = self.problem(part.program, part.golden, 0, self.options)
            except (CompileError, DeviceError, ProgramError):
                return False
            if problem:
                known[first, last] = (part, problem)
            return bool(problem)

        last = len(ends) - 1
        if suspect is not None and parts.is_end(place := parts.place_of(suspect)):
            guess = ends.index(place)
            last = guess if wrong(0, place) else last
        if (0, ends[last]) not in known and not wrong(0, ends[last]):
            return None, ""
        last = _least(0, last, lambda each: wrong(0, ends[each]))
        end = ends[last]
        first = last - _least(0, last, lambda each: wrong(ends[last - each], end))
        start = ends[first] if (ends[first], end) in known else 0
        part, problem = known[start, end]
        return part, problem


def _least(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The least number from `low` to `high` that holds, where `high` does and none less may."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high


def write_part(part: Part, path: Path | str) -> Path:
    """Write a part as MLIR text, with its inputs and answers beside it; where these are.

    Raises:
        FileError: a file cannot be written.
    """
    path = Path(path)
    comment = "".join(f"// from {line}\n" for line in part.lines)
    with write_atomically(path) as stream:
        stream.write((comment + part.text).encode())
    beside = Golden.path_for(path)
    part.golden.save(beside)
    return beside
