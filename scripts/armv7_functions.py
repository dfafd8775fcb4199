"""Compile the library of 32-bit Arm's kernels: functions.c to functions.o beside it.

The object is a part of edgec, so that a compile needs no C compiler; a test holds both together.
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "toolchain" / "edgec" / "toolchain" / "armv7"
FLAGS = (
    *("-target", "arm-linux-musleabihf", "-mcpu=generic+v7a+neon+vfp4-d32", "-std=c11", "-O2"),
    *("-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-fno-unwind-tables"),
    *("-fno-asynchronous-unwind-tables", "-ffunction-sections", "-fPIC", "-fno-sanitize=all"),
    *("-ffp-contract=off", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-g0"),
)


def build(output: Path) -> None:
    """Compile the library; needs ziglang."""
    command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, "-c", "functions.c", "-o", output]
    subprocess.run([str(word) for word in command], cwd=FOLDER, check=True)


if __name__ == "__main__":
    build(FOLDER / "functions.o")
