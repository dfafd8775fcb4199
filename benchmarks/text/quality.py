"""What keeping a language model's weights in fewer bits costs: perplexity, and its greedy tokens.

python -m benchmarks.text.quality smol.vmfb smol8.vmfb smol4.vmfb

Each module reads a text token by token (`--text`; without it the sentences of `samples/sentences`,
beginnings of books in the public domain), and says how likely each next token was to it. Then each
answers three questions, 64 tokens each, and its tokens are compared with the first module's, up to
where the first of them differs.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from edgec.exporters.from_transformers.golden_text import QUESTIONS
from edgec.runtime.text import TextModel

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = ROOT / "samples" / "sentences" / "sentences.tsv"
_ANSWER = 64


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", type=Path, nargs="+", metavar="MODULE")
    parser.add_argument("--text", type=Path, help="a file of plain text")
    parser.add_argument("--tokens", type=int, default=512, help="the most that are read of it")
    parser.add_argument("--json", action="store_true", help="in place of a table")
    chosen = parser.parse_args()
    text = sentences() if chosen.text is None else chosen.text.read_text(encoding="utf-8")
    found: dict[str, dict[str, object]] = {}
    first: list[list[int]] = []
    for path in chosen.modules:
        with TextModel(path) as model:
            tokens = model.tokenizer.encode(text, special=True)[: chosen.tokens]
            worth = perplexity(list(scores_of(model, tokens)), tokens)
            answers = [_answer(model, question) for question in QUESTIONS]
        first = first or answers
        found[path.name] = {
            "tokens": len(tokens),
            "perplexity": worth,
            "alike": [alike(one, other) for one, other in zip(first, answers, strict=True)],
        }
    if chosen.json:
        print(json.dumps(found))
        return 0
    print(f"| module | perplexity of {len(tokens)} tokens | greedy tokens as the first's |")
    print("|---|---|---|")
    for name, each in found.items():
        counts = ", ".join(map(str, each["alike"]))  # type: ignore[call-overload]
        print(f"| {name} | {each['perplexity']:.2f} | {counts} |")
    return 0


def sentences() -> str:
    """The sentences of the sample, one behind the other."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    return " ".join(line.split("\t")[1] for line in lines)


def scores_of(model: TextModel, tokens: Sequence[int]) -> Iterator[np.ndarray]:
    """The scores of what follows each token but the last, read one by one."""
    for end in range(1, len(tokens)):
        model.next_token(tokens[:end])
        yield model.module.state()["logits"].astype(np.float64)


def perplexity(scores: Sequence[np.ndarray], tokens: Sequence[int]) -> float:
    """Between how many tokens a model wavers on average, each as likely as the others."""
    losses = [
        float(np.logaddexp.reduce(row) - row[token])
        for row, (_, token) in zip(scores, pairwise(tokens), strict=True)
    ]
    return float(np.exp(np.mean(losses)))


def alike(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two answers begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _answer(model: TextModel, question: str) -> list[int]:
    answer = model.chat(question, limit=_ANSWER)
    answer.whole()
    return answer.tokens


if __name__ == "__main__":
    sys.exit(main())
