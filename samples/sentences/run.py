"""Look sentences up by meaning in PyTorch and in compiled modules; the rankings must be equal.

python samples/sentences/run.py [--target cpu --target vulkan] [--keep FOLDER]
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import data
import model
import numpy as np
import torch

from edgec import exporters, runtime, toolchain
from edgec.runtime.errors import EdgecError

Embed = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """What one way to run the model gave: unit vectors, and seconds for eight sentences."""

    where: str
    library: np.ndarray
    questions: np.ndarray
    seconds: float

    @property
    def similarity(self) -> np.ndarray:
        """Cosines, f32[question, sentence]."""
        return self.questions @ self.library.T

    @property
    def ranking(self) -> np.ndarray:
        """The sentences from the most to the least alike, for each question."""
        return np.argsort(-self.similarity, axis=1, kind="stable")


def embedded(where: str, embed: Embed) -> Embedding:
    """All sentences and questions, eight at a time; the last eight are filled up."""
    seconds: list[float] = []

    def all_of(texts: list[str]) -> np.ndarray:
        rows = []
        for first in range(0, len(texts), model.BATCH):
            batch = texts[first : first + model.BATCH]
            filled = batch + [""] * (model.BATCH - len(batch))
            ids, mask = (value.numpy() for value in model.tokens(filled))
            start = time.perf_counter()
            vectors = embed(ids, mask)
            seconds.append(time.perf_counter() - start)
            rows.append(vectors[: len(batch)])
        return np.concatenate(rows)

    library = all_of([line.text for line in data.library()])
    questions = all_of(list(data.QUESTIONS))
    return Embedding(where=where, library=library, questions=questions, seconds=min(seconds))


def in_torch() -> Embedding:
    network, _ = model.embedder()

    def embed(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return network(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()

    return embedded("PyTorch", embed)


def in_module(program: toolchain.Program, target: str, folder: Path) -> Embedding:
    output = folder / f"sentences.{target.replace(':', '-')}.vmfb"
    options = toolchain.CompileOptions(output=output)
    done = toolchain.compile_with_report(program, target, options)
    size = output.stat().st_size / 1024
    print(f"{target:10} {size:.0f} KB in {done.report.total:.1f} s; {done.report.check}")
    with runtime.load(output) as module:
        return embedded(target, lambda ids, mask: module.main(ids, mask))


def table(ways: list[Embedding]) -> str:
    lines = [f"{'':10} {'max error':>10} {'same ranking':>13} {'ms per sentence':>16}"]
    for way in ways:
        error = max(
            np.abs(way.library - ways[0].library).max(),
            np.abs(way.questions - ways[0].questions).max(),
        )
        same = f"{(way.ranking == ways[0].ranking).all(axis=1).sum()} of {len(way.ranking)}"
        lines.append(
            f"{way.where:10} {'' if way is ways[0] else f'{error:.1e}':>10} "
            f"{'' if way is ways[0] else same:>13} {way.seconds / model.BATCH * 1e3:>16.1f}"
        )
    return "\n".join(lines)


def answers(way: Embedding) -> str:
    library = data.library()
    lines = []
    for question, order, cosines in zip(data.QUESTIONS, way.ranking, way.similarity, strict=True):
        best = library[order[0]]
        text = best.text if len(best.text) <= 64 else f"{best.text[:61]}…"
        lines.append(f"{question}\n  {cosines[order[0]]:.2f}  {text}\n        {best.source}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", action="append", help="default: cpu and vulkan")
    parser.add_argument("--keep", type=Path, help="a folder for program, weights and modules")
    chosen = parser.parse_args()

    ways = [in_torch()]
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        weights = folder / "sentences.safetensors"
        try:
            program = exporters.export_source(
                f"{Path(__file__).with_name('model.py')}:embedder", external_weights=weights
            ).save(folder / "sentences.mlirbc")
            print(f"weights    {weights.stat().st_size / 1e6:.0f} MB, one file for every module")
            for target in chosen.target or ["cpu", "vulkan"]:
                ways.append(in_module(program, target, folder))
        except EdgecError as error:
            print(error, file=sys.stderr)
            return error.exit_code
    print(f"\n{len(ways[0].library)} sentences, {len(data.QUESTIONS)} questions")
    print(table(ways))
    print(f"\n{answers(ways[-1])}")
    same = all((way.ranking == ways[0].ranking).all() for way in ways)
    print("\nEvery way ranks them alike." if same else "\nTHE RANKINGS DIFFER.")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
