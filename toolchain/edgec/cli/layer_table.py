"""What became of the values on the way to a table by source line, and the error that names one."""

from collections.abc import Sequence

from edgec.cli.report import Block, Grid
from edgec.runtime.errors import WrongAnswer
from edgec.verifying import Fate, Framework, Layer, Layers, Looked, State

__all__ = ["layer_blocks", "layer_failure"]

_MOST_LINES = 4
"""Further lines of one value that are all written out."""
_HEAD, _TAIL = 24, 23
_WIDEST = _HEAD + 1 + _TAIL
"""Letters of a node's name in a table."""
_WORST_FIRST = (
    *(State.WRONG, State.AFTER, State.RIGHT),
    *(State.UNKNOWN, State.MOVED, State.INSIDE, State.UNSEEN),
)


def layer_blocks(looked: Looked) -> tuple[Block, ...]:
    """The table, and what it does not show."""
    layers = looked.layers
    first = layers.first_wrong
    counts = ", ".join(
        f"{layers.count(state)} {text}"
        for state, text in (
            (State.RIGHT, "right"),
            (State.WRONG, "wrong"),
            (State.AFTER, "behind it"),
            (State.MOVED, "a value in another order"),
            (State.INSIDE, "of no value of the model's, and what is made of them is right"),
            (State.UNKNOWN, "of no value of the model's, and not known"),
            (State.UNSEEN, "not seen"),
        )
        if layers.count(state)
    )
    nested = f"; {layers.nested} dispatches in loops are not looked into" if layers.nested else ""
    blocks: list[Block] = [
        _grid(layers),
        f"{len(layers.layers)} values are written: {counts}",
        f"{layers.fused} values of the model are inside of kernels{nested}",
    ]
    if layers.framework is not None:
        blocks += _framework_lines(layers.framework)
    if looked.export_problem:
        blocks.append(
            "the program itself is off: NumPy's evaluation of it does not give the framework's "
            f"answers: {looked.export_problem}"
        )
    if first is not None:
        blocks.append(f"first wrong: {_place(first)}")
    return tuple(blocks)


def _framework_lines(framework: Framework) -> list[str]:
    """What became of the framework's own values."""
    compared, inside, absent = (framework.count(fate) for fate in Fate)
    lines = [
        f"of {framework.name}'s {len(framework.found)} values {compared} are written by kernels "
        f"and compared with, {inside} are inside of kernels, and {absent} have no operation in the "
        "program"
    ]
    other = framework.first_other
    if other is not None:
        lines.append(f"the program is first another than the model at {other.line}: {other.name}")
    return lines


def layer_failure(looked: Looked, subject: str) -> WrongAnswer | None:
    """The error that names the first line that is wrong; None where none is."""
    first = looked.layers.first_wrong
    if first is None:
        return None
    problem = first.why or ("" if first.comparison is None else first.comparison.problem)
    return WrongAnswer(
        f"{subject} is wrong first in {_what(first)}{problem and f': {problem}'}",
        where=_place(first),
        hint="`edgec verify PROGRAM --bisect` says what makes it so",
    )


def _grid(layers: Layers) -> Grid:
    rows = []
    for line, values in _by_line(layers.layers).items():
        state = min((each.state for each in values), key=_WORST_FIRST.index)
        errors = [each.error for each in values if each.error is not None]
        worst = [each.comparison.max_abs for each in values if each.comparison is not None]
        names = dict.fromkeys(each.name.rpartition(".")[2] for each in values if each.name)
        rows.append(
            (
                line,
                ", ".join(names),
                str(len(values)),
                f"{max(errors):.1e}" if errors else "",
                f"{max(worst):.1e}" if worst else "",
                state.value,
            )
        )
    return Grid(
        columns=("line", "ends in", "values", "error", "worst", ""),
        rows=tuple(rows),
        right=frozenset({2, 3, 4}),
    )


def _by_line(layers: Sequence[Layer]) -> dict[str, list[Layer]]:
    found: dict[str, list[Layer]] = {}
    for each in layers:
        found.setdefault(_short(each), []).append(each)
    return found


def _short(each: Layer) -> str:
    """As `_place`; names of nodes, which are long and several a value, cut to fit a table."""
    if not each.line.startswith("node "):
        return _place(each)
    ends = list(dict.fromkeys((each.line, *each.lines[-1:])))
    texts = [line if len(line) <= _WIDEST else f"{line[:_HEAD]}…{line[-_TAIL:]}" for line in ends]
    return (", …, " if len(each.lines) > 2 else ", ").join(texts)


def _place(each: Layer) -> str:
    """`net.py:12, 14`, or the kernel's name where no line is known."""
    if not each.line:
        return each.kernel or f"dispatch {each.number}"
    file = each.line.rpartition(":")[0]
    others = [
        line.rpartition(":")[2] if line.rpartition(":")[0] == file else line
        for line in each.lines[1:]
    ]
    if len(others) > _MOST_LINES:
        others = ["…", others[-1]]
    return ", ".join([each.line, *others])


def _what(each: Layer) -> str:
    made = f"the kernel {each.kernel}" if each.kernel else "a kernel that the compiler made"
    return f"what {made} writes"
