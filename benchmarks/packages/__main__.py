"""Weigh packages of the samples, and write the table into docs/package.md.

python -m benchmarks.packages [--sample digits] [--whole] [--keep FOLDER]

The chat model's weights come from a package of 93 MB, and its package for the web takes minutes to
compile; with `--keep` its program stays in the folder, and edgec's cache keeps what is compiled.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
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
    "chat": "import fetch\n"
    "from edgec.exporters.from_transformers.export import export_language_model\n"
    "model = str(fetch.fetch(out.parent)); weights = out.with_suffix('.safetensors')\n"
    "export_language_model(model, external_weights=weights).save(out)",
}
# Those that write text.
TEXT = ("chat",)
# Whole packages are of these: the chat model's for all devices take most of an hour to compile.
WHOLE_SAMPLES = ("digits", "sentences")


def table(found: dict[str, dict[str, Measured]]) -> str:
    """The runtime, which is the same for every model, without text and with; and the models."""
    plain = [name for name in found if name not in TEXT]
    columns: list[tuple[str, Callable[[str], Size]]] = []
    for head, names in (("runtime", plain), ("runtime with text", [n for n in found if n in TEXT])):
        if names:
            columns.append((head, lambda label, name=names[0]: found[name][label].runtime))
        for name in names:
            columns.append((f"{name}, model", lambda label, name=name: found[name][label].model))
    lines = [f"| package | {' | '.join(head for head, _ in columns)} |"]
    lines.append(f"|---|{'---:|' * len(columns)}")
    for label in next(iter(found.values())):
        lines.append(f"| {label} | {' | '.join(cell(size(label)) for _, size in columns)} |")
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
    """A sample's program, which may be in the folder from another time."""
    path = folder / f"{name}.mlirbc"
    if not path.exists():
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
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where programs stay")
    given = parser.parse_args()
    every = WHOLE_SAMPLES if given.whole else tuple(SAMPLES)
    chosen = tuple(given.sample or every)
    found: dict[str, dict[str, Measured]] = {name: {} for name in chosen}
    whole: dict[str, dict[str, Whole]] = {name: {} for name in chosen}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        kept = given.keep.resolve() if given.keep else folder
        kept.mkdir(parents=True, exist_ok=True)
        for name in chosen:
            program = program_of(name, kept)
            for kind in KINDS if given.whole else ():
                whole[name][kind] = weigh(program, kind, name, folder)
                print(f"{name}, {kind}: {whole[name][kind]}", flush=True)
            for row in () if given.whole else ROWS:
                found[name][row.label] = measure(program, row, name, folder)
                print(f"{name}, {row.label}: {found[name][row.label]}", flush=True)
    made = table_of_whole(whole) if given.whole else table(found)
    print(made)
    if chosen == every:
        write(WHOLE if given.whole else SIZES, made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
