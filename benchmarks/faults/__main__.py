"""Faults planted into the compiler: how many `edgec verify` finds, and how many lines it names.

python -m benchmarks.faults                 # one after the other; writes docs/faults.md
python -m benchmarks.faults --only WORDS    # those of these words; writes no page
python -m benchmarks.faults --only "attention forgets" --picture docs/fault.svg
"""

import argparse
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.faults.planted import FAULTS, Fault
from benchmarks.standing import measured_at, sentence

ROOT = Path(__file__).resolve().parents[2]
MODELS = Path(__file__).with_name("models.py")
PAGE = ROOT / "docs/faults.md"
_SECONDS = 600
_BY_NUMPY = ", beside NumPy alone"


@dataclass(frozen=True, kw_only=True)
class Found:
    """What `edgec verify --layers` said.

    Attributes:
        code: its exit code.
        said: its error, in one sentence; empty without one.
        lines: numbers of the lines that it names.
        values: how many values it compared.
    """

    code: int
    said: str
    lines: tuple[int, ...]
    values: int


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A planted fault and what was said of it, beside JAX's values and NumPy's alone."""

    fault: Fault
    found: Found
    by_numpy: Found | None

    @property
    def is_found(self) -> bool:
        """Whether anything was said: a wrong answer, or a refusal to compile."""
        return self.found.code != 0

    @property
    def is_named(self) -> bool:
        """Whether the line that is wrong is among those that are named."""
        return line_of(self.fault) in self.found.lines

    @property
    def is_named_by_numpy(self) -> bool:
        """The same where JAX's values are not known."""
        return self.by_numpy is not None and line_of(self.fault) in self.by_numpy.lines


def line_of(fault: Fault) -> int:
    """The number of the line that a fault's name stands behind."""
    inside = False
    for number, text in enumerate(MODELS.read_text().splitlines(), 1):
        if text.startswith("def "):
            inside = text.startswith(f"def {fault.model}(")
        if inside and text.endswith(f"# {fault.line}"):
            return number
    raise ValueError(f"{fault.model} has no line {fault.line}")


def plant(fault: Fault, folder: Path) -> Path:
    """A copy of the compiler's sources with the fault in it; what Python is to find them by."""
    root = folder / "planted"
    shutil.rmtree(root, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "toolchain/edgec", root / "edgec", ignore=ignored)
    file = root / "edgec/toolchain" / fault.file
    text = file.read_text()
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.what}: {fault.file} has changed, and the fault with it")
    file.write_text(text.replace(fault.old, fault.new))
    return root


