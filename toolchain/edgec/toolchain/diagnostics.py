"""What the compiler printed when it failed, to one error: the operation, its place, a next step."""

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from edgec.runtime.errors import CompileError, CompilerCrash, EdgecError
from edgec.runtime.files import FULL, no_space
from edgec.targets import Target
from edgec.toolchain.ir.places import is_edgecs, is_packages
from edgec.toolchain.process import Finished
from edgec.toolchain.refusals import KNOWN, LAPACK

__all__ = ["Message", "explain", "explain_lapack", "explain_unreadable", "messages", "shorten"]

_LINE = re.compile(
    r"^(?:loc\()?\"?(?P<file>[^\s\"][^\"]*?)\"?:(?P<line>\d+)(?::\d+)?\)?:? "
    r"(?P<severity>error|warning|note|remark): (?P<text>.*)$"
)
_BARE = re.compile(
    r"^(?:[\w./-]*iree-compile: |(?:[\w./-]*(?:lld|wasm-ld): )?error: )(?P<text>.*)$"
)
_LONG = 240
_ISSUES = "https://github.com/iree-org/iree/issues"


@dataclass(frozen=True, kw_only=True)
class Message:
    """One error with the calls that led to it, innermost first; a place is `file:line`."""

    text: str
    places: tuple[str, ...]


def explain(
    finished: Finished, target: Target, log: Path | None, program: Path | None = None
) -> EdgecError:
    """The one error for a failed compile.

    Args:
        finished: how the compiler ended.
        target: what it compiled for.
        log: the file that holds everything it printed.
        program: the file the user gave, which places without a file of their own lie in.
    """
    where = str(log) if log else None
    if finished.timed_out:
        return CompileError(
            f"compiling for {target.name} took longer than {finished.seconds:.0f} s and was ended",
            hint="give it more time, or try -O1",
            log=where,
        )
    if FULL in finished.stderr:  # whatever else it says follows from that
        return no_space(None)
    found = list(messages(finished.stderr, program))
    crash = _crash(finished, target, found, where)
    if crash is not None:
        return crash
    place = _best_place(found)
    for what, hint in _explanations(found, target):
        return CompileError(what, where=place, hint=hint, log=where)
    text = found[0].text if found else f"the compiler ended with exit status {finished.code}"
    return CompileError(
        f"the compiler refused the program for {target.name}: {shorten(text)}",
        where=place,
        hint="look at the log; another target or -O1 may take it",
        log=where,
    )


def explain_unreadable(data: bytes) -> CompileError | None:
    """Why a portable artifact cannot be read, where its own strings say so.

    JAX marks LAPACK calls and sharding with attributes of a dialect (sdy) that the compiler's
    reader does not know; its message does not name the call.
    """
    called = {name.decode() for name in re.findall(rb"lapack_[a-z]\w+?_ffi", data)}
    for routine in LAPACK:
        for name in sorted(called):
            if routine in name:
                what, hint = explain_lapack(name)
                return CompileError(what, hint=hint)
    if b"sdy" not in data:
        return None
    sharding = next(refusal for refusal in KNOWN if "'sdy'" in refusal.pattern.pattern)
    return CompileError(sharding.what, hint=sharding.hint)


def messages(text: str, program: Path | None = None) -> Iterator[Message]:
    """The errors in what the compiler printed, each with its `called from` places."""
    current: Message | None = None
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            bare = _BARE.match(line)
            if bare:
                if current is not None:
                    yield current
                current = Message(text=bare["text"], places=())
            continue
        place = _place(found["file"], int(found["line"]), program)
        if found["severity"] == "error":
            if current is not None:
                yield current
            current = Message(text=found["text"], places=(place,) if place else ())
        elif current is not None and found["text"].startswith("called from") and place:
            current = replace(current, places=(*current.places, place))
        elif current is not None and found["text"].startswith("see current operation"):
            current = replace(current, text=f"{current.text} {found['text']}")
    if current is not None:
        yield current


def _place(file: str, line: int, program: Path | None) -> str | None:
    if file in ("-", "<stdin>"):
        return f"{program}:{line}" if program else None
    if file.startswith("<unknown") or line == 0:
        return None
    return f"{file}:{line}"


def _best_place(found: list[Message]) -> str | None:
    """The innermost place that is not inside a framework, else the innermost; never edgec's own."""
    places = [place for message in found for place in message.places]
    rest = [place for place in places if not is_edgecs(place.rpartition(":")[0])]
    own = [place for place in rest if not is_packages(place)]
    if not own and len(rest) < len(places):
        return None  # edgec itself traced a file, which has no lines
    return next(iter(own or rest), None)


def _explanations(found: list[Message], target: Target) -> Iterator[tuple[str, str]]:
    """What is known about these messages, the best first."""
    for message in found:
        name = re.search(r"lapack_[a-z]\w+?_ffi", message.text)
        if name:
            yield explain_lapack(name[0])
    for refusal in KNOWN:
        for message in found:
            match = refusal.pattern.search(message.text)
            if match:
                groups = {key: value for key, value in match.groupdict().items() if value}
                groups.setdefault("name", groups.get("other", "the operation"))
                yield (
                    refusal.what.format(target=target.name, **groups),
                    refusal.hint.format(target=target.name, **groups),
                )


def explain_lapack(name: str) -> tuple[str, str]:
    """What a call of JAX into LAPACK (`lapack_spotrf_ffi`) is for, and what to do without it."""
    routine = re.sub(r"^lapack_[a-z](\w+?)_ffi$", r"\1", name)
    title, call = LAPACK.get(routine, ("linear algebra routine", "jnp.linalg"))
    article = "an" if title[0] in "aeiou" else "a"
    return (
        f"the model needs {article} {title} ({call}), which JAX leaves to LAPACK ({name})",
        "compute it outside the model and give the result as an input, "
        "or write it with matrix products and loops",
    )


def _crash(
    finished: Finished, target: Target, found: list[Message], log: str | None
) -> CompilerCrash | None:
    """The error for a compiler that died instead of refusing."""
    number = -finished.code if finished.code < 0 else finished.code - 128
    died = finished.code < 0 or 128 < finished.code < 160
    dumped = "Please report issues to" in finished.stderr or "Stack dump:" in finished.stderr
    if not died and not dumped:
        return None
    if number == signal.SIGKILL or re.search(r"bad_alloc|out of memory", finished.stderr):
        return CompilerCrash(
            f"the compiler was killed while compiling for {target.name}, most likely for memory",
            hint="close other programs, keep the weights outside (--external-weights), or use a "
            "machine with more memory",
            log=log,
        )
    try:
        how = signal.Signals(number).name if died else "an internal error"
    except ValueError:
        how = f"exit status {finished.code}"
    said = re.search(r"(?:Assertion|LLVM ERROR:|UNREACHABLE).*", finished.stderr)
    detail = said[0] if said else found[0].text if found else ""
    return CompilerCrash(
        f"the compiler died of {how} while compiling for {target.name}"
        + (f": {shorten(detail)}" if detail else ""),
        where=_best_place(found),
        hint=f"try -O1 or another target; it is a fault of the compiler, worth a report with the "
        f"log at {_ISSUES}",
        log=log,
    )


def shorten(text: str) -> str:
    """One readable line of a message that may hold a whole operation."""
    text = re.sub(r"\s+", " ", text.partition(" see current operation")[0])
    text = re.sub(r"(explicitly marked illegal)?: %.*", "", text).strip()
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"
