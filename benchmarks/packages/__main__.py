"""Weigh packages of the samples, and write the table into docs/package.md.

python -m benchmarks.packages [--sample digits]
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.packages.measure import ROWS, Measured, Size, measure
from benchmarks.standing import measured_at, sentence
from edgec.toolchain import load_program

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "package.md"
BEGIN, END = "<!-- sizes: python -m benchmarks.packages -->", "<!-- end of sizes -->"

# How each sample makes its program; the digits for one image.
SAMPLES = {
    "digits": "import model; from edgec import exporters\n"
    "f, (x,) = model.classifier(); exporters.export(f, (x[:1],)).save(out)",
    "sentences": "import model; from edgec import exporters\n"
    "f, x = model.embedder(); exporters.export(f, x).save(out)",
}


def table(found: dict[str, dict[str, Measured]]) -> str:
    """The runtime once, as it is the same for every model; then each model."""
    samples = list(found)
    lines = [f"| package | runtime | {' | '.join(f'{name}, model' for name in samples)} |"]
    lines.append("|---|---:|" + "---:|" * len(samples))
    for label in found[samples[0]]:
        sizes = [found[samples[0]][label].runtime, *(found[name][label].model for name in samples)]
        lines.append(f"| {label} | {' | '.join(map(cell, sizes))} |")
    return "\n".join(lines)


def cell(size: Size) -> str:
    """`137 KB (61 KB)`: as it is, and compressed."""
    return f"{amount(size.plain)} ({amount(size.packed)})"


def amount(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} KB"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", action="append", choices=SAMPLES, help="default: all")
    chosen = parser.parse_args().sample or list(SAMPLES)
    found: dict[str, dict[str, Measured]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in chosen:
            path = folder / f"{name}.mlirbc"
            code = f"import sys; from pathlib import Path; out = Path(sys.argv[1])\n{SAMPLES[name]}"
            sample = ROOT / "samples" / name
            subprocess.run([sys.executable, "-c", code, path], cwd=sample, check=True)
            program = load_program(path)
            found[name] = {}
            for row in ROWS:
                found[name][row.label] = measure(program, row, name, folder)
                print(f"{name}, {row.label}: {found[name][row.label]}", flush=True)
    made = table(found)
    print(made)
    if list(found) != list(SAMPLES):
        return 0
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    stamp = sentence([measured_at()])
    PAGE.write_text(f"{head}{BEGIN}\n{made}\n\n{stamp}\n{END}{tail}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
