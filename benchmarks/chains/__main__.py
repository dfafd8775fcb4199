"""Draw small programs, check their answers and write docs/chains.md.

    python -m benchmarks.chains                    # 150 programs on the CPU and as many on Vulkan
    python -m benchmarks.chains --only 203 249     # these, and why they are not right; no page

GPUs are another machine's, which needs neither JAX nor the compiler:

    python -m benchmarks.chains --target=cuda                              # here: build/chains/cuda
    python -m benchmarks.operators.elsewhere build/chains/cuda rows.jsonl  # there
    python -m benchmarks.chains --ran=cuda=rows.jsonl                      # here: all, and the page

With `--long` sizes are up to 3,001, as threads that go in step and workgroups share them; so
programs have other arguments and operations than those of the same seeds without.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.chains.chain import ELEMENTS, Chain, drawn
from benchmarks.chains.check import CALLS, FAR, Verdict, checked, kept, made
from benchmarks.chains.steps import LONG, SIZES
from benchmarks.standing import measured_at, sentence
from benchmarks.vulkan_device import vulkan_device

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "chains.md"
_MADE = ROOT / "build" / "chains"
_DEVICES = {"cpu": "edgert://cpu", "vulkan": "edgert://vulkan"}
_ELSEWHERE = {
    "cuda": "cuda:sm_90",
    "hopper": "vulkan:nvidia-hopper",
    "amd": "vulkan:amd-rdna3",
    "adreno": "vulkan:adreno",
    "mali": "vulkan:mali-g710",
}
"""Targets of another machine's devices, by the names of their folders."""
_FIRST = 9000
"""Seeds below were looked at while edgec was worked on."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--target",
        action="append",
        choices=(*_DEVICES, *_ELSEWHERE),
        help="default: cpu, vulkan; those of named GPUs are only compiled",
    )
    parser.add_argument(
        "--element", action="append", choices=ELEMENTS, help="type of the values; default: all"
    )
    parser.add_argument("--first", type=int, default=_FIRST, help="the first seed")
    parser.add_argument("--count", type=int, default=150, help="programs a target")
    parser.add_argument("--only", type=int, nargs="+", help="seeds; writes no page")
    parser.add_argument("--long", action="store_true", help="sizes of up to 3,001")
    parser.add_argument(
        "--ran",
        action="append",
        default=[],
        metavar="TARGET=FILE",
        help="what became of modules elsewhere",
    )
    chosen = parser.parse_args()
    seeds = chosen.only or range(chosen.first, chosen.first + chosen.count)
    elements = chosen.element or list(ELEMENTS)
    targets = list(chosen.target or _DEVICES)
    sizes = LONG if chosen.long else SIZES
    for target in [each for each in targets if each in _ELSEWHERE]:
        _make(seeds, elements, target, sizes)
        targets.remove(target)
    commit = measured_at()
    found: dict[str, list[Verdict]] = {}
    for target in targets:
        for element in elements:
            chains = (drawn(seed, element, sizes) for seed in seeds)
            found[f"{target}, {element}"] = _run(chains, element, target, chosen.only)
    device = ""
    for target, file in (each.split("=", 1) for each in chosen.ran):
        verdicts, device = kept(_MADE / target, Path(file))
        for element in elements:
            name = f"{_ELSEWHERE[target]}, {element}"
            found[name] = [each for each in verdicts if each.element == element]
            print(f"{name}: {_right(found[name])} of {len(found[name])} right")
            for each in found[name]:
                if (chosen.only or chosen.long) and each.outcome != "right":
                    print(_line(each))
    if found and not chosen.only and not chosen.long:
        PAGE.write_text(_page(found, seeds, commit, device), encoding="utf-8")
    return 0


def _run(chains: Iterable[Chain], element: str, target: str, only: bool) -> list[Verdict]:
    found = []
    with tempfile.TemporaryDirectory(prefix="edgec-chains-") as folder:
        for chain in chains:
            found.append(checked(chain, target, _DEVICES[target], Path(folder)))
            if found[-1].outcome != "right" or only:
                print(f"{target}: {_line(found[-1])}", flush=True)
    print(f"{target}, {element}: {_right(found)} of {len(found)} right", flush=True)
    return found


def _make(seeds: Sequence[int], elements: Sequence[str], target: str, sizes: Sequence[int]) -> None:
    made_in, name = _MADE / target, _ELSEWHERE[target]
    shutil.rmtree(made_in, ignore_errors=True)
    made_in.mkdir(parents=True)
    for element in elements:
        for seed in seeds:
            verdict = made(drawn(seed, element, sizes), name, made_in)
            if verdict.outcome != "compiled":
                print(f"{name}: {_line(verdict)}", flush=True)
    there = len(list(made_in.glob("*.vmfb")))
    print(f"{name}: {there} of {len(seeds) * len(elements)} compiled")


def _page(
    found: dict[str, list[Verdict]], seeds: Sequence[int], commit: str, elsewhere: str
) -> str:
    device = vulkan_device("not here")
    cuda = [
        f"CUDA is {elsewhere}, with modules compiled here: the time is that of compiling, and all",
        "calls must give the same bits.",
    ]
    lines = [
        "# Chains of operations",
        "",
        "Programs that nobody wrote: a product, a convolution, a sum or an array, and up to four",
        "operations behind it (slices, paddings, joins, transpositions, sums, norms,",
        "loops, branches …), a quarter of them differentiated, of sizes that were drawn, too.",
        f"The seeds here are {seeds[0]} to {seeds[-1]}; seeds below {_FIRST} were looked at while",
        "edgec was worked on. Each is exported from JAX, compiled, called on edgert's driver",
        f"{CALLS} times and compared with XLA's answer on this machine's CPU; `right` is within",
        f"{FAR['f32']:g} of the largest number of an answer, or of 1; in f16 within {FAR['f16']:g}",
        f"and in bf16 within {FAR['bf16']:g} of XLA's answer in f32 to the same numbers, or four",
        "times as far from it as XLA's own answer in that type is, or as that answer moves when",
        "arguments are rounded once more.",
        f"Vulkan is {device}.",
        *(cuda if elsewhere else []),
        "",
        "<!-- not run: a quiet machine: it compiles for minutes -->",
        "```console",
        "$ python -m benchmarks.chains",
        "```",
        "",
        sentence([commit]),
        "",
        "| target | programs | right | wrong | refused or failed | seconds a program |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for target, verdicts in found.items():
        wrong = sum(verdict.outcome.startswith("wrong") for verdict in verdicts)
        others = len(verdicts) - wrong - _right(verdicts)
        seconds = sum(verdict.seconds for verdict in verdicts) / len(verdicts)
        lines.append(
            f"| {target} | {len(verdicts)} | {_right(verdicts)} | {wrong} | {others} | "
            f"{seconds:.1f} |"
        )
    for target, verdicts in found.items():
        left = [verdict for verdict in verdicts if verdict.outcome != "right"]
        lines += ["", f"## What is not right on {target}", ""]
        lines += [f"- {_line(verdict)}" for verdict in left] or ["Nothing."]
    return "\n".join(lines) + "\n"


def _line(verdict: Verdict) -> str:
    apart = f", {verdict.error:.1e} apart" if verdict.outcome in ("right", "wrong") else ""
    what = f"{verdict.seed} in {verdict.element} (`{verdict.label}`)"
    return f"{what}: {verdict.outcome[:200]}{apart}"


def _right(verdicts: Sequence[Verdict]) -> int:
    return sum(verdict.outcome == "right" for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(main())
