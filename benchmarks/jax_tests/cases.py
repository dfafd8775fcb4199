"""Cases of JAX's test files, each file in a process of its own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["devices_of", "listed", "tried"]

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 300
_PLATFORMS = {"cpu": "cpu", "edgec": "edgec,cpu"}
"""What JAX is told; callbacks into Python get arrays of XLA's CPU on any platform."""
_DIED = "the process died"


def devices_of(file: Path) -> int:
    """How many devices a file asks for."""
    asked = re.search(r"request_cpu_devices\((\d+)\)", file.read_text(encoding="utf-8"))
    return int(asked[1]) if asked else 1


def listed(file: Path) -> list[str]:
    """The names of a file's cases.

    Raises:
        SystemExit: it cannot be read.
    """
    done = _child(file, "cpu", "list")
    if done.returncode != 0:
        raise SystemExit(f"{file.name} cannot be read: {done.stderr[-2000:]}")
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return names


def tried(file: Path, platform: str, names: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """What came of each case; one that kills its process is said to, and the rest go on."""
    left = list(names)
    while left:
        done = _child(file, platform, "run", str(_SECONDS), stdin="\n".join(left))
        begun = None
        for line in done.stdout.splitlines():
            if not line.startswith('{"case"'):
                continue
            value = json.loads(line)
            begun = value.pop("case")
            if value:
                left.remove(begun)
                yield begun, value
                begun = None
        if begun is None:
            if left:
                raise SystemExit(f"{file.name} on {platform}: {done.stderr[-2000:]}")
            return
        left.remove(begun)
        yield begun, {"outcome": "failed", "said": f"{_DIED} ({done.returncode})"}


def _child(
    file: Path, platform: str, *words: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.jax_tests.child", str(file), *words],
        env={**os.environ, "JAX_PLATFORMS": _PLATFORMS[platform]},
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
