"""The machines that edgert is built for here, and what each is called by whom."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["MACHINES", "Machine", "by_android", "by_emulator", "by_kernel", "suggest_target"]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """An instruction set under Linux or Android.

    Attributes:
        name: in the names of executable formats (`arm_64`).
        triple: clang's name for it with a C library that links statically.
        kernels: what `uname -m` says.
        android: the name of its ABI there.
        emulator: qemu's program that runs its programs.
        llvm: how the triples of its targets begin.
    """

    name: str
    triple: str
    kernels: tuple[str, ...]
    android: str
    emulator: str
    llvm: str


MACHINES = (
    Machine(
        name="arm_64",
        triple="aarch64-linux-musl",
        kernels=("aarch64", "arm64"),
        android="arm64-v8a",
        emulator="qemu-aarch64",
        llvm="aarch64-",
    ),
    Machine(
        name="arm_32",
        triple="arm-linux-musleabihf",
        # A 64-bit kernel calls itself armv8l to programs of 32 bits.
        kernels=("armv7l", "armv8l", "armv7"),
        android="armeabi-v7a",
        emulator="qemu-arm",
        llvm="armv7a-",
    ),
    Machine(
        name="riscv_64",
        triple="riscv64-linux-musl",
        kernels=("riscv64",),
        android="riscv64",
        emulator="qemu-riscv64",
        llvm="riscv64-",
    ),
    Machine(
        name="x86_64",
        triple="x86_64-linux-musl",
        kernels=("x86_64", "amd64"),
        android="x86_64",
        emulator="qemu-x86_64",
        llvm="x86_64-",
    ),
)


def by_kernel(name: str) -> Machine | None:
    """The machine that `uname -m` calls so."""
    return next((machine for machine in MACHINES if name in machine.kernels), None)


def by_android(abis: str) -> tuple[Machine, ...]:
    """The machines of a list of ABIs with commas between them, in its order."""
    found = (m for abi in abis.split(",") for m in MACHINES if m.android == abi.strip())
    return tuple(found)


def by_emulator(name: str) -> Machine | None:
    """The machine that a name after `qemu:` means: `aarch64`, `armv7`, `riscv64`, `x86_64`."""
    aliases = {"arm": "armv7l", "armv7": "armv7l"}
    return by_kernel(aliases.get(name, name))


def suggest_target(machine: Machine, features: Mapping[str, bool]) -> str:
    """The target to compile for: the one that asks most of such a processor and gets all of it."""
    from edgec.targets import catalogue

    fitting = [
        target
        for target in catalogue()
        if target.cpu is not None
        and target.cpu.triple.startswith(machine.llvm)
        and "linux" in target.cpu.triple
        and all(features.get(name, False) for name in target.required_features)
    ]
    return max(fitting, key=lambda target: len(target.required_features)).name
