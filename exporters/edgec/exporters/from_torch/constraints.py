"""Why torch.export fixes a dimension that was asked to be dynamic, and where it would not.

A model may do another thing where a size is 1, or small: torch.export takes the way that the
example takes, and refuses a range that holds others.
"""

import re

from edgec.runtime.errors import ExportError

__all__ = ["explain_constraint"]

_GUARD = re.compile(
    r"Not all values of (?P<name>\w+) = (?P<size>L\[.+?\]\.size\(\)\[\d+\]) in the specified "
    r"range (?P<low>\d+) <= \w+(?: <= (?P<high>\d+))? satisfy the generated guard (?P<guard>.+)"
)
_PLAIN = re.compile(r"[\w\s()+*/<>=!,.-]+")
_TRIED = 4096


def explain_constraint(text: str, where: str | None) -> ExportError:
    """The error for what torch.export says of constraints that are violated."""
    lines = [line.strip(" -\t") for line in text.splitlines() if line.strip()]
    said = next((line for line in lines[1:] if line), lines[0] if lines else "")
    found = _GUARD.search(said)
    hint = "narrow the range, or leave that dimension static"
    if found is not None:
        guard = found["guard"].partition("Specializations")[0].strip(" .")
        guard = guard.replace(found["size"], found["name"]).replace("(-1)", "-1")
        low, high = int(found["low"]), int(found["high"] or _TRIED)
        least = _least(guard, found["name"], low, min(high, low + _TRIED))
        said = f"{found['name']} in the range {low}..{found['high'] or ''} has to satisfy {guard}"
        if least is not None:
            hint = f"write {found['name']}={least}..{found['high'] or ''}, where that holds"
    return ExportError(
        f"the model fixes a dimension that was asked to be dynamic: {said}", where=where, hint=hint
    )


def _least(guard: str, name: str, low: int, high: int) -> int | None:
    """The least size from which on the guard holds, if it holds at the upper end."""
    if not _PLAIN.fullmatch(guard) or set(re.findall(r"[A-Za-z_]\w*", guard)) != {name}:
        return None
    try:
        code = compile(guard, "guard", "eval")
        holds = [bool(eval(code, {"__builtins__": {}}, {name: n})) for n in range(low, high + 1)]
    except (SyntaxError, ArithmeticError):
        return None
    if not holds[-1] or all(holds):
        return None
    return low + len(holds) - holds[::-1].index(False)
