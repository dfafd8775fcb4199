"""A program on several devices and golden answers of the whole, compared."""

from edgec.runtime.comparison import CallResult, GoldenResult, compare_call
from edgec.runtime.errors import InputError
from edgec.runtime.golden import Golden
from edgec.runtime.mesh.running import LoadedMesh
from edgec.runtime.tolerance import Tolerance

__all__ = ["check_mesh_golden"]


def check_mesh_golden(
    loaded: LoadedMesh, golden: Golden, tolerance: Tolerance | None = None
) -> GoldenResult:
    """Make the golden calls in their order, and compare every answer.

    Raises:
        InputError: the golden answers are of another program.
        DeviceError: a device failed.
    """
    calls = []
    for call in golden.calls:
        if call.signature not in loaded.signatures:
            raise InputError(
                f"the golden answers call {call.signature}, which {loaded.folder.path} has not",
                hint="use the golden answers that were exported with the program",
            )
        function = loaded[call.signature]
        answers = function.call_flat(call.inputs)
        calls.append(
            CallResult(
                signature=call.signature,
                names=tuple(spec.name for spec in function.signature.outputs),
                outputs=compare_call(call, answers, tolerance),
            )
        )
    return GoldenResult(calls=tuple(calls))
