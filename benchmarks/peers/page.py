"""Results to docs/benchmarks.md."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.engines.catalogue import ENGINES, KIN, OURS
from benchmarks.peers.models.catalogue import MODELS
from benchmarks.peers.models.model import Precision
from benchmarks.peers.results import Results, Row
from benchmarks.peers.tables import digits, table
from benchmarks.peers.users import section
from benchmarks.standing import sentence
from benchmarks.zoo import kept
from benchmarks.zoo.row import Row as ModelOfTheZoo

__all__ = ["page", "ratio_to_best", "write_page"]

_INTRO = """# Benchmarks

edgec beside other ways of running the same models on this CPU. Written by

<!-- not run: a quiet machine: it measures for hours -->
```console
$ make bench
```

or, for a part of it, `python -m benchmarks.peers --model resnet50 --engine edgec --engine ort`;
its results are merged with those that are there.

Every model is defined once, over a small vocabulary that each framework says in its own best way
(`benchmarks/peers/nets`): JAX for edgec, plain iree-compile and XLA, ONNX for ONNX Runtime and
OpenVINO, TensorFlow for LiteRT, PyTorch. All get the same weights (seeded random numbers; MiniLM's
are the real ones) and the same inputs, batch 1, {precision}. Each engine runs in a process
of its own, pinned to as many cores as threads; engines take turns of {seconds} s over {repeats}
rounds, so that whatever else the machine does hits all alike. Inputs are in the engine's memory
before the clock starts, and outputs are there when it stops.

A cell is the fastest call in milliseconds, and in brackets the median of all calls; the fastest
engine is bold. *Speed* is the fastest other engine's time divided by edgec's: above 1 edgec wins.
*edgec on edgert* runs the very module of *edgec* by edgec's own C runtime instead of IREE's
(`--device=edgert://cpu`); it is none of the others, and has a speed of its own.

Quantised models (i8) reach edgec, plain IREE, ONNX Runtime and OpenVINO as one ONNX file with
QuantizeLinear pairs; LiteRT quantises the model itself. In f16, ONNX Runtime and LiteRT compute in
f32 where they have no f16 code. The decoder's caches grow by one token at a call, as exports of
PyTorch have it. LiteRT gets the LSTM written out step by step, since its fused one is made from
older Keras only.
"""


def page(results: Results, plot: str, zoo: Iterable[ModelOfTheZoo]) -> str:
    """The whole page; `plot` is the picture's path beside it, `zoo` the rows of the zoo."""
    run = results.runs[max(results.runs)]
    notes = _Notes()
    parts = [
        _INTRO.format(
            precision="f32 unless it says otherwise", seconds=run["seconds"], repeats=run["repeats"]
        ),
        f"![Speed of every engine relative to edgec]({plot})\n",
    ]
    for threads in sorted({row.threads for row in results.rows}):
        rows = [row for row in results.rows if row.threads == threads]
        parts.append(f"## {threads} thread{'s' if threads > 1 else ''}\n")
        parts.append(_times(rows, notes))
        parts.append(_company(rows))
    parts.append(notes.text())
    parts.append(section(zoo))
    parts += ["## How far answers are off\n", _ERRORS, _errors(results.rows)]
    parts += ["## Making and loading\n", _MAKING, _making(results.rows)]
    parts += ["## Machine and versions\n", _about(results)]
    return "\n".join(part for part in parts if part)


def write_page(docs: Path) -> None:
    """Write benchmarks.md of a folder from the results and the zoo's rows that it holds."""
    results = Results(docs / "benchmarks.json")
    rows = kept.read(docs / "zoo").values()
    (docs / "benchmarks.md").write_text(page(results, "benchmarks.png", rows), encoding="utf-8")


_LIMITS = ", ".join(f"{p.tolerance:g} for {p.text}" for p in Precision)
_ERRORS = f"""The largest difference from PyTorch in 64 bits, as a part of the output's largest
value. Answers further off are wrong: {_LIMITS}.
"""

_MAKING = """Seconds to compile, with all cores, and from the module file to the first answer, on
the largest number of threads measured. The machine may have been busy.
"""


def ratio_to_best(rows: Sequence[Row], engine: str = OURS) -> float | None:
    """The best peer's time divided by that of an engine of ours, for one model and thread count."""
    timed = [row for row in rows if row.right]
    ours = [row for row in timed if row.engine == engine]
    others = [row for row in timed if row.engine not in KIN]
    if not ours or not others:
        return None
    return min(row.fastest for row in others) / ours[0].fastest


