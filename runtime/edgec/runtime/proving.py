"""A loaded module proves itself: its own golden calls, on the device it is on, judged and kept.

What came of it can be kept in a file by module, device and driver version, so that it costs one
call after an update and nothing else.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.runtime.errors import ModuleError, WrongAnswer
from edgec.runtime.files import read_bytes, write_atomically
from edgec.runtime.seeded_calls import SeededCalls

if TYPE_CHECKING:
    from edgec.runtime.loaded import LoadedModule

__all__ = ["Proof", "prove"]

_RIGHT = "right"
_MOST = 64
"""Verdicts that a file keeps."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What a module that gave right answers proved.

    Attributes:
        device: what the device calls itself.
        source: who computed the answers that it was compared with.
        calls: how many calls were made; 0 where the verdict was kept.
        outputs: how many outputs they gave.
        share: the largest part of what an answer may be off by that was needed, 0 to 1.
        kept: whether the verdict is one from before.
    """

    device: str
    source: str
    calls: int
    outputs: int
    share: float
    kept: bool

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "device": self.device,
            "source": self.source,
            "calls": self.calls,
            "outputs": self.outputs,
            "share": self.share,
            "kept": self.kept,
        }

    def __str__(self) -> str:
        if self.kept:
            return f"proved on {self.device} before"
        return (
            f"proved on {self.device}: {self.calls} calls, {self.outputs} outputs, "
            f"{self.share:.1%} of what rounding may do"
        )


def prove(loaded: "LoadedModule", verdicts: Path | str | None = None) -> Proof:
    """Make the golden calls that a module brings, and compare; fresh state before and after.

    Args:
        loaded: the module, on a device.
        verdicts: a file to keep what came of it in, by module, device and driver version; a call
            with the same three makes no calls again.

    Raises:
        WrongAnswer: an answer is off; it says which, and by how much.
        ModuleError: the module brings no golden calls, or damaged ones.
        FileError: the file of verdicts cannot be read or written.
        DeviceError: the device failed.
    """
    module = loaded.module
    if not module.golden:
        raise ModuleError(
            f"{module.path} brings no golden calls",
            hint="compile it with --embed-golden, or package it",
        )
    calls = _read(loaded)
    device = loaded.device
    key = _key(loaded)
    kept = _Verdicts.read(verdicts)
    found = kept.of(key)
    if found is None:
        problem, outputs, share = _calls(loaded, calls)
        kept.add(key, problem)
    else:
        problem, outputs, share = found, 0, 0.0
    if problem:
        before = "" if found is None else " (found before, and kept)"
        raise WrongAnswer(
            f"{module.path} computes wrong answers on {device.name}: {problem}{before}",
            hint="use another variant or device, and report the driver's version",
        )
    return Proof(
        device=device.name,
        source=calls.source,
        calls=0 if found is not None else len(calls.calls),
        outputs=outputs,
        share=share,
        kept=found is not None,
    )


def _read(loaded: "LoadedModule") -> SeededCalls:
    module = loaded.module
    try:
        calls = SeededCalls.read(module.golden)
    except ModuleError as error:
        raise ModuleError(f"{module.path}: {error.what}", hint=error.hint) from None
    for call in calls.calls:
        signature = loaded.signatures.get(call.function)
        if (
            signature is None
            or [s.dtype for s in signature.inputs] != [i.dtype for i in call.inputs]
            or [s.dtype for s in signature.outputs] != [o.dtype for o in call.outputs]
        ):
            raise ModuleError(
                f"{module.path}: its golden calls are of another module",
                hint="compile the program again",
            )
    return calls


def _calls(loaded: "LoadedModule", calls: SeededCalls) -> tuple[str, int, float]:
    """What is wrong, how many outputs were looked at, and the share that was needed."""
    outputs, share = 0, 0.0
    if calls.is_stateful:
        loaded.reset()
    try:
        for call in calls.calls:
            function = loaded[call.function]
            results = function.call_flat([given.array() for given in call.inputs])
            specs = function.signature.outputs
            for spec, known, result in zip(specs, call.outputs, results, strict=True):
                judged = known.judge(result.numpy())
                if judged.problem:
                    return f"{spec.name} of {call.function}: {judged.problem}", outputs, share
                outputs += 1
                share = max(share, judged.share)
    finally:
        if calls.is_stateful:
            loaded.reset()
    return "", outputs, share


def _key(loaded: "LoadedModule") -> str:
    device = loaded.device
    words = (loaded.module.digest, device.name, device.runtime, device.identity)
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


class _Verdicts:
    """A file with a line a verdict: its key, and what is wrong, or `right`."""

    def __init__(self, path: Path | None, lines: dict[str, str]) -> None:
        self._path = path
        self._lines = lines

    @classmethod
    def read(cls, path: Path | str | None) -> "_Verdicts":
        """The file, if there is one; what is damaged in it was never found out."""
        if path is None:
            return cls(None, {})
        path = Path(path)
        text = read_bytes(path).decode(errors="replace") if path.exists() else ""
        pairs = (line.partition(" ") for line in text.splitlines())
        return cls(path, {key: said for key, _, said in pairs if len(key) == 16 and said})

    def of(self, key: str) -> str | None:
        """What is wrong, empty for nothing; None where nobody knows."""
        found = self._lines.get(key)
        return "" if found == _RIGHT else found

    def add(self, key: str, problem: str) -> None:
        """Keep a verdict.

        Raises:
            FileError: the file cannot be written.
        """
        if self._path is None:
            return
        self._lines[key] = " ".join(problem.split()) or _RIGHT
        lines = [f"{known} {said}\n" for known, said in self._lines.items()][-_MOST:]
        with write_atomically(self._path) as stream:
            stream.write("".join(lines).encode())
