"""How large edgert is, stripped, for each machine it is built for, beside what is aimed at.

    python -m benchmarks.edgert.sizes [--few]

What is measured is a shared library with everything in it (verifier, drivers of CPUs, threads), as
an app would carry it, with sentences in its errors and without, with the driver for GPUs, and with
golden calls (`edgert_session_prove`), which some 7 KB of code make and judge; with the checking of
signatures; what reads and writes text for language models (`edgert_text.h`), by itself and together
with edgert; for browsers the WebAssembly module of the npm package, and that together with all
JavaScript that a page may load beside a model, as they are and each file compressed by gzip. The C
library's functions are the system's and not counted. Fails where a build is larger than what is
accepted of it. With `--few` each part is measured on one machine, as `make test` does.
"""

import argparse
import gzip
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from edgec.packaging.web_runtime import BUILDS, edgert_wasm, minified, runtime_files

__all__ = ["ROWS", "Row", "measure", "table"]

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "runtime" / "c"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One build, and how many KB (of 1000 bytes) it should have and at most may have.

    One of the `few` is measured in each `make test`; the others are the same parts on another
    machine, or fewer of them.
    """

    name: str
    target: str
    messages: bool = True
    vulkan: bool = False
    proves: bool = False
    trusts: bool = False
    parts: tuple[str, ...] = ("edgert.c",)
    scripts: bool = False
    compressed: bool = False
    few: bool = False
    aim: float | None = None
    most: float


_PLAIN, _THREADS = BUILDS
ROWS = (
    Row(name="x86-64", target="x86_64-linux-gnu", few=True, aim=110, most=94.9),
    Row(name="aarch64", target="aarch64-linux-gnu", aim=100, most=88.8),
    Row(name="armv7", target="arm-linux-gnueabihf", most=102.2),
    Row(name="riscv64", target="riscv64-linux-gnu", most=85.4),
    # 64 KB are the code and its tables; the rest is what a shared library needs to be loaded.
    Row(name="x86-64, no sentences", target="x86_64-linux-gnu", messages=False, aim=64, most=85.3),
    Row(
        name="aarch64, no sentences",
        target="aarch64-linux-gnu",
        messages=False,
        few=True,
        aim=64,
        most=79.5,
    ),
    Row(name="x86-64, with Vulkan", target="x86_64-linux-gnu", vulkan=True, aim=140, most=126.2),
    Row(name="aarch64, with Vulkan", target="aarch64-linux-gnu", vulkan=True, aim=140, most=118.2),
    Row(name="aarch64, that proves", target="aarch64-linux-gnu", proves=True, most=96),
    Row(
        name="aarch64, Vulkan, that proves",
        target="aarch64-linux-gnu",
        vulkan=True,
        proves=True,
        few=True,
        aim=140,
        most=124.6,
    ),
    Row(name="x86-64, that checks signatures", target="x86_64-linux-gnu", trusts=True, most=110.4),
    Row(
        name="aarch64, that checks signatures",
        target="aarch64-linux-gnu",
        trusts=True,
        few=True,
        most=101.5,
    ),
    Row(
        name="x86-64, text alone",
        target="x86_64-linux-gnu",
        parts=("edgert_text.c",),
        aim=60,
        most=38,
    ),
    Row(
        name="aarch64, text alone",
        target="aarch64-linux-gnu",
        parts=("edgert_text.c",),
        aim=60,
        most=38,
    ),
    Row(
        name="aarch64, with text",
        target="aarch64-linux-gnu",
        parts=("edgert.c", "edgert_text.c"),
        few=True,
        aim=200,
        most=121.5,
    ),
    Row(name="WebAssembly", target=_PLAIN, aim=100, most=100),
    Row(name="WebAssembly, gzip", target=_PLAIN, compressed=True, aim=45, most=45),
    Row(name="WebAssembly, threads", target=_THREADS, aim=100, most=100),
    Row(name="WebAssembly, threads, gzip", target=_THREADS, compressed=True, aim=45, most=45),
    # The driver of WebGPU is in this WebAssembly and in these scripts.
    Row(name="a page with WebGPU", target=_PLAIN, scripts=True, aim=250, most=180),
    Row(
        name="a page with WebGPU, gzip",
        target=_PLAIN,
        scripts=True,
        compressed=True,
        aim=100,
        most=90,
    ),
)


def measure(row: Row) -> float:
    """KB of one build.

    Raises:
        subprocess.CalledProcessError: the compiler fails.
    """
    if row.target in BUILDS:
        loaded = [edgert_wasm(row.target).read_bytes()]
        if row.scripts:
            loaded += [
                minified(file.read_text(encoding="utf-8")).encode()
                for name, file in runtime_files().items()
                if name.endswith((".js", ".mjs"))
            ]
        return (
            sum(len(gzip.compress(data, 9, mtime=0) if row.compressed else data) for data in loaded)
            / 1000
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [sys.executable, str(SOURCE / "amalgamate.py"), name, "--text"]
        subprocess.run(words, check=True)
        command = [
            *(sys.executable, "-m", "ziglang", "cc", "-target", row.target, "-std=c11"),
            # The driver takes -Oz for -Os; clang itself does what it is told.
            *("-Oz", "-Xclang", "-Oz", "-shared", "-fPIC", "-fvisibility=hidden"),
            *("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-s"),
            *("-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-Wl,--hash-style=gnu"),
            # Without the driver's own mathematics, which it prefers to the system's.
            *("-nostdlib", f"-DEDGERT_MESSAGES={int(row.messages)}"),
            *(f"-DEDGERT_WITH_VULKAN={int(row.vulkan)}", f"-DEDGERT_WITH_PROVE={int(row.proves)}"),
            f"-DEDGERT_WITH_SIGNATURES={int(row.trusts)}",
            *(str(folder / part) for part in row.parts),
            *("-lm", "-o", str(folder / "libedgert.so")),
        ]
        subprocess.run(command, check=True, capture_output=True)
        return (folder / "libedgert.so").stat().st_size / 1000


def table(sizes: dict[Row, float]) -> str:
    """The sizes in Markdown."""
    lines = ["| build | KB | aim |", "|---|---|---|"]
    for row, size in sizes.items():
        aim = "" if row.aim is None else f"≤ {row.aim:g}{'' if size <= row.aim else ', missed'}"
        lines.append(f"| {row.name} | {size:.1f} | {aim} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--few", action="store_true", help="each part on one machine only")
    few = parser.parse_args().few
    sizes = {row: measure(row) for row in ROWS if row.few or row.target in BUILDS or not few}
    print(table(sizes))
    large = [row for row, size in sizes.items() if size > row.most]
    for row in large:
        print(f"{row.name} has grown beyond {row.most:g} KB", file=sys.stderr)
    return 1 if large else 0


if __name__ == "__main__":
    sys.exit(main())