@dataclass
class _Notes:
    """Reasons under a table, numbered as they come."""

    reasons: list[str] = field(default_factory=list)

    def mark(self, reason: str) -> str:
        if reason not in self.reasons:
            self.reasons.append(reason)
        return f"[{self.reasons.index(reason) + 1}]"

    def text(self) -> str:
        return "".join(f"{i}. {_cell(r)}\n" for i, r in enumerate(self.reasons, 1))


def _times(rows: Sequence[Row], notes: _Notes) -> str:
    engines = _engines(rows)
    kin = [name for name in KIN if name in engines]
    speeds = ["speed" if name == OURS else "speed on edgert" for name in kin]
    lines = [[*(ENGINES[e].title for e in engines), *speeds]]
    titles = ["model"]
    for model in _models(rows):
        of_model = {row.engine: row for row in rows if row.model == model}
        fastest = min((r.fastest for r in of_model.values() if r.right), default=0.0)
        cells = [_time(of_model.get(engine), fastest, notes) for engine in engines]
        ratios = [ratio_to_best(list(of_model.values()), name) for name in kin]
        titles.append(MODELS[model].title)
        lines.append([*cells, *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios)])
    return table(titles, lines)


def _company(rows: Sequence[Row]) -> str:
    """How quiet the machine was."""
    known = [row.others for row in rows if row.others is not None]
    if not known:
        return ""
    mean = sum(known) / len(known)
    return (
        f"Meanwhile other programs kept {mean:.1f} cores busy on average, {max(known):.1f} at "
        "worst; the busier the machine, the less the medians say.\n"
    )


def _time(row: Row | None, fastest: float, notes: _Notes) -> str:
    if row is None:
        return ""
    if row.refused:
        return f"refused {notes.mark(row.refused)}"
    if not row.right:
        return f"wrong by {row.error:.0e}"
    text = digits(row.fastest)
    text = f"**{text}**" if row.fastest == fastest else text
    return f"{text} ({digits(row.median)})"


def _errors(rows: Sequence[Row]) -> str:
    engines = _engines(rows)
    lines = [[ENGINES[e].title for e in engines]]
    titles = ["model"]
    for model in _models(rows):
        titles.append(MODELS[model].title)
        cells = []
        for engine in engines:
            found = [
                row.error
                for row in rows
                if (row.model, row.engine) == (model, engine) and row.error is not None
            ]
            cells.append(f"{max(found):.0e}" if found else "")
        lines.append(cells)
    return table(titles, lines)


def _making(rows: Sequence[Row]) -> str:
    lines = [["edgec compiles", "plain iree-compile", "ratio", "edgec loads and answers"]]
    titles = ["model"]
    for model in _models(rows):
        made = {row.engine: row for row in rows if row.model == model and not row.refused}
        ours, plain = made.get(OURS), made.get("iree")
        if ours is None:
            continue
        compile_time = ours.build["compile"]
        titles.append(MODELS[model].title)
        first = ours.build["load"] + ours.build["first"]
        if plain is None:
            lines.append([f"{compile_time:.1f}", "", "", f"{first:.2f}"])
            continue
        theirs = plain.build["compile"]
        ratio = f"{compile_time / theirs:.2f}"
        lines.append([f"{compile_time:.1f}", f"{theirs:.1f}", ratio, f"{first:.2f}"])
    return table(titles, lines)


def _about(results: Results) -> str:
    latest = max(results.runs)
    facts = results.runs[latest]["machine"]
    versions: dict[str, str] = {}
    for name in sorted(results.runs):
        versions |= results.runs[name]["versions"]
    lines = [
        f"- CPU: {facts['cpu']} ({facts['family']}), {facts['cores']} cores, "
        f"{facts['memory_gib']} GiB; {', '.join(facts['features'])}.",
        f"- System: {facts['system']}, Python {facts['python']}.",
        "- Versions: " + ", ".join(f"{k} {v}" for k, v in sorted(versions.items())) + ".",
        f"- Latest measurement: {latest}; the oldest one here: {min(results.runs)}. Of how many",
        "  calls each time is, `benchmarks.json` says.",
        f"- {sentence(results.runs[name]['commit'] for name in sorted(results.runs))}",
    ]
    return "\n".join(lines) + "\n"


def _engines(rows: Iterable[Row]) -> list[str]:
    present = {row.engine for row in rows}
    return [name for name in ENGINES if name in present]


def _models(rows: Iterable[Row]) -> list[str]:
    present = {row.model for row in rows}
    return [name for name in MODELS if name in present]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
