"""A model and devices to the folder of the way to cut it that was measured to be fastest.

What a way takes of each device, work and words, comes from the partitioned program; seconds for
both from measuring: the program that is cut nowhere, and sums between the devices. By these
estimates a few ways are chosen, compiled, proved by the golden answers, and timed on the devices.
Where most calls a second are wanted, ways that keep several calls under way are timed beside them.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgec.exporters.mesh.uncut import Shardings, Uncut
from edgec.meshing import CompiledMesh, compile_mesh
from edgec.packaging.folder import refuse_occupied
from edgec.planning.choosing import Candidate, search, texts
from edgec.planning.costs import Spent, all_spent
from edgec.planning.links import Links, measure_links
from edgec.planning.streams import marker_of, measure_stream, put_in_place
from edgec.planning.timing import seconds_alone, seconds_of
from edgec.runtime.errors import EdgecError, UsageError
from edgec.splitting import Streamed
from edgec.targets import Target, find
from edgec.toolchain import CompileOptions, Program

__all__ = ["Planned", "Tried", "plan"]


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A way that was compiled: what it takes, what was estimated, and what was measured.

    Attributes:
        shardings: how inputs and weights are cut.
        spent: what a call takes of each device.
        estimate: seconds, from the work and the links.
        seconds: as measured; None where it was refused.
        refused: why.
    """

    shardings: Shardings
    spent: Spent
    estimate: float
    seconds: float | None = None
    refused: str = ""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What was measured, and what came of it.

    Attributes:
        made: the fastest way that cuts each call.
        tried: the ways that were compiled, the fastest first.
        flags: how each is given to `--shard`, in the same order.
        looked_at: how many ways were estimated.
        refused: the ways that the partitioner does not take, and why.
        links: what it takes the devices to speak.
        alone: seconds of one device by itself; None where the model itself cuts the program.
        streamed: ways that keep several calls under way, where such were asked for.
        why_not: why there are none, where they were asked for.
        folder: where the fastest way is.
    """

    made: CompiledMesh
    tried: tuple[Tried, ...]
    flags: tuple[tuple[str, ...], ...]
    looked_at: int
    refused: Mapping[str, str]
    links: Links
    alone: float | None
    folder: Path
    streamed: Streamed | None = None
    why_not: str = ""

    @property
    def streams(self) -> bool:
        """Whether the folder is one through which several calls go at once."""
        best = self.tried[0].seconds
        stream = self.streamed.tried[0].seconds if self.streamed is not None else None
        return stream is not None and (best is None or stream < best)


def plan(
    uncut: Uncut,
    target: str | Target,
    destination: Path,
    *,
    devices: Sequence[str] = (),
    tries: int = 4,
    whole: Callable[[], Program] | None = None,
    pieces: int = 4,
    options: CompileOptions | None = None,
    tell: Callable[[str], object] = lambda text: None,
) -> Planned:
    """Find how to cut a model for devices that are alike, by measured times.

    Args:
        uncut: the model.
        target: of every device.
        destination: the folder; one that holds such a program already is replaced.
        devices: a URI for each device of the mesh, in its order; none for what the target names.
        tries: how many ways are compiled and timed, besides the one that cuts nothing.
        whole: makes the program for one device, where most calls a second are wanted and not the
            quickest call; None where one call goes through at a time.
        pieces: in how many it is cut for stages.
        options: how to compile; `output` is not looked at.
        tell: is told what is done.

    Raises:
        UsageError: there is one device, or the number of `devices` is another.
        EdgecError: the program cannot be partitioned, or no way of it compiles.
    """
    mesh = uncut.mesh
    if mesh.devices < 2 or (devices and len(devices) != mesh.devices):
        raise UsageError(
            f"the mesh {mesh} has {mesh.devices} devices, and {len(devices)} are named",
            hint="name as many as the mesh has, and two at least: --mesh=x=2 --devices=cpu,cpu",
        )
    refuse_occupied(destination, replace=True, marker=marker_of(destination))
    chosen, how = find(target) if isinstance(target, str) else target, options or CompileOptions()
    with tempfile.TemporaryDirectory(prefix="edgec-") as name:
        work = _Measuring(uncut, chosen, devices, Path(name), how)
        links = measure_links(mesh, chosen, devices, work.folder, how)
        for axis, link in links.along.items():
            tell(f"a sum along {axis}: {link.text}")
        (spent,) = all_spent(uncut, [{}])
        if isinstance(spent, EdgecError):
            raise spent
        first = work.timed(Candidate(shardings={}, spent=spent, estimate=0.0))
        if first.seconds is None:
            raise UsageError(
                f"as it is, the program does not run on these devices: {first.refused}",
                hint="compile it without --mesh to see why",
            )
        spoken = sum(map(links.seconds, first.spent.said))
        pace = max(first.seconds - spoken, 0.0) / max(first.spent.work, 1.0)
        alone = work.alone

        def estimate(spent: Spent) -> float:
            return spent.work * pace + sum(map(links.seconds, spent.said))

        found, refused = search(partial(all_spent, uncut), uncut.leaves, mesh, estimate, tell)
        tried = [
            Tried(
                shardings={},
                spent=first.spent,
                estimate=estimate(first.spent),
                seconds=first.seconds,
            )
        ]
        for candidate in [each for each in found if each.shardings][:tries]:
            tried.append(work.timed(candidate))
            last = tried[-1]
            took = last.refused or f"{(last.seconds or 0.0) * 1e3:.3f} ms"
            tell(f"{' '.join(texts(candidate.shardings))}: {took}")
        tried.sort(key=lambda each: each.seconds if each.seconds is not None else float("inf"))
        streamed, why_not = None, ""
        if whole is not None:
            uris = devices or (chosen.name.partition(":")[0],) * mesh.devices
            streamed, why_not = measure_stream(
                whole, chosen, uris, work.folder / "stream", pieces=pieces, options=how, tell=tell
            )
        made = compile_mesh(
            work.program(tried[0].shardings), chosen, work.folder / "best.mesh", how
        )
        leaves = [leaf.name for leaf in uncut.leaves]
        planned = Planned(
            made=made,
            tried=tuple(tried),
            flags=tuple(tuple(texts(each.shardings, leaves)) for each in tried),
            looked_at=len(found) + len(refused),
            refused=refused,
            links=links,
            alone=alone,
            folder=destination,
            streamed=streamed,
            why_not=why_not,
        )
        put_in_place(work.folder / ("stream" if planned.streams else "best.mesh"), destination)
    return planned


class _Measuring:
    def __init__(
        self,
        uncut: Uncut,
        target: Target,
        devices: Sequence[str],
        folder: Path,
        options: CompileOptions,
    ) -> None:
        self.folder = folder
        self.alone: float | None = None
        self._uncut = uncut
        self._target = target
        self._devices = devices
        self._options = options
        self._count = 0

    def program(self, shardings: Shardings) -> Program:
        return self._uncut.program(shardings, self.folder / "weights.safetensors")

    def timed(self, candidate: Candidate) -> Tried:
        """Compile and time a way; the first, that cuts nothing, on one device by itself, too."""
        self._count += 1
        place = self.folder / f"way{self._count}"
        seconds, refused = None, ""
        try:
            program = self.program(candidate.shardings)
            seconds = seconds_of(program, self._target, self._devices, place, self._options)
            if not candidate.shardings:
                device = self._devices[0] if self._devices else None
                self.alone = seconds_alone(program, device, place)
        except EdgecError as error:
            refused = error.what
        return Tried(
            shardings=candidate.shardings,
            spent=candidate.spent,
            estimate=candidate.estimate,
            seconds=seconds,
            refused=refused,
        )
