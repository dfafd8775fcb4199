"""`torch.compile` with edgec, beside PyTorch without a compiler and with its own.

python -m benchmarks.torch_compile --write                     # the page
python -m benchmarks.torch_compile --name ViT --threads 1      # a part of the table
python -m benchmarks.torch_compile --make --caches build/torch # compile; later, only time:
python -m benchmarks.torch_compile --caches build/torch

Each engine is a process pinned to as many cores as threads. First calls are timed with empty caches
and, in another process, with what those left; then engines take turns.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.company import Company
from benchmarks.peers.process import ROOT, Child, Failed
from benchmarks.standing import measured_at, sentence
from benchmarks.torch_compile.child import ENGINES
from benchmarks.torch_compile.models import MODELS

PAGE = ROOT / "docs" / "benchmarks_torch_compile.md"
_LIMIT = 600.0  # seconds, of one answer


@dataclass(kw_only=True)
class Figures:
    """One engine with one model and so many threads.

    Attributes:
        refused: why there are none.
        cold: seconds of the first call with empty caches.
        warm: seconds of the first call of another process, with what the caches then hold.
        error: of the answers, relative to the largest of eager PyTorch's.
        best: milliseconds of the fastest call.
    """

    refused: str = ""
    cold: float = 0.0
    warm: float = 0.0
    error: float = 0.0
    best: float = float("inf")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", action="append", help="models whose name begins so")
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--make", action="store_true", help="compile, and time nothing")
    parser.add_argument("--write", action="store_true", help="the page")
    parser.add_argument("--caches", type=Path, help="kept there (default: thrown away)")
    chosen = parser.parse_args()
    names = [n for n in MODELS if not chosen.name or n.startswith(tuple(chosen.name))]
    company = Company()
    rows: dict[tuple[str, int], dict[str, Figures]] = {}
    with tempfile.TemporaryDirectory(prefix="edgec-torch-") as scratch:
        caches = (chosen.caches or Path(scratch)).absolute()
        for name in names:
            for threads in chosen.threads or (1, 2):
                rows[name, threads] = _measured(name, threads, caches, chosen)
                print(name, threads, rows[name, threads], file=sys.stderr, flush=True)
    print("\n".join(_lines(rows)))
    busy = company.cores()
    if chosen.write:
        _write(list(_lines(rows)), busy)
    return 0


def _measured(
    name: str, threads: int, caches: Path, chosen: argparse.Namespace
) -> dict[str, Figures]:
    caches = caches / f"{name.replace(' ', '-')}-{threads}"
    for variable in ("EDGEC_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        (caches / variable).mkdir(parents=True, exist_ok=True)
        os.environ[variable] = str(caches / variable)
    found = {engine: _cold(engine, name, threads, caches) for engine in ENGINES}
    if not chosen.make:
        _take_turns(found, name, threads, caches, chosen)
    return found


def _cold(engine: str, name: str, threads: int, caches: Path) -> Figures:
    """The first call with empty caches; kept beside what it leaves there."""
    kept = caches / f"{engine}.json"
    if kept.exists():
        return Figures(**json.loads(kept.read_text(encoding="utf-8")))
    found = Figures()
    child = _child(engine, name, threads, caches)
    try:
        found.cold = child.answer(_LIMIT)["ok"]["first"]
    except Failed as failed:
        found.refused = str(failed)
    finally:
        child.close()
    kept.write_text(json.dumps({"cold": found.cold, "refused": found.refused}), encoding="utf-8")
    return found


def _take_turns(
    found: dict[str, Figures], name: str, threads: int, caches: Path, chosen: argparse.Namespace
) -> None:
    running: dict[str, Child] = {}
    try:
        for engine, figures in found.items():
            if figures.refused:
                continue
            running[engine] = _child(engine, name, threads, caches)
            first = running[engine].answer(_LIMIT)["ok"]
            figures.warm, figures.error = first["first"], first["error"]
        for _ in range(chosen.rounds):
            for engine, child in running.items():
                child.ask({"seconds": chosen.seconds})
                best = min(child.answer(_LIMIT)["ms"])
                found[engine].best = min(found[engine].best, best)
    finally:
        for child in running.values():
            child.close()


def _child(engine: str, name: str, threads: int, caches: Path) -> Child:
    answers = str(caches / "answers.npz")
    return Child("benchmarks.torch_compile.child", engine, name, str(threads), answers)


def _lines(rows: dict[tuple[str, int], dict[str, Figures]]) -> Iterator[str]:
    """Markdown."""
    yield (
        "| model | threads | eager, ms | inductor, ms | edgec, ms | eager / edgec | "
        "inductor / edgec | edgec's error | first call: inductor, s | edgec, s | "
        "from caches: inductor, s | edgec, s |"
    )
    yield "|---|--:|" + "--:|" * 10
    for (name, threads), row in rows.items():
        eager, inductor, edgec = (row[engine] for engine in ENGINES)
        if edgec.refused:
            yield f"| {name} | {threads} | {edgec.refused} |" + " |" * 9
            continue
        yield (
            f"| {name} | {threads} | {eager.best:.2f} | {inductor.best:.2f} | {edgec.best:.2f} | "
            f"{_ratio(eager.best / edgec.best)} | {_ratio(inductor.best / edgec.best)} | "
            f"{edgec.error:.0e} | {inductor.cold:.1f} | {edgec.cold:.1f} | "
            f"{inductor.warm:.1f} | {edgec.warm:.1f} |"
        )


def _ratio(value: float) -> str:
    return f"**{value:.2f}**" if value > 1 else f"{value:.2f}"


def _write(lines: list[str], busy: float | None) -> None:
    import torch

    said = "" if busy is None else f" Other programs kept {busy:.1f} cores busy meanwhile."
    text = f"""# torch.compile beside PyTorch's own compiler

`torch.compile(model, backend="edgec")` beside PyTorch {torch.__version__} without a compiler
(eager) and with its own (inductor, which needs a C++ compiler), on this machine's CPU. Networks of
transformers with seeded weights; a step is forward and backward, with the same seed. Times above 1
in bold: edgec is faster. The error is edgec's, relative to each output's largest value in eager
PyTorch; a gradient that is nothing but rounding (keys' biases have none) counts against the largest
of all.{said} {sentence([measured_at()])}

<!-- not run: a quiet machine: minutes of timing -->
```console
$ python -m benchmarks.torch_compile --write
```

{chr(10).join(lines)}
"""
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
