"""A call's outputs against `--expected`: number by number, or a score's largest against labels.

Where an output holds scores (floats) and what is expected holds integers of the same shape without
the last dimension, the integers are labels: the index of the largest score must be the label, or of
one as large up to rounding. That is said aloud, never silently done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.cli.report import Grid
from edgec.cli.session import Session
from edgec.runtime import Comparison, GoldenCall, Tolerance, compare
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import UsageError, WrongAnswer
from edgec.runtime.signature import TensorSpec

__all__ = ["Checked", "are_labels", "check_outputs", "failure", "grid"]


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One output and how it compares; `labels` if the largest score stood for the output.

    `share` is the part of the labels that must agree.
    """

    name: str
    comparison: Comparison
    labels: bool
    share: float

    @property
    def agreed(self) -> int:
        """How many values are within the tolerance."""
        return self.comparison.count - self.comparison.wrong

    @property
    def ok(self) -> bool:
        """Whether that is enough."""
        if not self.labels or self.comparison.worst is None:
            return self.comparison.ok
        return self.agreed >= self.share * self.comparison.count

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        value = {"name": self.name, "compared": "labels" if self.labels else "values"}
        return value | self.comparison.to_json() | {"ok": self.ok}


def are_labels(spec: TensorSpec, shape: Sequence[int | Any], dtype: DType) -> bool:
    """Whether integers of that shape are labels for a spec of scores."""
    scores = spec.dtype.is_float and spec.dtype not in (DType.C64, DType.C128)
    return scores and dtype.value[0] in "iu" and len(shape) == len(spec.shape) - 1


def check_outputs(
    session: Session,
    specs: Sequence[TensorSpec],
    outputs: Sequence[np.ndarray],
    expected: Mapping[int, np.ndarray],
    *,
    absolute: float | None,
    relative: float | None,
    share: float,
    golden: GoldenCall | None = None,
) -> list[Checked]:
    """Compare each output for which something is expected.

    Args:
        session: is told what is compared.
        specs: of all outputs.
        outputs: all of them.
        expected: by output.
        absolute, relative: what was asked for; None for the types' defaults.
        share: the part of the labels that must agree.
        golden: the call that all of `expected` is of, if it is a golden file's: its answers may be
            off by what the file says, as the framework's own ways of computing them are, and of
            indices some are ties.
    """
    if not 0 <= share <= 1:
        raise UsageError("the share of labels that must agree is a number from 0 to 1")
    checked = []
    for index, want in sorted(expected.items()):
        spec, got = specs[index], outputs[index]
        labels = are_labels(spec, want.shape, DType.of(want.dtype)) and want.shape == got.shape[:-1]
        if labels:
            session.note(
                f"{spec.name} holds scores and the expected integers are taken as labels: "
                "the index of the largest score is compared"
            )
            got = _labelled(got, want)
        tolerance = Tolerance() if labels else _tolerance(spec.dtype, want, absolute, relative)
        if golden is not None and golden.within and absolute is None and relative is None:
            tolerance = replace(tolerance, absolute=golden.within[index])
        checked.append(
            Checked(
                name=spec.name,
                comparison=compare(
                    got,
                    want,
                    tolerance,
                    open_=golden.open[index] if golden is not None and golden.open else None,
                    others=golden.others[index] if golden is not None and golden.others else None,
                ),
                labels=labels,
                share=share,
            )
        )
    return checked


def _labelled(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The index of each largest score; of those as large up to rounding, the label if it is one."""
    largest = scores.max(axis=-1)
    inside = np.clip(labels, 0, scores.shape[-1] - 1).astype(np.int64)
    of_label = np.take_along_axis(scores, inside[..., None], axis=-1)[..., 0]
    rounding = Tolerance.of(DType.of(scores.dtype)).relative * np.abs(largest)
    tied = (inside == labels) & (of_label >= largest - rounding)
    return np.where(tied, labels, np.argmax(scores, axis=-1))


def grid(checked: Sequence[Checked]) -> Grid:
    """The outcomes as a table."""
    return Grid(
        columns=("output", "compared", "agree", "max abs error", "max rel error", "allowed", ""),
        rows=tuple(_row(c) for c in checked),
        right=frozenset({2, 3, 4}),
    )


def failure(checked: Sequence[Checked], subject: str) -> WrongAnswer | None:
    """The error for outputs that differ, naming the worst; None if all is well."""
    wrong = [c for c in checked if not c.ok]
    if not wrong:
        return None
    worst = max(wrong, key=lambda c: c.comparison.wrong / max(1, c.comparison.count))
    comparison = worst.comparison
    if worst.labels:
        what = f"{worst.agreed} of {comparison.count} labels agree"
        hint = "--share says how large a part of the labels must agree; -o keeps the scores"
    else:
        what = comparison.problem
        hint = "allow more with --atol and --rtol, or compile with another target or -O level"
    return WrongAnswer(f"{subject} gives a wrong {worst.name}: {what}", hint=hint)


def _row(checked: Checked) -> tuple[str, ...]:
    comparison = checked.comparison
    verdict = "ok" if checked.ok else "WRONG"
    agree = f"{checked.agreed}/{comparison.count}"
    if checked.labels:
        return (checked.name, "labels", agree, "", "", f"{checked.share:.1%} agree", verdict)
    tolerance = comparison.tolerance
    first = f"{tolerance.spread:.3g}·spread" if tolerance.spread else f"{tolerance.absolute:.3g}"
    allowed = f"{first} + {tolerance.relative:.3g}·|expected|"
    return (
        checked.name,
        "values",
        agree,
        f"{comparison.max_abs:.3g}",
        f"{comparison.max_rel:.3g}",
        allowed,
        verdict,
    )


def _tolerance(
    dtype: DType, want: np.ndarray, absolute: float | None, relative: float | None
) -> Tolerance:
    """What was asked for; else what the coarser of the two types allows."""
    if absolute is not None or relative is not None:
        return Tolerance(absolute=absolute or 0.0, relative=relative or 0.0)
    defaults = (Tolerance.of(dtype), Tolerance.of(DType.of(want.dtype)))
    return max(defaults, key=lambda t: t.spread)
