"""A CPU target to the vector registers its code may use."""

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from edgec.targets import Backend, ByteProducts, Cache, Target, Vectors

__all__ = ["FIRST_CACHE", "VectorUnit", "first_of", "vector_unit"]

FIRST_CACHE = 32 << 10
"""Bytes of a core's first cache: of most processors since 2000."""

_Facts = TypeVar("_Facts", Vectors, ByteProducts)


@dataclass(frozen=True, kw_only=True)
class VectorUnit:
    """The vector registers of a processor, and the memory next to them.

    Attributes:
        lanes: f32 values in one register.
        registers: how many registers there are.
        fused: whether multiply and add are one instruction.
        broadcasts: whether an arithmetic instruction can take one f32 in memory for all lanes.
        by_lane: whether a multiplication can take one lane of a register for all lanes.
        stack: bytes that a kernel may use of its thread's.
        cache: the second cache of a core.
    """

    lanes: int
    registers: int
    fused: bool = True
    broadcasts: bool = False
    by_lane: bool = False
    stack: int = 262144
    cache: Cache = field(default_factory=Cache)


def vector_unit(target: Target) -> VectorUnit | None:
    """What the target's code may use; None where it has no vectors, or they are not known."""
    found = first_of(target.cpu.vectors, target) if target.cpu else None
    if found is None or target.cpu is None:
        return None
    return VectorUnit(
        lanes=found.lanes,
        registers=found.registers,
        fused=found.fused,
        broadcasts=found.broadcasts,
        by_lane=found.by_lane,
        stack=target.limits.stack,
        cache=target.cpu.cache,
    )


def first_of(facts: Sequence[_Facts], target: Target) -> _Facts | None:
    """The first of some facts that is said of the target's processor."""
    if target.backend is not Backend.CPU or target.cpu is None:
        return None
    machine, features = target.cpu.triple.split("-")[0], frozenset[str]()
    if not machine:
        machine, features = _here()
    for each in facts:
        if (not each.machines or machine in each.machines) and features.issuperset(each.features):
            return each
    return None


@cache
def _here() -> tuple[str, frozenset[str]]:
    """This machine's architecture and CPU features, as Linux names them."""
    features: set[str] = set()
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("flags", "Features"):
                features |= set(value.split())
                break
    return platform.machine(), frozenset(features)
