"""Every pass's own docstring to `docs/passes.md` and a page for each kind of pass."""

import importlib
import inspect
import re
from pathlib import Path

from edgec.toolchain.passes import CATALOGUE, ESSENTIAL, Pass

DOCS = Path(__file__).parents[1] / "docs"
_FOLDERS = ("legalise", "simplify", "place")
_OPENING = """# edgec's compiler passes

Between an exported program and `iree-compile` stand edgec's own rewrites of the program, in this
order. Each runs only where the target and the program need it; what is written here is what the
pass says of itself (`scripts/passes_page.py` writes these pages), with the measurement that earned
it its place, in full behind its name. Each has a test with the program before and after it.

```console
$ edgec compile net.mlirbc --print-passes                    # what each does to this program
$ edgec compile net.mlirbc --disable-pass=channels-last      # without one of them
```
"""


_BACK = "Their order, and when each runs, is in [passes.md](../passes.md)."


def pages() -> dict[str, str]:
    """The texts of the overview and of a page for each kind of pass, by their places in docs."""
    rows = ["| pass | what it does | for | runs |", "|---|---|---|---|"]
    parts = {folder: [f"# {_title(folder)}\n\n{_BACK}\n"] for folder in _FOLDERS}
    last = []
    for kind in CATALOGUE:
        text = inspect.cleandoc(kind.__doc__ or "")
        purpose, _, rest = text.partition("\n")
        runs = inspect.cleandoc(kind.plan.__doc__ or "").partition("\n")[0]
        folder = kind.__module__.split(".passes.")[1].partition(".")[0]
        place = f"passes/{folder}.md#{kind.name}" if folder in parts else f"#{kind.name}"
        note = " (cannot be left out)" if kind.name in ESSENTIAL else ""
        cells = (f"[{kind.name}]({place})", purpose, kind.purpose.value, f"{_lower(runs)}{note}")
        rows.append(f"| {' | '.join(cells)} |")
        body = f"## {kind.name}\n\n**{purpose}**\n\n{_body(kind, rest)}\n"
        parts.get(folder, last).append(body)
    overview = "\n".join([_OPENING, *rows, "", *last])
    return {"passes.md": overview} | {
        f"passes/{folder}.md": "\n".join(bodies) for folder, bodies in parts.items()
    }


def _title(folder: str) -> str:
    """What the folder of such passes says that they are."""
    text = importlib.import_module(f"edgec.toolchain.passes.{folder}").__doc__ or ""
    return text.strip().rstrip(".")


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _body(kind: type[Pass], rest: str) -> str:
    """A docstring without its list of attributes, one line a paragraph."""
    text = rest.split("\nAttributes:")[0].strip()
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(p if p.lstrip().startswith(("|", "-")) else _one_line(p) for p in paragraphs)


def _one_line(paragraph: str) -> str:
    return " ".join(line.strip() for line in paragraph.splitlines())


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")
