"""How fast a language model reads and writes here, beside other engines, and what memory gives.

python -m benchmarks.text smol.vmfb SmolLM2-135M-Instruct.gguf
python -m benchmarks.text smol.vmfb smol.gguf --engine llama.cpp=/opt/llama/bin/python --write

edgec's module was made of the GGUF file (docs/text.md); `--model` names another one that any engine
reads (`edgec, rows as bytes=smol8.vmfb`). Other engines read the file itself, each in a Python that
has it (`NAME=PYTHON`; this one without it). Engines take turns, each in a process
that is pinned to as many cores as threads; its files are dropped from the page cache before the
first, and the best of several `--turns` counts, so that they are in the cache as it reads them.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.blocks.memory import bandwidth
from benchmarks.peers.company import Company
from benchmarks.standing import measured_at, sentence
from benchmarks.text.engines import ENGINES
from edgec.runtime.module import Module
from edgec.runtime.parameters import weights_path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks_text.md"
_OURS = "edgec"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One engine with so many threads: seconds, and bytes (of the weights, and the most memory)."""

    engine: str
    threads: int
    size: int
    load: float
    prompt: float
    token: float
    peak: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", type=Path, help="edgec's module")
    parser.add_argument("file", type=Path, help="the GGUF file")
    parser.add_argument("--engine", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="what an engine reads in place of the file; edgec's own need no --engine",
    )
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--prompt", type=int, default=256, help="tokens of the prompt")
    parser.add_argument("--count", type=int, default=128, help="tokens to write")
    parser.add_argument(
        "--rounds",
        type=int,
        default=1,
        help="of each, in a process: engines may keep a prompt that comes again",
    )
    parser.add_argument("--turns", type=int, default=3, help="processes of each")
    parser.add_argument("--write", action="store_true", help="the page")
    parser.add_argument(
        "--build", action="append", default=[], metavar="NAME=HOW", help="for the page"
    )
    chosen = parser.parse_args()
    chosen.paths = {
        name: Path(path) for name, path in (each.split("=", 1) for each in chosen.model)
    }
    ours = [_OURS, *(name for name in chosen.paths if name.startswith(_OURS))]
    pythons = dict.fromkeys(ours, sys.executable)
    pythons |= dict(each.split("=", 1) for each in chosen.engine)
    for name in pythons:
        if name not in ENGINES:
            parser.error(f"no engine {name}: one of {', '.join(ENGINES)}")
    company = Company()
    rows: list[Row] = []
    memory: dict[int, float] = {}
    for threads in chosen.threads or (1, 2):
        ran: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
        for name in pythons:
            _forget(_path(name, chosen))
        # In turns, so that a machine that becomes slower does so for all.
        for _ in range(chosen.turns):
            memory[threads] = max(memory.get(threads, 0.0), bandwidth(threads))
            for name, python in pythons.items():
                ran[name].append(_process(name, python, threads, chosen))
        rows += [_row(name, threads, each, chosen) for name, each in ran.items()]
    lines = list(table(rows, memory, chosen))
    busy = company.cores()
    print("\n".join(lines))
    print(f"other programs kept {busy} cores busy", file=sys.stderr)
    if chosen.write:
        said = "" if busy is None else f" Other programs kept {busy:.1f} cores busy meanwhile."
        _write(lines, chosen, said)
    return 0


def _path(name: str, chosen: argparse.Namespace) -> Path:
    """What an engine reads."""
    return Path(chosen.paths.get(name, chosen.module if name == _OURS else chosen.file))


