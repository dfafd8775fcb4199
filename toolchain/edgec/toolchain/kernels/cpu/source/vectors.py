"""A CPU target to the vector registers its code may use."""

import platform
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgec.targets import Backend, Target

__all__ = ["VectorUnit", "processor", "vector_unit"]


@dataclass(frozen=True, kw_only=True)
class VectorUnit:
    """The vector registers of a processor.

    Attributes:
        lanes: f32 values in one register.
        registers: how many registers there are.
        fused: whether multiply and add are one instruction.
        broadcasts: whether an arithmetic instruction can take one f32 in memory for all lanes.
    """

    lanes: int
    registers: int
    fused: bool = True
    broadcasts: bool = False


def vector_unit(target: Target) -> VectorUnit | None:
    """What the target's code may use; None where it has no vectors, or they are not known."""
    known = processor(target)
    return None if known is None else _unit(*known)


def processor(target: Target) -> tuple[str, frozenset[str]] | None:
    """The target's architecture and CPU features, as LLVM or Linux names them; None for a GPU."""
    cpu = target.cpu
    if cpu is None or target.backend is not Backend.CPU:
        return None
    features = {*cpu.requires, *(f[1:] for f in cpu.features if f.startswith("+"))}
    machine = cpu.triple.split("-")[0]
    if not machine:
        machine, features = _here()
    return machine, frozenset(features)


def _unit(machine: str, features: frozenset[str]) -> VectorUnit | None:
    fused = "fma" in features
    match machine:
        case "x86_64" | "amd64" | "AMD64" if "avx512f" in features:
            return VectorUnit(lanes=16, registers=32, broadcasts=True)
        case "x86_64" | "amd64" | "AMD64" if "avx2" in features:
            return VectorUnit(lanes=8, registers=16, fused=fused)
        case "x86_64" | "amd64" | "AMD64":
            return VectorUnit(lanes=4, registers=16, fused=False)
        case "aarch64" | "arm64":
            return VectorUnit(lanes=4, registers=32)
        case _ if machine.startswith("armv7") and {"neon", "vfp4"} <= features:
            return VectorUnit(lanes=4, registers=16)
        case "riscv64" if "v" in features:
            return VectorUnit(lanes=4, registers=32)
        case "wasm32" | "wasm64" if "simd128" in features:
            return VectorUnit(lanes=4, registers=16, fused=False)
    return None


@cache
def _here() -> tuple[str, set[str]]:
    """This machine's architecture and CPU features, as Linux names them."""
    features: set[str] = set()
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("flags", "Features"):
                features |= set(value.split())
                break
    return platform.machine(), features
