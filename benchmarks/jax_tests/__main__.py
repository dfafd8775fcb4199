"""JAX's own test files on XLA's CPU and on edgec: how many cases pass there, and what is missing.

python -m benchmarks.jax_tests TESTS [--sample=60] [--seed=0] [--files=lax_test,nn_test]

TESTS is the folder `tests` of JAX's sources at the version that is installed
(`git clone -b jax-vVERSION`, outside of this repository). Each file's cases are drawn by the seed
and run on both platforms; what was run is kept in build/jax_tests, and the page is written anew
from all that is there.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from benchmarks.standing import measured_at, sentence

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks_jax.md"
KEPT = ROOT / "build" / "jax_tests"
FILES = (
    *("lax_test", "lax_numpy_test", "nn_test", "random_test", "api_test", "lax_scipy_test"),
    "lax_control_flow_test",
)
_SECONDS = 300
_DIED = "the process died"
Outcomes = Mapping[str, Mapping[str, str]]
"""What came of each case, by its name."""


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
        env={**os.environ, "JAX_PLATFORMS": platform},
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def cause(said: str) -> str:
    """What a failure says, in the words that others of its kind have, too."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = [line for line in lines if "edgec: " in line or "edgert: " in line]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception|TooLong|Warning)\b", line)]
    line = (told or named or lines or [""])[-1]
    line = re.sub(r"^.*(?=edgec: |edgert: )", "", line)
    line = re.sub(r"/\S*/", "", line)
    line = re.sub(r"0x[0-9a-f]+|(?<!\w)\d+(\.\d+)?(e[-+]?\d+)?", "N", line)
    return line[:160]


def page(results: Mapping[str, Mapping[str, Outcomes]], jax: str, measured: Sequence[str]) -> str:
    """The table of files, and that of what is missing."""
    rows, causes, passed, of = [], Counter[str](), 0, 0
    for name in [each for each in FILES if each in results]:
        cpu, edgec = results[name]["cpu"], results[name]["edgec"]
        ran = [case for case in edgec if cpu.get(case, {}).get("outcome") == "passed"]
        counted = [case for case in ran if edgec[case]["outcome"] != "skipped"]
        good = [case for case in counted if edgec[case]["outcome"] == "passed"]
        causes.update(cause(edgec[case].get("said", "")) for case in set(counted) - set(good))
        share = f"{len(good) / len(counted):.1%}" if counted else ""
        skipped = len(ran) - len(counted)
        rows.append(
            f"| `{name}.py` | {len(edgec)} | {len(ran)} | {len(good)} | {skipped} | {share} |"
        )
        passed, of = passed + len(good), of + len(counted)
    lines = [
        "# JAX's own tests on edgec",
        "",
        f"Cases of JAX {jax}'s own test files, drawn by a seed, on XLA's CPU and on edgec's "
        "([JAX on edgec's devices](pjrt.md)). Written by `python -m benchmarks.jax_tests TESTS`, "
        f"which takes the folder of these files. {sentence(measured)}",
        "",
        f"**{passed} of {of} pass ({passed / max(of, 1):.1%}) of those that pass on XLA's CPU**, "
        "without what JAX skips on a platform that it does not know.",
        "",
        "| file | cases | right on XLA's CPU | right on edgec | skipped there | |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        "## What is missing",
        "",
        "| cases | what the first of them says |",
        "|---|---|",
        *(
            f"| {count} | `{what.replace('|', '/').replace('`', chr(39))}` |"
            for what, count in causes.most_common()
        ),
        "",
    ]
    return "\n".join(lines)


def _kept() -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    return {file.stem: json.loads(file.read_text()) for file in sorted(KEPT.glob("*.json"))}


def _write(results: Mapping[str, Mapping[str, Outcomes]]) -> None:
    """The page, with the commit of every case on edgec."""
    cases = [each for found in results.values() for each in found["edgec"].values()]
    measured = list(dict.fromkeys(each["commit"] for each in cases))
    PAGE.write_text(page(results, metadata.version("jax"), measured))


def main() -> int:
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jax_tests")
    parser.add_argument("tests", type=Path)
    parser.add_argument("--sample", type=int, default=60, help="cases a file; 0: all of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--again", action="store_true", help="what failed on edgec, alone")
    asked = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    for name in filter(None, asked.files.split(",")):
        file = asked.tests / f"{name}.py"
        found: dict[str, dict[str, dict[str, str]]] = {"cpu": {}, "edgec": {}}
        if asked.again:
            found = _kept().get(name, found)
            failed = [case for case, each in found["edgec"].items() if each["outcome"] == "failed"]
            runs = {"edgec": failed}
        else:
            names = listed(file)
            if asked.sample:
                names = random.Random(asked.seed).sample(names, min(asked.sample, len(names)))
            runs = dict.fromkeys(found, names)
        for platform, cases in runs.items():
            for case, outcome in tried(file, platform, cases):
                found[platform][case] = {**outcome, "commit": measured_at()}
                print(name, platform, case, outcome["outcome"], flush=True)
        (KEPT / f"{name}.json").write_text(json.dumps(found))
    _write(_kept())
    return 0


if __name__ == "__main__":
    sys.exit(main())
