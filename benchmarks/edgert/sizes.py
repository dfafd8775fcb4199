"""How large edgert is, stripped, for each machine it is built for.

    python -m benchmarks.edgert.sizes

What is measured is a shared library with everything in it (verifier, all drivers, threads), as an
app would carry it; with sentences in its errors and without.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "runtime" / "c"
TARGETS = ("x86_64-linux-gnu", "aarch64-linux-gnu", "arm-linux-gnueabihf", "riscv64-linux-gnu")


def size(target: str, messages: int) -> int:
    """Bytes of the stripped library."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "libedgert.so"
        command = [
            *(sys.executable, "-m", "ziglang", "cc", "-target", target, "-std=c11", "-Oz"),
            *("-shared", "-fPIC", "-fvisibility=hidden", "-ffunction-sections"),
            *("-fdata-sections", "-fno-asynchronous-unwind-tables", "-Wl,--gc-sections", "-s"),
            *("-fno-unwind-tables", f"-DEDGERT_MESSAGES={messages}"),
            *(f"-I{SOURCE / 'include'}", *map(str, SOURCE.glob("src/**/*.c")), "-lm"),
            *("-o", str(output)),
        ]
        subprocess.run(command, check=True, capture_output=True)
        return output.stat().st_size


def main() -> int:
    print("| machine | with messages (KB) | without (KB) |\n|---|---|---|")
    for target in TARGETS:
        sizes = [size(target, messages) / 1000 for messages in (1, 0)]
        print(f"| {target} | {sizes[0]:.1f} | {sizes[1]:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
