"""Answers of a module to a verdict: each output's distance from what it should be, and whether
that is allowed.

What is allowed is `edgec.runtime.comparison`'s to say, as in every other check; the statistics
beside it only describe.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgec.runtime.closeness import Closeness, closeness
from edgec.runtime.comparison import Comparison, compare_call
from edgec.runtime.errors import DeviceError, WrongAnswer
from edgec.runtime.golden import Golden
from edgec.runtime.sampled_output import SampledOutput
from edgec.runtime.signature import TensorSpec
from edgec.verifying.subject import Subject

__all__ = ["Verdict", "VerifiedCall", "VerifiedOutput", "judged"]


@dataclass(frozen=True, kw_only=True)
class VerifiedOutput:
    """One output of one call.

    Attributes:
        name: the output's.
        ok: whether it is within what is allowed.
        problem: what is wrong, as the end of a sentence; empty where nothing is.
        worst: the largest difference.
        closeness: how close it is as a whole; None where there is nothing to compare.
        compared: how many numbers were compared.
        comparison: number by number, where all answers are known.
    """

    name: str
    ok: bool
    problem: str
    worst: float
    closeness: Closeness | None
    compared: int
    comparison: Comparison | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        value: dict[str, Any] = {} if self.comparison is None else self.comparison.to_json()
        near = {} if self.closeness is None else self.closeness.to_json()
        return value | {
            "name": self.name,
            "ok": self.ok,
            "problem": self.problem,
            "max_abs": self.worst,
            "compared": self.compared,
            **near,
        }


@dataclass(frozen=True, kw_only=True)
class VerifiedCall:
    """One call: the function and its outputs."""

    function: str
    outputs: tuple[VerifiedOutput, ...]

    @property
    def ok(self) -> bool:
        """Whether every output is right."""
        return all(output.ok for output in self.outputs)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"function": self.function, "outputs": [each.to_json() for each in self.outputs]}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What all calls came to."""

    calls: tuple[VerifiedCall, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether every output of every call is right."""
        return all(call.ok for call in self.calls)

    @property
    def first_wrong(self) -> int:
        """The first call with a wrong output; the first of all where there is none."""
        return next((number for number, call in enumerate(self.calls) if not call.ok), 0)

    def failure(self, subject: str) -> WrongAnswer | None:
        """The error for outputs that are off, naming the first; None where all are right."""
        for number, call in enumerate(self.calls):
            for output in call.outputs:
                if not output.ok:
                    which = f" (call {number + 1})" if len(self.calls) > 1 else ""
                    return WrongAnswer(
                        f"{subject} gives a wrong {output.name} of {call.function}{which}: "
                        f"{output.problem}",
                        hint="`edgec verify PROGRAM --layers` names the first line that is wrong",
                    )
        return None


def judged(subject: Subject, answers: Sequence[Sequence[np.ndarray]]) -> Verdict:
    """Compare the answers to a subject's calls, in their order.

    Raises:
        DeviceError: a call gave another number of outputs.
    """
    calls = []
    for number, given in enumerate(answers):
        if isinstance(subject.calls, Golden):
            call = subject.calls.calls[number]
            _refuse_count(call.signature, len(given), len(call.outputs))
            found = compare_call(call, given, subject.tolerance)
            outputs = tuple(
                _known(spec, comparison, answer, expected)
                for spec, comparison, answer, expected in zip(
                    subject.module.signatures[call.signature].outputs,
                    found,
                    given,
                    call.outputs,
                    strict=True,
                )
            )
            calls.append(VerifiedCall(function=call.signature, outputs=outputs))
            continue
        seeded = subject.calls.calls[number]
        _refuse_count(seeded.function, len(given), len(seeded.outputs))
        specs = subject.module.signatures[seeded.function].outputs
        calls.append(
            VerifiedCall(
                function=seeded.function,
                outputs=tuple(map(_sampled, specs, seeded.outputs, given)),
            )
        )
    return Verdict(calls=tuple(calls))


def _refuse_count(function: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise DeviceError(
            f"{function} gave {found} outputs and should give {wanted}",
            hint="export and compile the model again",
        )


def _known(
    spec: TensorSpec, comparison: Comparison, answer: np.ndarray, expected: np.ndarray
) -> VerifiedOutput:
    same = answer.shape == expected.shape
    return VerifiedOutput(
        name=spec.name,
        ok=comparison.ok,
        problem=comparison.problem,
        worst=math.inf if math.isinf(comparison.error) else comparison.max_abs,
        closeness=closeness(answer, expected) if same else None,
        compared=comparison.count,
        comparison=comparison,
    )


def _sampled(spec: TensorSpec, known: SampledOutput, answer: np.ndarray) -> VerifiedOutput:
    judgement = known.judge(answer)
    fits = answer.dtype == known.dtype.numpy and answer.shape == known.shape
    found, wanted = known.sampled(answer) if fits else (np.zeros(0), np.zeros(0))
    return VerifiedOutput(
        name=spec.name,
        ok=not judgement.problem,
        problem=judgement.problem,
        worst=float(np.abs(found - wanted).max(initial=0.0)),
        closeness=closeness(found, wanted) if fits else None,
        compared=len(found),
    )
