"""What a language model's process holds, step by step: Python, module, prompt, tokens, tokenizer.

python -m benchmarks.text.memory smol.vmfb
python -m benchmarks.text.memory smol.vmfb --program=build/chat

Each line is what is in memory then, and of it what files have that are mapped (weights, code). Such
a program is `samples/chat/c`, built: an app without Python, which is asked the same number of
tokens or so.
"""

import argparse
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_PROMPT, _TOKENS = 256, 40
_QUESTION = "What is the capital of France, and of Spain, and of Italy? " * 15


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--program", type=Path, help="samples/chat/c, built")
    chosen = parser.parse_args()
    print("| | MB | of mapped files |\n|---|---|---|")
    if chosen.program is not None:
        # While this process is smaller than it: a child's most begins with what its parent held.
        print(f"| {chosen.program.name}, in C, at most |", f"{_program(chosen):.0f} | |")
    for step in _steps(chosen.module, chosen.threads):
        whole, files = _held()
        print(f"| {step} | {whole:.0f} | {files:.0f} |", flush=True)
    return 0


def _program(chosen: argparse.Namespace) -> float:
    """The most MB that the program held."""
    weights = chosen.module.with_suffix(".safetensors")
    words = [str(chosen.program), str(chosen.module), f"--threads={chosen.threads}"]
    words += [f"--weights={weights}"] if weights.exists() else []
    words += [f"--limit={_TOKENS}", _QUESTION]
    subprocess.run(words, check=True, capture_output=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6


def _steps(path: Path, threads: int) -> Iterator[str]:
    from edgec.runtime.text import TextModel

    yield "Python and edgec"
    with TextModel(path, device=f"cpu?threads={threads}") as model:
        yield "the module, open"
        tokens = [(7919 * i + 13) % 1000 for i in range(_PROMPT)]
        found = model.next_token(tokens)
        yield f"a prompt of {_PROMPT} tokens, read"
        for _ in range(_TOKENS):
            tokens.append(found)
            found = model.next_token(tokens)
        yield f"{_TOKENS} tokens, written"
        model.tokenizer.decode(tokens)
        yield "the tokenizer of the package tokenizers"


def _held() -> tuple[float, float]:
    """MB in memory, and of them those of mapped files."""
    found = {}
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "RssFile"):
            found[name] = int(value.split()[0]) * 1024 / 1e6
    return found["VmRSS"], found["RssFile"]


if __name__ == "__main__":
    sys.exit(main())
