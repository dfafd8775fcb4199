"""Ask a language model's module, and write its answer as it comes."""

import argparse
from pathlib import Path

from edgec.runtime.text import TextModel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", type=Path)
    parser.add_argument("question", nargs="?", default="What is the capital of France?")
    given = parser.parse_args()
    with TextModel(given.module) as model:
        answer = model.chat(given.question)
        for piece in answer:
            print(piece, end="", flush=True)
        print(f"\n({answer.finish.value}: {answer.stats})")


if __name__ == "__main__":
    main()
