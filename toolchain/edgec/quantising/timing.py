"""What a call of a program takes on a device that is here, weights of one choice beside another."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from edgec.runtime.errors import InputError
from edgec.runtime.text.facts import DECODE
from edgec.targets import Target
from edgec.toolchain.program import Program

__all__ = ["Clock"]

_SECONDS = 0.5
_MOST_CALLS = 64
"""Fewer than a text has room for: a language model's calls read one token each."""


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Times programs as modules for one target, on one device.

    Attributes:
        target: what they are compiled for.
        device: a URI; the target's driver without.
    """

    target: Target
    device: str | None = None

    def find_device(self) -> str:
        """What the driver calls the device that measures.

        Raises:
            DeviceMissing: it is not here, or another one is.
        """
        from edgec.toolchain.tuning.measure import device_name

        return device_name(self.target, self.device)

    @staticmethod
    def called(program: Program) -> str:
        """The function that is timed: of a language model the one that reads a token."""
        if program.info.text is not None:
            return DECODE
        golden = program.golden
        names = [function.signature.name for function in program.info.functions]
        return golden.calls[0].signature if golden is not None and golden.calls else names[0]

    def seconds(self, program: Program) -> float:
        """Compile a program, and the median of some calls of it with its first golden inputs.

        Args:
            program: its weights are where it says, beside it; its answers are not looked at.

        Raises:
            InputError: there are no inputs to call it with.
            And as a compile and a call.
        """
        from edgec.runtime.benchmark import bench
        from edgec.runtime.fitness import driver_uri
        from edgec.toolchain import CompileOptions, compile

        name = self.called(program)
        calls = () if program.golden is None else program.golden.calls
        inputs = next((call.inputs for call in calls if call.signature == name), None)
        if inputs is None:
            raise InputError(f"no golden call of {name} says what to time it with")
        room = _MOST_CALLS if program.info.text is None else program.info.text.context // 2
        with tempfile.TemporaryDirectory(prefix="edgec-time-") as folder:
            module = Path(folder) / "timed.vmfb"
            compile(program, self.target, CompileOptions(output=module, check=False))
            return bench(
                module,
                function=name,
                inputs=inputs,
                device=self.device or driver_uri(self.target.driver),
                weights=program.weights_path,
                seconds=_SECONDS,
                max_calls=min(room, _MOST_CALLS),
                warmup=1,
            ).p50
