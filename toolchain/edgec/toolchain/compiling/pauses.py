"""Where the compiler stops, so that edgec changes what it has made, before it goes on."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.targets import Backend
from edgec.toolchain.compiling.task import Task
from edgec.toolchain.folded import FIRST_HALF, SECOND_HALF
from edgec.toolchain.kernels.cpu.source.vectors import first_of
from edgec.toolchain.tapping import AFTER_DISPATCHES, BEFORE_DISPATCHES
from edgec.toolchain.vulkan_executables import AFTER_SHADERS, BEFORE_SHADERS

__all__ = ["Change", "Pause", "halving", "pauses"]

_BEFORE_LAYOUT = ("--compile-to=stream", "--emit-mlir-bytecode")
"""Flags that end a compile where memory is laid out."""
_AFTER_LAYOUT = ("--compile-from=stream",)
"""Flags that go on from there."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What edgec does to a program between two parts of the compiler's way.

    Attributes:
        task: one of those in `edgec.toolchain.isolated`.
        arguments: what the task takes beside `source` and `output`.
        said: what its result means to the user.
    """

    task: str
    arguments: Mapping[str, Any]
    said: Callable[[Any], tuple[str, ...]] = lambda _: ()


@dataclass(frozen=True, kw_only=True)
class Pause:
    """One place where the compiler stops.

    Attributes:
        before: the compiler's flags to get there.
        after: its flags to go on.
        changes: what edgec does between, in order.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    changes: tuple[Change, ...]


def pauses(
    task: Task,
    told: Callable[[int], None] | None = None,
    *,
    wide: bool = False,
    bytes: bool = False,
) -> Iterator[Pause]:
    """Those of a compile, in order.

    Args:
        task: the program and its target.
        told: takes the most bytes that a call holds for a while, where that is asked for.
        wide: whether a buffer may be larger than a kernel may reach into.
        bytes: whether kernels may hold bytes that the device may have no room for.
    """
    outside = task.options.outside
    changes = halving(task)
    if outside is not None:
        arguments = {"file": outside.file, "keys": sorted(outside.keys)}
        changes = (*changes, Change(task="move_out", arguments=arguments))
    if task.parts_weights:
        most = {"most": task.target.limits.binding}
        changes = (*changes, Change(task="part_weights", arguments=most))
    if changes:
        yield Pause(before=FIRST_HALF, after=SECOND_HALF, changes=changes)
    dispatched: list[Change] = []
    if task.options.taps:
        dispatched.append(Change(task="tap", arguments={"loops": task.options.tap_loops}))
    if task.options.donated:
        donated = [list(each) for each in task.options.donated.items()]
        dispatched.append(Change(task="write_in_place", arguments={"donated": donated}))
    if dispatched:
        yield Pause(before=BEFORE_DISPATCHES, after=AFTER_DISPATCHES, changes=tuple(dispatched))
    laid_out: list[Change] = []
    if told is not None:
        laid_out.append(Change(task="hold", arguments={}, said=functools.partial(_tell, told)))
    if wide or task.parts_weights:
        most = {"most": task.target.limits.binding}
        laid_out.append(Change(task="narrow_bindings", arguments=most))
    if task.program.info.joined:
        laid_out.append(Change(task="open_channels", arguments={}))
    if laid_out:
        yield Pause(before=_BEFORE_LAYOUT, after=_AFTER_LAYOUT, changes=tuple(laid_out))
    if task.target.backend is Backend.WEBGPU:
        shaders = Change(task="write_shaders", arguments={"target": task.target.to_json()})
        yield Pause(before=BEFORE_SHADERS, after=AFTER_SHADERS, changes=(shaders,))
    elif bytes:
        words = Change(task="add_words", arguments={}, said=_said_of_words)
        yield Pause(before=BEFORE_SHADERS, after=AFTER_SHADERS, changes=(words,))


def halving(task: Task) -> tuple[Change, ...]:
    """What `--precision=f16` is on processors; nothing where it was not asked for."""
    if not task.keeps_halves:
        return ()
    vectors = first_of(task.target.cpu.vectors, task.target) if task.target.cpu else None
    widens = vectors is not None and vectors.halves
    return (Change(task="halve", arguments={"widens": widens}, said=_said),)


def _tell(told: Callable[[int], None], held: int) -> tuple[str, ...]:
    told(held)
    return ()


def _said_of_words(missing: Sequence[str]) -> tuple[str, ...]:
    if not missing:
        return ()
    why = "; ".join(sorted(set(missing)))
    return (f"{len(missing)} kernels run only where Vulkan has 8-bit storage: {why}",)


def _said(halved: Mapping[str, int]) -> tuple[str, ...]:
    size, widened = halved["size"], halved["widened"]
    if not size:
        return ("--precision=f16 changes nothing: no matrix of f32 lies in the module",)
    kept = (
        f"weights lie in the module as f16, as asked: {size / 2e6:.1f} MB and not {size / 1e6:.1f}"
    )
    if widened:
        kept += f"; {widened / 1e6:.1f} MB of them are f32 in memory when it is loaded"
    return (kept,)