def verify(program: Path, folder: Path, sources: Path | None, picture: Path | None = None) -> Found:
    """What `edgec verify --layers` says of a program, by the sources as they are or with a fault.

    What is known of another compiler is of no use, so that the cache is an empty one each time.
    """
    cache = folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    drawn = [] if picture is None else [f"--picture={picture}"]
    words = ["verify", str(program), "--layers", "--corners", "--json", "-q", *drawn]
    more = {} if sources is None else {"PYTHONPATH": str(sources)}
    done = subprocess.run(
        [sys.executable, "-m", "edgec.cli", *words],
        env={**os.environ, "EDGEC_CACHE_DIR": str(cache), **more},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    value = json.loads(done.stdout)
    layers = value.get("layers") or {}
    first = layers.get("first_wrong") or {}
    named = [each.rpartition(":") for each in first.get("lines", ())]
    return Found(
        code=done.returncode,
        said=value.get("error", {}).get("what", ""),
        lines=tuple(int(number) for file, _, number in named if file.endswith(MODELS.name)),
        values=len(layers.get("layers", ())),
    )


def exported(folder: Path, name: str, is_bare: bool) -> Path:
    """A model as a program, with JAX's values on its way; or a bare one."""
    path = folder / f"{name}{'.bare' * is_bare}.mlirbc"
    words = ["export", f"{MODELS}:{name}", "-o", str(path), "-q", *["--values"][is_bare:]]
    subprocess.run(
        [sys.executable, "-m", "edgec.cli", *words],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
    )
    return path


def page(tried: Iterable[Tried], plain: Mapping[str, Found]) -> str:
    """The page."""
    tried = list(tried)
    found = [each for each in tried if each.is_found]
    named = [each for each in tried if each.is_named]
    lines = [len(each.found.lines) for each in named]
    rows = [
        f"| {each.fault.what} | `{each.fault.file}` | {_outcome(each)} | {_lines(each)} |"
        for each in tried
    ]
    alone = [each.by_numpy for each in tried if each.by_numpy is not None]
    named_alone = sum(each.is_named_by_numpy for each in tried)
    beside = (
        f" Beside NumPy's evaluation alone {sum(each.code != 0 for each in alone)} are found and "
        f"{named_alone} named."
        if alone
        else ""
    )
    right = sum(each.code == 0 for each in plain.values())
    control = (
        f" Of {len(plain)} models tried without a fault {right} are right, and no line is named."
        if plain
        else ""
    )
    words = [
        "# Planted faults",
        "What `edgec verify --layers --corners` ([verify](verify.md)) finds of faults that were "
        "put into the compiler's sources, one at a time: a wrong sign, a tile that is one off, a "
        "clip that is lost, a buffer that keeps what lay in it. Each is one change in "
        "`toolchain/edgec/toolchain`, and a small model meets it (`benchmarks/faults`). Written by "
        f"`python -m benchmarks.faults`. {sentence([measured_at()])}",
        f"**{len(found)} of {len(tried)} are found, and of {len(named)} the right line is named**, "
        f"among {_average(lines)} lines on average: a value's lines are those of all that its "
        "kernel computes. Programs are exported with JAX's own values (`edgec export --values`), "
        f"and values compared with these.{beside}{control}",
        "\n".join(["| fault | in | | lines named |", "|---|---|---|---|", *rows]),
        "A fault that is not found changes no answer by more than what is allowed. What is refused "
        "the compiler itself found, so that no line was looked for.",
    ]
    return "\n\n".join(words) + "\n"


def _outcome(each: Tried) -> str:
    if not each.is_found:
        return "not found"
    return "wrong" if each.found.code == 23 else "refused"


def _lines(each: Tried) -> str:
    if not each.found.lines:
        return "none" if each.is_found else ""
    return f"{len(each.found.lines)}, {'' if each.is_named else 'not '}the right one"


def _average(counts: list[int]) -> str:
    return f"{sum(counts) / len(counts):.1f}" if counts else "no"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="the faults whose words hold this; nothing is written")
    parser.add_argument("--keep", type=Path, help="what came of each, a line each; taken over")
    parser.add_argument("--share", default="0/1", help="every Nth of them from the Ith on: I/N")
    parser.add_argument("--picture", type=Path, help="draw the errors of the first one's values")
    parser.add_argument("--by-numpy", action="store_true", help="also without JAX's values")
    parser.add_argument("--plain", action="store_true", help="the models without a fault, too")
    chosen = parser.parse_args()
    first, _, step = chosen.share.partition("/")
    faults = [each for each in FAULTS if not chosen.only or chosen.only in each.what]
    is_all = len(faults) == len(FAULTS) and step == "1"
    faults = faults[int(first) :: int(step)]
    models = sorted({each.model for each in faults})
    known = {} if chosen.keep is None else _kept(chosen.keep)

    def said(name: str, sources: Callable[[], Path | None]) -> Found:
        if name not in known:
            drawn = chosen.picture if not known else None
            program = programs(name.partition(":")[0], name.endswith(_BY_NUMPY))
            known[name] = verify(program, folder, sources(), drawn)
            if chosen.keep is not None:
                with chosen.keep.open("a") as file:
                    file.write(json.dumps({"name": name, "found": asdict(known[name])}) + "\n")
        print(f"{name}: {known[name]}", flush=True)
        return known[name]

    with tempfile.TemporaryDirectory(prefix="edgec-faults-") as scratch:
        folder = Path(scratch)
        programs = functools.cache(functools.partial(exported, folder))
        beside = {
            suffix: [
                said(
                    f"{fault.model}: {fault.what}{suffix}", functools.partial(plant, fault, folder)
                )
                for fault in faults
            ]
            for suffix in ("", *([_BY_NUMPY] if chosen.by_numpy else []))
        }
        if is_all:
            plain = {
                name: said(f"{name}: without a fault", lambda: None)
                for name in models
                if chosen.plain or f"{name}: without a fault" in known
            }
            by_numpy = beside.get(_BY_NUMPY, [None] * len(faults))
            tried = [
                Tried(fault=fault, found=found, by_numpy=other)
                for fault, found, other in zip(faults, beside[""], by_numpy, strict=True)
            ]
            PAGE.write_text(page(tried, plain))
    return 0


def _kept(path: Path) -> dict[str, Found]:
    """What came of those that were tried before."""
    lines = path.read_text().splitlines() if path.exists() else []
    values = [json.loads(line) for line in lines]
    return {
        value["name"]: Found(**value["found"] | {"lines": tuple(value["found"]["lines"])})
        for value in values
    }


if __name__ == "__main__":
    sys.exit(main())
