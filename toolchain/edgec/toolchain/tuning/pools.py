"""Where candidates are tried: here, or on the nodes of a Ray cluster, behind one interface."""

import concurrent.futures
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from edgec.runtime.errors import DeviceMissing, MissingExtra
from edgec.toolchain.tuning.evaluate import Evaluator, Subject

__all__ = ["LocalPool", "Pool", "RayPool", "Work"]

_KNOCK_TIMEOUT = 5.0

Work = tuple[str, tuple[Any, ...]]
"""The name of a method of `Evaluator`, and its arguments."""


class Pool(Protocol):
    """Evaluators that work side by side, and agree on what a candidate's ratio is."""

    width: int

    def run(self, works: Sequence[Work]) -> list[Any]:
        """What each piece of work gives, in order; an error of one is raised."""

    def close(self) -> None:
        """Stop what still runs and clean up."""


class LocalPool:
    """This machine: candidates compile side by side in `jobs` threads, each in its own processes.

    Measuring stays one at a time; with one job nothing else runs meanwhile, so the machine is
    quiet.
    """

    def __init__(self, subject: Subject, jobs: int = 1) -> None:
        self.width = jobs
        self._evaluator = Evaluator(subject)
        self._threads = ThreadPoolExecutor(jobs) if jobs > 1 else None

    def run(self, works: Sequence[Work]) -> list[Any]:
        """What each piece of work gives, in order."""
        if self._threads is None:
            return [_do(self._evaluator, work) for work in works]
        futures: list[Future[Any]] = [
            self._threads.submit(_do, self._evaluator, work) for work in works
        ]
        concurrent.futures.wait(futures)
        return [future.result() for future in futures]

    def close(self) -> None:
        """Stop what still compiles."""
        self._evaluator.close()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)


class RayPool:
    """A Ray cluster: one evaluator on each node, which tries one candidate at a time.

    Each node measures a candidate beside the best so far on its own device, so that ratios of
    equal nodes compare. edgec must be installed on each.
    """

    def __init__(self, subject: Subject, address: str) -> None:
        # A cluster that is started here reports to nobody.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        except ImportError as error:
            raise MissingExtra("Ray is not installed", hint="pip install 'edgec[ray]'") from error
        self._ray: Any = ray
        self._started = not ray.is_initialized()
        try:
            if self._started:
                _knock(address)
                ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
            remote = ray.remote(Evaluator)
            self._actors = [
                remote.options(
                    num_cpus=1,
                    scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
                ).remote(subject)
                for node in nodes
            ]
        except (ValueError, RuntimeError, OSError) as error:
            reason = next(iter(str(error).splitlines()), "no reason given")
            raise DeviceMissing(
                f"no Ray cluster answers at {address}: {reason}",
                hint="start one with `ray start --head`, or name it with --ray=HOST:PORT",
            ) from error
        self.width = len(self._actors)

    def run(self, works: Sequence[Work]) -> list[Any]:
        """What each piece of work gives, in order; spread over the nodes in turn."""
        pending = [
            getattr(self._actors[number % self.width], name).remote(*arguments)
            for number, (name, arguments) in enumerate(works)
        ]
        try:
            return list(self._ray.get(pending))
        except self._ray.exceptions.RayTaskError as error:
            # Ray wraps what an evaluator raises; the errors of edgec's own tree are for people.
            raise (error.cause if isinstance(error.cause, Exception) else error) from None

    def close(self) -> None:
        """End the evaluators, and the connection if it was made here."""
        for actor in self._actors:
            self._ray.kill(actor)
        if self._started:
            self._ray.shutdown()


def _knock(address: str) -> None:
    """Fail at once where nobody listens: Ray itself tries for minutes, and then ends the process.

    Raises:
        OSError: nobody listens at HOST:PORT.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_TIMEOUT).close()


def _do(evaluator: Evaluator, work: Work) -> Any:
    name, arguments = work
    method: Callable[..., Any] = getattr(evaluator, name)
    return method(*arguments)
