"""Every pass's own docstring to `docs/passes.md`."""

import inspect
import re
from pathlib import Path

from edgec.toolchain.passes import CATALOGUE, ESSENTIAL, Pass

PAGE = Path(__file__).parents[1] / "docs/passes.md"
_OPENING = """# edgec's compiler passes

Between an exported program and `iree-compile` stand edgec's own rewrites of the program, in this
order. Each runs only where the target and the program need it; what is written here is what the
pass says of itself (`scripts/passes_page.py` writes this page), with the measurement that earned
it its place. Each has a test with the program before and after it.

```console
$ edgec compile net.mlirbc --print-passes                    # what each does to this program
$ edgec compile net.mlirbc --disable-pass=channels-last      # without one of them
```
"""


def page() -> str:
    """The page's text."""
    rows = ["| pass | what it does | for | runs |", "|---|---|---|---|"]
    parts = []
    for kind in CATALOGUE:
        text = inspect.cleandoc(kind.__doc__ or "")
        purpose, _, rest = text.partition("\n")
        runs = inspect.cleandoc(kind.plan.__doc__ or "").partition("\n")[0]
        anchor = kind.name
        note = " (cannot be left out)" if kind.name in ESSENTIAL else ""
        cells = (f"[{kind.name}](#{anchor})", purpose, kind.purpose.value, f"{_lower(runs)}{note}")
        rows.append(f"| {' | '.join(cells)} |")
        parts.append(f"## {kind.name}\n\n**{purpose}**\n\n{_body(kind, rest)}\n")
    return "\n".join([_OPENING, *rows, "", *parts])


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
    PAGE.write_text(page(), encoding="utf-8")
