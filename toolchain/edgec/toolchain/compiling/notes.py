"""How a module was made, in sentences for whoever asked for it."""

from edgec.runtime import Tolerance
from edgec.runtime.dtypes import DType
from edgec.targets import Backend
from edgec.toolchain.check import Outcome
from edgec.toolchain.compiling.options import CompileOptions
from edgec.toolchain.compiling.task import Task, versions
from edgec.toolchain.kernels.cpu.source.vectors import vector_unit
from edgec.toolchain.precision import F32, Precision

__all__ = ["asked_notes", "half_notes"]

_BLOCKS = (Backend.CUDA, Backend.VULKAN, Backend.WEBGPU)
"""Whose kernels read weights in blocks, beside those of processors with vectors."""
_ROUNDED = (
    "products of f32 are rounded to TF32, as asked: 11 bits of each number, so that a product is "
    "off by about 3e-4"
)


def asked_notes(task: Task) -> tuple[str, ...]:
    """What came of a profile, of passes left out, and of a choice for f32; what was lost before."""
    return (*_lost(task), *_tuned(task.options), *_disabled(task.options), *_f32(task))


def half_notes(task: Task, halves: str, outcome: Outcome) -> tuple[str, ...]:
    """What came of `--precision=f16`; `halves` is the type that products are in."""
    if task.options.precision is not Precision.F16:
        return ()
    if halves != "f16":
        return ("--precision=f16 changes nothing: there is no product of f32 in the program",)
    said = "how far its answers are off was not checked"
    if outcome.proof:
        most = Tolerance.of(DType.F16).spread / 3
        said = (
            f"answers are off by {outcome.error:.1e} of their spread from the "
            f"framework's in f32, where {most:.1e} is allowed"
        )
    how = "with weights of f16" if task.keeps_halves else "in f16, as asked"
    return (f"computed {how}: {said}",)


def _lost(task: Task) -> tuple[str, ...]:
    loss = task.program.info.loss
    if loss is None:
        return ()
    proved = (
        f"{loss}: the answers that prove it were computed in NumPy from the program as it is, and "
        f"are off by {loss.error:.2%} of their spread from the original's"
    )
    reads = task.target.backend in _BLOCKS or vector_unit(task.target) is not None
    if reads or not loss.weights:
        return (proved,)
    inside = task.program.info.weights is None
    when = "compiled, and is no smaller for it" if inside else "loaded; only their file is smaller"
    return (
        proved,
        f"no kernel for {task.target.name} reads weights of {loss.weights}: they are computed in "
        f"f32 when the module is {when}",
    )


def _tuned(options: CompileOptions) -> tuple[str, ...]:
    profile = options.tuned
    if profile is None:
        return ()
    words = ", ".join(profile.winner.words()) or "the default settings, which were the fastest"
    note = f"tuned on {profile.device} ({profile.gain:.2f} times as fast there): {words}"
    stale = profile.stale(versions())
    if not stale:
        return (note,)
    return (note, f"the profile is of other versions ({stale}): `edgec tune` again may find more")


def _disabled(options: CompileOptions) -> tuple[str, ...]:
    left_out = options.disabled  # what a profile leaves out stands in its own note
    return (f"left out, as asked: {', '.join(left_out)}",) if left_out else ()


def _f32(task: Task) -> tuple[str, ...]:
    if task.options.f32 is F32.FULL:
        return ()
    if not task.rounds_f32:
        return (f"--f32={task.options.f32.value} changes nothing for {task.target.name}",)
    return (_ROUNDED,)
