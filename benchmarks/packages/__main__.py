"""Weigh packages of the samples, and write the table into docs/package.md.

python -m benchmarks.packages [--sample digits] [--whole]
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.packages.measure import ROWS, Measured, Size, measure
from benchmarks.packages.whole import KINDS, Whole, weigh
from benchmarks.standing import measured_at, sentence
from edgec.toolchain import Program, load_program

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "package.md"
SIZES = "<!-- sizes: python -m benchmarks.packages -->", "<!-- end of sizes -->"
WHOLE = "<!-- whole: python -m benchmarks.packages --whole -->", "<!-- end of whole -->"

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


def table_of_whole(found: dict[str, dict[str, Whole]]) -> str:
    """Packages for the usual devices of their kind: shared weights, and how it would be without."""
    heads = "".join(f" {name}, a copy in each | {name}, shared |" for name in found)
    lines = [f"| package | variants |{heads}", f"|---|---:|{'---:|---:|' * len(found)}"]
    for kind in KINDS:
        rows = [found[name][kind] for name in found]
        sizes = "".join(f" {amount(row.copies)} | {amount(row.shared)} |" for row in rows)
        lines.append(f"| `--{kind}` | {rows[0].variants} |{sizes}")
    return "\n".join(lines)


def program_of(name: str, folder: Path) -> Program:
    """A sample's program."""
    path = folder / f"{name}.mlirbc"
    code = f"import sys; from pathlib import Path; out = Path(sys.argv[1])\n{SAMPLES[name]}"
    subprocess.run([sys.executable, "-c", code, path], cwd=ROOT / "samples" / name, check=True)
    return load_program(path)


def write(marks: tuple[str, str], made: str) -> None:
    """Put a table into its place in the page."""
    begin, end = marks
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    stamp = sentence([measured_at()])
    PAGE.write_text(f"{head}{begin}\n{made}\n\n{stamp}\n{end}{tail}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", action="append", choices=SAMPLES, help="default: all")
    parser.add_argument("--whole", action="store_true", help="whole packages, for several devices")
    given = parser.parse_args()
    chosen = given.sample or list(SAMPLES)
    found: dict[str, dict[str, Measured]] = {name: {} for name in chosen}
    whole: dict[str, dict[str, Whole]] = {name: {} for name in chosen}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in chosen:
            program = program_of(name, folder)
            for kind in KINDS if given.whole else ():
                whole[name][kind] = weigh(program, kind, name, folder)
                print(f"{name}, {kind}: {whole[name][kind]}", flush=True)
            for row in () if given.whole else ROWS:
                found[name][row.label] = measure(program, row, name, folder)
                print(f"{name}, {row.label}: {found[name][row.label]}", flush=True)
    made = table_of_whole(whole) if given.whole else table(found)
    print(made)
    if chosen == list(SAMPLES):
        write(WHOLE if given.whole else SIZES, made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
