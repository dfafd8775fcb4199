"""The machine's CPU against the features that code needs, in LLVM's names.

Executables carry no check of their own: on a lesser CPU they die of SIGILL. So a module is
refused unless every instruction-set feature it was compiled with is known to be here. LLVM also
lists tuning hints as features (`fast-variable-perlane-shuffle`, `reserve-x18`); they are no
instructions and are passed over.
"""

import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path

__all__ = ["architecture", "host_features", "missing_features"]

# LLVM's feature name to the kernel's flag in /proc/cpuinfo, where they differ. x86-64.
_X86_RENAMED = {
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "pclmul": "pclmulqdq",
    "lzcnt": "abm",
    "sha": "sha_ni",
    "avxvnni": "avx_vnni",
    "avxifma": "avx_ifma",
    "avxvnniint8": "avx_vnni_int8",
    "avxvnniint16": "avx_vnni_int16",
    "avxneconvert": "avx_ne_convert",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512vp2intersect": "avx512_vp2intersect",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
    "amx-fp16": "amx_fp16",
    "amx-complex": "amx_complex",
}
_X86_SAME = (
    *("ssse3", "sse4a", "avx", "avx2", "fma", "fma4", "xop", "tbm", "f16c", "bmi2", "adx"),
    *("aes", "vaes", "vpclmulqdq", "gfni", "popcnt", "movbe", "sha512", "sm3", "sm4"),
    *("avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw", "avx512ifma", "avx512vbmi"),
)
# What code for tensors uses. Instructions for the system, caches or random numbers (`clwb`, `pku`,
# `rdpid`, `rdrnd`, `shstk` …) are never generated from arithmetic, so they are not asked for.
_X86 = {name: name for name in _X86_SAME} | _X86_RENAMED | {"bmi": "bmi1"}

# AArch64: LLVM's names to the kernel's flags.
_ARM = {
    "neon": "asimd",
    "fp-armv8": "fp",
    "lse": "atomics",
    "fullfp16": "asimdhp",
    "fp16fml": "asimdfhm",
    "dotprod": "asimddp",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
    "sme": "sme",
    "aes": "aes",
    "sha2": "sha2",
    "sha3": "sha3",
    "crc": "crc32",
    "rdm": "asimdrdm",
    "jsconv": "jscvt",
    "complxnum": "fcma",
    "rcpc": "lrcpc",
}
# Apple silicon from the M1 on has all of these; macOS has no /proc/cpuinfo.
_APPLE = frozenset(
    {"neon", "fp-armv8", "lse", "fullfp16", "fp16fml", "dotprod", "aes", "sha2", "sha3", "crc"}
    | {"rdm", "jsconv", "complxnum", "rcpc"}
)
_TABLES = {"x86_64": _X86, "arm_64": _ARM}
_ARCHITECTURES = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "aarch64": "arm_64",
    "arm64": "arm_64",
    "armv7l": "arm_32",
    "riscv64": "riscv_64",
    "i686": "x86_32",
}


def architecture() -> str:
    """This machine's architecture, as IREE names it in executable formats (`x86_64`, `arm_64`)."""
    machine = platform.machine().lower()
    return _ARCHITECTURES.get(machine, machine)


@cache
def host_features() -> frozenset[str]:
    """Features of this CPU that matter to generated code, in LLVM's names."""
    table = _TABLES.get(architecture(), {})
    if platform.system() == "Darwin" and architecture() == "arm_64":
        return _APPLE
    flags = _linux_flags(Path("/proc/cpuinfo"))
    return frozenset(name for name, flag in table.items() if flag in flags)


def missing_features(needed: Iterable[str], host: frozenset[str]) -> tuple[str, ...]:
    """Those of `needed` that are instruction-set features and not in `host`, sorted."""
    known = _TABLES.get(architecture(), {})
    return tuple(sorted({name for name in needed if name in known and name not in host}))


def _linux_flags(info: Path) -> frozenset[str]:
    """The flags that every processor of the machine has."""
    try:
        text = info.read_text(errors="replace")
    except OSError:
        return frozenset()
    found: frozenset[str] | None = None
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            flags = frozenset(value.split())
            found = flags if found is None else found & flags
    return found if found is not None else frozenset()
