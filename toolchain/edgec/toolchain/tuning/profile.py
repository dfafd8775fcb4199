"""What tuning found, as one JSON file: the fastest settings, and everything that was tried."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from edgec.runtime.errors import ProfileError
from edgec.runtime.files import read_bytes, write_atomically
from edgec.toolchain.cache import key_of
from edgec.toolchain.program import Program
from edgec.toolchain.settings import Settings

__all__ = ["Outcome", "Profile", "Trial", "program_key"]

_KIND = "edgec tuning profile"
_SCHEMA = 2


class Outcome(Enum):
    """How a candidate fared."""

    FASTER = "faster"
    SLOWER = "not faster"
    WRONG = "wrong answers"
    REFUSED = "refused by the compiler"
    BROKEN = "failed while it ran"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One candidate that was tried.

    Attributes:
        name: what it changes.
        settings: how it was compiled.
        outcome: how it fared.
        ratio: its time by the time of the best so far, measured in turns; None if it never ran.
        seconds: a call's time; None if it never ran.
        reason: for those that failed, the first line of why.
    """

    name: str
    settings: Settings
    outcome: Outcome
    ratio: float | None = None
    seconds: float | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types; times in seconds."""
        return {
            "name": self.name,
            "settings": self.settings.to_json(),
            "outcome": self.outcome.value,
            "ratio": self.ratio,
            "seconds": self.seconds,
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Trial":
        """What `to_json` made."""
        return cls(
            name=str(value["name"]),
            settings=Settings.from_json(value["settings"]),
            outcome=Outcome(value["outcome"]),
            ratio=_number(value["ratio"]),
            seconds=_number(value["seconds"]),
            reason=str(value["reason"]),
        )


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The fastest settings known for one program on one target, and how they were found.

    Attributes:
        program: the program's name, for people.
        program_key: what it is (`program_key`).
        target: the target's name.
        device: what the driver calls the device that measured.
        machine: processor and system it was measured on.
        versions: of `edgec`, the `compiler`, and edgec's `passes`.
        function: what was called.
        winner: the fastest settings.
        before, after: seconds a call with the default settings and with the winner; the last of
            each, so their quotient is only near `gain`.
        gain: how many times faster the winner is than the default, measured in turns.
        trials: what was tried, in order.
        cut_times: seconds of one dispatch, by kernel and by cut or tile (JSON), the model's as "";
            infinite where it failed.
        spent: seconds of tuning, over all runs.
        finished: whether there was nothing left to try.
    """

    program: str
    program_key: str
    target: str
    device: str
    machine: str
    versions: Mapping[str, str]
    function: str
    winner: Settings
    before: float
    after: float
    gain: float
    trials: tuple[Trial, ...] = ()
    cut_times: Mapping[str, Mapping[str, float]]
    spent: float
    finished: bool = False

    def save(self, path: Path | str) -> None:
        """Write the file, whole or not at all.

        Raises:
            FileError: it cannot be written.
        """
        with write_atomically(Path(path)) as stream:
            stream.write((json.dumps(self.to_json(), indent=1) + "\n").encode())

    @classmethod
    def load(cls, path: Path | str) -> "Profile":
        """Read the file.

        Raises:
            FileError: it cannot be read.
            ProfileError: it is damaged, or no profile.
        """
        try:
            value = json.loads(read_bytes(Path(path)))
            if value["kind"] != _KIND:
                raise ValueError("it is another kind of file")
            if value["schema"] != _SCHEMA:
                raise ValueError(f"its schema is {value['schema']} and not {_SCHEMA}")
            return cls.from_json(value)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            missing = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise ProfileError(
                f"{path} is no tuning profile that can be read: {missing}",
                hint="make a new one with `edgec tune`",
            ) from error

    def refuse_other(self, key: str, name: str, target: str) -> None:
        """Check that the profile is of a program and of a target.

        Args:
            key: the program's `program_key`.
            name: the program's name.
            target: the target's name.

        Raises:
            ProfileError: it is of another.
        """
        if self.target != target:
            raise ProfileError(
                f"the profile of {self.program} was made for {self.target}, not for {target}",
                hint=f"run `edgec tune` with --target={target}",
            )
        if self.program_key != key:
            raise ProfileError(
                f"the profile was made for another program than {name}"
                + (" (one of the same name)" if self.program == name else f" ({self.program})"),
                hint="a program that was exported again may be another: run `edgec tune` for it",
            )

    def stale(self, versions: Mapping[str, str]) -> str:
        """What has another version now than when the profile was made; empty if nothing."""
        return ", ".join(
            f"{name} {self.versions.get(name, 'unknown')} → {version}"
            for name, version in versions.items()
            if self.versions.get(name) != version
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types; times in seconds."""
        return {
            "kind": _KIND,
            "schema": _SCHEMA,
            "program": self.program,
            "program_key": self.program_key,
            "target": self.target,
            "device": self.device,
            "machine": self.machine,
            "versions": dict(self.versions),
            "function": self.function,
            "winner": self.winner.to_json(),
            "before": self.before,
            "after": self.after,
            "gain": self.gain,
            "trials": [trial.to_json() for trial in self.trials],
            "cut_times": {
                key: {cut: t if math.isfinite(t) else None for cut, t in times.items()}
                for key, times in self.cut_times.items()
            },
            "spent": self.spent,
            "finished": self.finished,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Profile":
        """What `to_json` made.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is something else.
        """
        return cls(
            program=str(value["program"]),
            program_key=str(value["program_key"]),
            target=str(value["target"]),
            device=str(value["device"]),
            machine=str(value["machine"]),
            versions={str(k): str(v) for k, v in value["versions"].items()},
            function=str(value["function"]),
            winner=Settings.from_json(value["winner"]),
            before=float(value["before"]),
            after=float(value["after"]),
            gain=float(value["gain"]),
            trials=tuple(Trial.from_json(trial) for trial in value["trials"]),
            cut_times={
                str(key): {
                    str(cut): math.inf if t is None else float(t) for cut, t in times.items()
                }
                for key, times in value["cut_times"].items()
            },
            spent=float(value["spent"]),
            finished=bool(value["finished"]),
        )


def program_key(program: Program) -> str:
    """The same for the same program, wherever it lies."""
    return key_of("program", program.bytecode)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
