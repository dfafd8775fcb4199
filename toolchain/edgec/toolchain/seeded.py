"""Answered golden calls to the text that a module holds, with what answers may be off by."""

from dataclasses import dataclass

from edgec.runtime import GoldenCall, Tolerance
from edgec.runtime.dtypes import DType
from edgec.runtime.sampled_output import SampledOutput
from edgec.runtime.seeded_calls import SeededCall, SeededCalls
from edgec.runtime.seeded_input import SeededInput

__all__ = ["Answered", "Seeded"]

_SAMPLES = 256
"""In all of a module's golden calls; an output has 4 to 32."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """How a call's inputs are made, and the call with its answers and how far they are settled."""

    inputs: tuple[SeededInput, ...]
    call: GoldenCall


@dataclass(frozen=True, kw_only=True)
class Seeded:
    """Calls with seeded inputs, and all of their answers.

    Attributes:
        calls: in the order in which they are made.
        source: who computed the answers.
        is_stateful: whether the program keeps values between calls.
    """

    calls: tuple[Answered, ...]
    source: str
    is_stateful: bool

    def text(self, tolerance: Tolerance | None) -> str:
        """What a module holds of them, with what its answers may be off by."""
        outputs = sum(len(call.call.outputs) for call in self.calls)
        samples = min(32, max(4, _SAMPLES // max(outputs, 1)))
        return SeededCalls(
            calls=tuple(
                SeededCall(
                    function=each.call.signature,
                    inputs=each.inputs,
                    outputs=tuple(
                        SampledOutput.of(
                            value,
                            tolerance or Tolerance.of(DType.of(value.dtype)),
                            within=each.call.within[number] if each.call.within else 0.0,
                            open_=each.call.open[number] if each.call.open else None,
                            samples=samples,
                            seed=number,
                        )
                        for number, value in enumerate(each.call.outputs)
                    ),
                )
                for each in self.calls
            ),
            source=self.source,
            is_stateful=self.is_stateful,
        ).text()