def _process(name: str, python: str, threads: int, chosen: argparse.Namespace) -> dict[str, float]:
    """Seconds and bytes of one process of an engine."""
    context = chosen.prompt + chosen.count + 8
    numbers = (threads, chosen.prompt, chosen.count, chosen.rounds, context)
    place = str(_path(name, chosen).resolve())
    command = [python, str(Path(__file__).with_name("child.py")), name, place]
    done = subprocess.run(
        [*command, *map(str, numbers)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr.strip()[-2000:]}")
    lines = done.stdout.splitlines()  # some engines talk, too
    found: dict[str, float] = json.loads(next(e for e in lines if e.startswith('{"load"')))
    print(f"{name}, {threads} threads: {found}", file=sys.stderr, flush=True)
    return found


def _row(name: str, threads: int, found: list[dict[str, float]], chosen: argparse.Namespace) -> Row:
    """The best of an engine's processes."""
    best: dict[str, Any] = {key: min(each[key] for each in found) for key in found[0]}
    path = _path(name, chosen)
    read = path if name in chosen.paths and not name.startswith(_OURS) else chosen.file
    files = read.iterdir() if read.is_dir() else [read]
    size = max(each.stat().st_size for each in files)
    return Row(engine=name, threads=threads, size=size, **best)


def _forget(path: Path) -> None:
    """Drop what an engine reads from the page cache: its first process reads it as after a boot.

    How a file came into the cache (what wrote or copied it, in which pieces) decides how large its
    pages are there, and so how fast it is read; now each engine has its own way of reading.
    """
    files = list(path.iterdir()) if path.is_dir() else [path]
    if path.suffix == ".vmfb":
        weights = weights_path(Module.read(path), None)
        files += [] if weights is None else [weights]
    for each in files:
        with each.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def table(rows: list[Row], memory: dict[int, float], chosen: argparse.Namespace) -> Iterator[str]:
    """Markdown, a line a row."""
    size = chosen.file.stat().st_size
    yield (
        f"| engine | threads | prompt of {chosen.prompt}, tokens/s | writing {chosen.count}, "
        "tokens/s | of memory's speed | load, s | most memory, MB |"
    )
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        share = row.size / row.token / memory[row.threads]
        yield (
            f"| {row.engine} | {row.threads} | {chosen.prompt / row.prompt:.0f} | "
            f"{1 / row.token:.0f} | {share:.0%} | {row.load:.2f} | {row.peak / 1e6:.0f} |"
        )
    for threads, rate in memory.items():
        yield (
            f"| memory: {rate / 1e9:.1f} GB/s | {threads} | | {rate / size:.0f} at most | 100 % "
            "| | |"
        )


def _write(lines: list[str], chosen: argparse.Namespace, said: str) -> None:
    """Put a file's table into the page, in place of the one that it had."""
    words = [
        f"`{name}`: {python}" for name, python in (each.split("=", 1) for each in chosen.build)
    ]
    built = f" Built from source here: {'; '.join(words)}." if words else ""
    section = f"""{_section(chosen.file)}
{chosen.file.stat().st_size / 1e6:.0f} MB, processes of each: {chosen.turns}.{built}{said}
{sentence([measured_at()])}

{chr(10).join(lines)}
"""
    kept = [
        each for each in _sections() if not each.startswith(_section(chosen.file).splitlines()[0])
    ]
    PAGE.write_text("\n".join([_HEAD, *kept, section]), encoding="utf-8")


def _section(file: Path) -> str:
    return f"## {file.name}\n"


def _sections() -> list[str]:
    """The page's sections, each as it stands."""
    if not PAGE.exists():
        return []
    _, *found = PAGE.read_text(encoding="utf-8").split("\n## ")
    return [f"## {each.rstrip()}\n" for each in found]


_HEAD = """# How fast a language model reads and writes

edgec computes in f32 from the file's own blocks, and with "rows as bytes" as `edgec quantise
--activations=int8-dynamic` has it: what meets a weight is rounded to bytes, group by group, which
llama.cpp does, too (what it costs: [quantise.md](quantise.md#bytes-on-both-sides)). Other engines
read the file itself, each as its wheel from PyPI has it, or built from source; onnxruntime-genai
and LiteRT-LM read what their own converters make of the file's floats (`python -m
benchmarks.text.converted` says how): four bits in groups of 32, and four bits with one scale for
each output, both with products in bytes. LiteRT-LM's times are those of its own benchmark, a
token's the mean. Each has a process of its own, pinned to as many cores as threads; the best
prompt, the median token. OpenVINO keeps a prompt that comes again in one process, so each is the
first of its own.
What memory gives is measured in the same run, in large pages: a token reads the whole file once.
An engine's files are dropped from the page cache before its first process, so that their pages
there are as it reads them. edgec's load does not read the tokenizer, which the first text needs: by
the package `tokenizers` another 0.1 s for SmolLM2's words, 0.4 s for Llama's and Qwen's.

The files of Llama's and Qwen's shapes have seeded weights in the blocks of the published ones, and
as many words: `benchmarks/text/shapes.py` says how. Such a model says nothing, at the real one's
speed.

<!-- not run: a quiet machine: and engines that have to be installed -->
```console
$ python -m benchmarks.text smol.vmfb SmolLM2.gguf --engine llama.cpp=PYTHON --write
$ python -m benchmarks.text.shapes qwen3-0.6b Q4_K_M --words=SmolLM2.gguf -o qwen3-0.6b-Q4_K_M.gguf
```
"""


if __name__ == "__main__":
    sys.exit(main())
