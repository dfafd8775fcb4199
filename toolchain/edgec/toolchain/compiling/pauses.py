"""Where the compiler stops, so that edgec changes what it has made, before it goes on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgec.targets import Backend
from edgec.toolchain.compiling.task import Task
from edgec.toolchain.outside import FIRST_HALF, SECOND_HALF
from edgec.toolchain.webgpu import AFTER_SHADERS, BEFORE_SHADERS

__all__ = ["Pause", "pauses"]


@dataclass(frozen=True, kw_only=True)
class Pause:
    """One such place.

    Attributes:
        before: the compiler's flags to get there.
        after: its flags to go on.
        task: what edgec does between, one of those in `edgec.toolchain.isolated`.
        arguments: what the task takes beside `source` and `output`.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    task: str
    arguments: Mapping[str, Any]


def pauses(task: Task) -> Iterator[Pause]:
    """Those of a compile, in order."""
    outside = task.options.outside
    if outside is not None:
        arguments = {"file": outside.file, "keys": sorted(outside.keys)}
        yield Pause(before=FIRST_HALF, after=SECOND_HALF, task="move_out", arguments=arguments)
    if task.target.backend is Backend.WEBGPU:
        yield Pause(
            before=BEFORE_SHADERS,
            after=AFTER_SHADERS,
            task="write_shaders",
            arguments={"target": task.target.to_json()},
        )
