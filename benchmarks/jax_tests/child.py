"""One of JAX's test files: its cases listed, or some of them run, a line of JSON each.

python -m benchmarks.jax_tests.child FILE list
python -m benchmarks.jax_tests.child FILE run SECONDS < names
"""

import importlib.util
import json
import signal
import sys
import unittest
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class _TooLong(Exception):
    """A case's time is over."""


def main() -> None:
    """List or run."""
    file, what, *rest = sys.argv[1:]
    if "edgec" in __import__("os").environ.get("JAX_PLATFORMS", ""):
        import edgec.plugins.jax

        edgec.plugins.jax.initialize()
    # What stands in brackets behind a name holds addresses, which are others in each process.
    cases = {case.id().partition(".")[2].split()[0]: case for case in _cases(Path(file))}
    if what == "list":
        print(json.dumps(sorted(cases)))
        return
    for name in sys.stdin.read().split("\n"):
        if name in cases:
            print(json.dumps({"case": name}), flush=True)
            print(json.dumps({"case": name, **_outcome(cases[name], int(rest[0]))}), flush=True)


def _cases(file: Path) -> Iterator[unittest.TestCase]:
    """Every case of a file, as its own loader makes them."""
    from absl import flags

    flags.FLAGS(["test"], known_only=True)
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    waiting: list[Any] = [unittest.defaultTestLoader.loadTestsFromModule(module)]
    while waiting:
        each = waiting.pop()
        if isinstance(each, unittest.TestCase):
            yield each
        else:
            waiting.extend(each)


def _outcome(case: unittest.TestCase, seconds: int) -> dict[str, str]:
    """What came of a case: `passed`, `skipped` or `failed`, and with what words."""

    def end(*_: object) -> None:
        raise _TooLong(f"took more than {seconds} s")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    result = unittest.TestResult()
    try:
        case.run(result)
    finally:
        signal.alarm(0)
    if result.skipped:
        return {"outcome": "skipped", "said": result.skipped[0][1]}
    wrong = [*result.errors, *result.failures]
    if not wrong:
        return {"outcome": "passed"}
    return {"outcome": "failed", "said": wrong[0][1][-6000:]}


if __name__ == "__main__":
    main()
