"""Damaged files are loaded in a child process: an error of edgec's or a clean load, never a crash.

Modules carry checksums in their archive, so damage is found before native code sees it. A module
compiled without the archive has none: a flipped bit in its machine code is not found, so only
archives are promised to be safe.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CHILD = """
import random, sys
from pathlib import Path
from edgec.runtime import load
from edgec.runtime.benchmark import example_inputs
from edgec.runtime.errors import EdgecError

source, scratch, seed, count = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])
data, numbers, outcome = source.read_bytes(), random.Random(seed), {}
for _ in range(count):
    copy = bytearray(data)
    kind = numbers.randrange(4)
    if kind == 0:
        copy = copy[: numbers.randrange(len(copy))]
    elif kind == 1:
        start = numbers.randrange(len(copy))
        end = min(len(copy), start + numbers.choice((1, 8, 64, 512)))
        copy[start:end] = numbers.randbytes(end - start)
    else:
        bit = numbers.randrange(len(copy) * 8)
        copy[bit // 8] ^= 1 << bit % 8
    scratch.write_bytes(copy)
    try:
        with load(scratch) as module:
            for name, signature in module.signatures.items():
                module[name].call_flat(example_inputs(signature))
        key = "loaded"
    except EdgecError as error:
        key = type(error).__name__
    outcome[key] = outcome.get(key, 0) + 1
print(outcome)
"""


@pytest.mark.parametrize("driver", ["local-task", "vulkan"])
def test_a_damaged_module_is_refused_or_runs(
    driver: str, stateful_module: Callable[..., Path], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", CHILD, str(stateful_module(driver))]
    done = subprocess.run(
        [*command, str(tmp_path / "x.vmfb"), "11", "300"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcome = eval(done.stdout)
    assert outcome["ModuleError"] > 250, outcome
    assert set(outcome) <= {"ModuleError", "loaded"}, outcome
