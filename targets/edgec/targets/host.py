"""The machine edgec runs on, as a `Cpu`: its features by the runtime's own count."""

import platform
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

__all__ = ["cpu_features"]


@cache
def cpu_features() -> tuple[str, ...]:
    """The features of this processor that IREE's runtime can tell apart, in LLVM's spelling.

    `iree-cpuinfo`, which ships with iree-base-runtime, prints them; where it is missing, Linux's
    own list stands in. Empty where neither is known: a module then requires nothing by name.
    """
    tool = Path(sys.executable).with_name("iree-cpuinfo")
    found = str(tool) if tool.exists() else shutil.which("iree-cpuinfo")
    if found:
        try:
            text = subprocess.run([found], capture_output=True, text=True, timeout=20).stdout
        except (OSError, subprocess.TimeoutExpired):
            text = ""
        names = [line.split() for line in text.splitlines()]
        enabled = tuple(pair[0] for pair in names if len(pair) == 2 and pair[1] == "1")
        if enabled:
            return enabled
    return _from_linux()


# Linux's names of x86-64 features that differ from LLVM's, for those that iree-cpuinfo knows.
_LINUX_TO_LLVM = {
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_vnni": "avx512vnni",
    "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "amx_tile": "amx-tile",
    "amx_int8": "amx-int8",
    "amx_bf16": "amx-bf16",
}
_SAME_NAME = {
    *("ssse3", "sse4a", "avx", "fma", "fma4", "xop", "f16c", "avx2"),
    *("avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw", "avx512ifma", "avx512vbmi"),
}


def _from_linux() -> tuple[str, ...]:
    info = Path("/proc/cpuinfo")
    if platform.machine() not in ("x86_64", "AMD64") or not info.exists():
        return ()
    for line in info.read_text(errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            flags = value.split()
            return tuple(
                _LINUX_TO_LLVM.get(f, f) for f in flags if f in _SAME_NAME | set(_LINUX_TO_LLVM)
            )
    return ()
