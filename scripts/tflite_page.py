"""The table of TensorFlow Lite's operators to the end of `docs/tflite.md`."""

from pathlib import Path

from edgec.exporters.from_tflite.control import CONTROL
from edgec.exporters.from_tflite.operators import OPERATORS

PAGE = Path(__file__).parents[1] / "docs/tflite.md"
_HEAD = "| operator | quantised | needs |\n|---|---|---|\n"


def page() -> str:
    """The page's text: what is written above the table, and the table."""
    opening, head, _ = PAGE.read_text(encoding="utf-8").partition(_HEAD)
    rows = [
        f"| `{kind}` | {operator.numbers.value} | {operator.note} |\n"
        for kind, operator in OPERATORS.items()
    ]
    rows += [f"| `{kind}` | as its subgraphs | shapes that stay the same |\n" for kind in CONTROL]
    return opening + head + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
