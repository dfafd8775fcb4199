"""The golden calls inside a module: what to call with which seeds, and what comes out, as a text.

The text is a reflection attribute (`edgec.golden`) of the module's first function, a few KB of
JSON, so that every runtime that can read a module has it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgec.runtime.errors import EdgecError, ModuleError
from edgec.runtime.sampled_output import SampledOutput
from edgec.runtime.seeded_input import SeededInput

__all__ = ["SeededCall", "SeededCalls"]

_SCHEMA = 1
_MOST_CALLS = 64


@dataclass(frozen=True, kw_only=True)
class SeededCall:
    """One call: a function's name, how its inputs are made, what is known of its outputs."""

    function: str
    inputs: tuple[SeededInput, ...]
    outputs: tuple[SampledOutput, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "function": self.function,
            "inputs": [given.to_json() for given in self.inputs],
            "outputs": [known.to_json() for known in self.outputs],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "SeededCall":
        """The inverse of `to_json`."""
        return cls(
            function=str(value["function"]),
            inputs=tuple(map(SeededInput.from_json, value["inputs"])),
            outputs=tuple(map(SampledOutput.from_json, value["outputs"])),
        )


@dataclass(frozen=True, kw_only=True)
class SeededCalls:
    """Calls to make in this order on fresh state.

    Attributes:
        calls: the calls.
        source: who computed the answers, in words.
        is_stateful: whether the module keeps values between calls, so that fresh state is needed.
    """

    calls: tuple[SeededCall, ...]
    source: str
    is_stateful: bool = False

    def text(self) -> str:
        """What the module holds."""
        value = {
            "schema": _SCHEMA,
            "source": self.source,
            "state": int(self.is_stateful),
            "calls": [call.to_json() for call in self.calls],
        }
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> "SeededCalls":
        """The inverse of `text`.

        Raises:
            ModuleError: it is damaged, or of a newer edgec.
        """
        try:
            value = json.loads(text)
            if value["schema"] != _SCHEMA:
                raise ModuleError(f"the golden calls in it have format {value['schema']!r}")
            calls = value["calls"]
            if not 1 <= len(calls) <= _MOST_CALLS:
                raise ModuleError(f"there are {len(calls)} golden calls in it")
            return cls(
                calls=tuple(map(SeededCall.from_json, calls)),
                source=str(value["source"]),
                is_stateful=bool(value["state"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ModuleError(
                f"the golden calls in it are damaged: {error!r}", hint="compile the program again"
            ) from None
        except EdgecError as error:
            raise ModuleError(error.what, hint="compile the program again") from None
