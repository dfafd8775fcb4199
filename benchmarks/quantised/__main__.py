"""What bytes on both sides cost networks, and how much sooner they answer.

python -m benchmarks.quantised --keep FOLDER
python -m benchmarks.quantised --keep FOLDER --write

Programs and modules stay in the folder, so that a second run, on a quiet machine, only times them.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.peers.company import Company
from benchmarks.quantised.cases import CASES, SEEDED, Case
from benchmarks.standing import measured_at, sentence
from edgec.exporters import export
from edgec.quantising import Scheme, quantise_to_bytes, quantise_with_rounded_rows
from edgec.runtime import load
from edgec.runtime.golden import GoldenCall
from edgec.toolchain import CompileOptions, Program, compile, load_program

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks_quantised.md"
_CALLS = 60
_RANGES, _ROWS = "int8", "rows"
"""Bytes by ranges that were seen before, and by what each row of a call has."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A network in f32 and in bytes."""

    name: str
    error: float
    judged: tuple[str, str]
    sizes: tuple[int, int] | None
    seconds: dict[int, tuple[float, float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(CASES))
    parser.add_argument("--keep", type=Path, required=True, help="a folder")
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--nncf", metavar="PYTHON", help="one that has nncf and openvino")
    parser.add_argument(
        "--litert",
        type=Path,
        metavar="FOLDER",
        help="where ai_edge_quantizer and litert_torch are (`pip install --no-deps --target`)",
    )
    parser.add_argument("--write", action="store_true", help="the page")
    chosen = parser.parse_args()
    chosen.keep.mkdir(parents=True, exist_ok=True)
    company = Company()
    rows: list[Row] = []
    for name in chosen.only or CASES:
        case = CASES[name]()
        for kind in (_RANGES, *[_ROWS] * case.by_rows):
            rows.append(_row(name, case, chosen.keep, chosen.threads or (1, 2), kind))
        if chosen.nncf is not None and case.write_onnx is not None:
            rows.append(_by_nncf(name, case, chosen.keep, chosen.nncf))
        if chosen.litert is not None and case.write_tflite is not None:
            rows += _by_litert(name, case, chosen.keep, chosen.litert)
    lines = [_HEAD, "|---|---|---|---|---|---|", *map(_line, rows)]
    print("\n".join(lines))
    busy = company.cores()
    print(f"other programs kept {busy} cores busy", file=sys.stderr)
    if chosen.write:
        said = "" if busy is None else f" Other programs kept {busy:.1f} cores busy meanwhile."
        PAGE.write_text(
            _PAGE.format(said=said, at=sentence([measured_at()]), table="\n".join(lines))
        )
    return 0


def _row(name: str, case: Case, folder: Path, threads: Sequence[int], kind: str) -> Row:
    paths = [folder / f"{name}.{each}.vmfb" for each in ("f32", kind)]
    program = _programs(case, folder / name, kind)
    for path, each in zip(paths, program, strict=True):
        if not path.exists():
            compile(each, "cpu", CompileOptions(output=path))
    loss = program[1].info.loss
    with load(paths[0]) as plain, load(paths[1]) as small:
        judged = (case.judge(plain.main), case.judge(small.main))
    return Row(
        name=name if kind == _RANGES else f"{name}, rows rounded at each call",
        error=0.0 if loss is None else loss.error,
        judged=judged,
        sizes=(paths[0].stat().st_size, paths[1].stat().st_size),
        seconds={count: _seconds(paths, case, count) for count in threads},
    )


def _by_nncf(name: str, case: Case, folder: Path, python: str) -> Row:
    """The network as NNCF quantises it, with the same ranges and on the same inputs."""
    network = folder / f"{name}.onnx"
    if case.write_onnx is not None and not network.exists():
        case.write_onnx(network)
    child = Path(__file__).with_name("nncf_child.py")
    label = f"{name}, NNCF on OpenVINO"
    return _by_other(label, name, case, folder, [python, str(child), str(network)])


def _by_litert(name: str, case: Case, folder: Path, packages: Path) -> list[Row]:
    """The network as ai-edge-quantizer quantises it: its activations by ranges, or at each call."""
    network = folder / f"{name}.tflite"
    if case.write_tflite is not None and not network.exists():
        case.write_tflite(network, packages)
    child = Path(__file__).with_name("litert_child.py")
    command = [sys.executable, str(child), str(packages), str(network)]
    return [
        _by_other(
            f"{name}, ai-edge-quantizer on LiteRT, {how}", name, case, folder, [*command, how]
        )
        for how in ("static", "dynamic")
    ]


def _by_other(label: str, name: str, case: Case, folder: Path, command: Sequence[str]) -> Row:
    """What a process says that is given ranges, inputs, and a file for its answers."""
    asked: list[tuple[np.ndarray, ...]] = []
    with load(folder / f"{name}.f32.vmfb") as plain:

        def recorded(*inputs: np.ndarray) -> np.ndarray:
            asked.append(inputs)
            return np.asarray(plain.main(*inputs))

        first = case.judge(recorded)
    calls, answers = asked or [case.inputs], folder / f"{name}.answers.npz"
    paths = [folder / f"{name}.{what}.npz" for what in ("ranges", "calls")]
    for path, some in zip(paths, (case.ranges or [case.inputs], calls), strict=True):
        arrays = {f"{i}/{j}": each for i, call in enumerate(some) for j, each in enumerate(call)}
        np.savez(path, **arrays)  # type: ignore[arg-type]
    given = [*command, *map(str, (*paths, answers))]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{label}: {done.stderr.strip()[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    with np.load(answers) as archive:
        in_turn = iter([archive[str(number)] for number in range(len(calls))])
        second = case.judge(lambda *_: next(in_turn))
    seconds = {int(count): (pair[0], pair[1]) for count, pair in found["seconds"].items()}
    return Row(
        name=label,
        error=found["error"],
        judged=(first, second),
        sizes=found.get("sizes"),
        seconds=seconds,
    )


def _programs(case: Case, stem: Path, kind: str) -> tuple[Program, Program]:
    """The program as it is exported and in bytes, from the folder where they are there."""
    paths = [stem.with_name(f"{stem.name}.{each}.mlirbc") for each in ("f32", kind)]
    if not paths[0].exists():
        model, inputs = case.model if isinstance(case.model, tuple) else (case.model, case.inputs)
        export(model, inputs).save(paths[0])
    plain = load_program(paths[0])
    if not paths[1].exists() and kind == _ROWS:
        found = quantise_with_rounded_rows(plain, Scheme(bits=8), calls=1, seconds=0)
        found.program.save(paths[1])
    elif not paths[1].exists():
        if plain.golden is None:
            raise SystemExit(f"{stem.name} has no golden answers")
        outputs = plain.golden.calls[0].outputs
        name = plain.golden.calls[0].signature
        calls = [GoldenCall(signature=name, inputs=each, outputs=outputs) for each in case.ranges]
        quantise_to_bytes(plain, calibrate=calls, calls=1, seconds=0).program.save(paths[1])
    return plain, load_program(paths[1])


def _seconds(paths: Sequence[Path], case: Case, threads: int) -> tuple[float, float]:
    """The least time of a call of both, which take turns."""
    modules = [load(path, device=f"cpu?threads={threads}") for path in paths]
    best = [float("inf")] * len(modules)
    for _ in range(_CALLS):
        for number, module in enumerate(modules):
            began = time.perf_counter()
            module.main(*case.inputs)
            best[number] = min(best[number], time.perf_counter() - began)
    for module in modules:
        module.close()
    return best[0], best[1]


def _line(row: Row) -> str:
    times = ", ".join(
        f"{one * 1e3:.2f} → {other * 1e3:.2f} ms ({one / other:.2f})"
        for one, other in row.seconds.values()
    )
    sizes = "" if row.sizes is None else " → ".join(f"{size / 1e6:.1f}" for size in row.sizes)
    # Answers that know nothing have no spread to measure by.
    error = "" if row.judged[0] == SEEDED else f"{row.error:.2%}"
    return f"| {row.name} | {row.judged[0]} | {row.judged[1]} | {error} | {sizes} | {times} |"


_HEAD = (
    "| network | f32 | int8 | error of the answers, of their spread | module, MB | "
    "a call on one and two threads, f32 → int8 (times as fast) |"
)
_PAGE = """# What int8 costs networks, and how much sooner they answer

`edgec quantise --weights=int8 --activations=int8` of the samples' networks, and of a
MobileNetV3Large with numbers from a seed, of which the time alone says something; of MiniLM with
`--activations=int8-dynamic`, too, which rounds each row by what a call has. Ranges are those
of other inputs than the networks are judged on: digits to learn from for digits held out, sentences
for questions; NNCF and ai-edge-quantizer see and are asked the same, the latter with activations
by ranges (`static_wi8_ai8`) and by what each call has (`dynamic_wi8_afp32`), on LiteRT with
XNNPACK; both keep looked-up tables in bytes. Both of a pair take turns, the least of 60 calls
counts.{said}
{at}

<!-- not run: a quiet machine: and packages with weights -->
```console
$ python -m benchmarks.quantised --keep FOLDER --nncf=PYTHON --litert=PACKAGES --write
```

{table}
"""


if __name__ == "__main__":
    sys.exit(main())
