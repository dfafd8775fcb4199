"""The rows of the zoo to docs/zoo.md."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from benchmarks.standing import sentence
from benchmarks.zoo.catalogue import KINDS
from benchmarks.zoo.row import LACKS, OUT, SLOW, UNSETTLED, Row
from benchmarks.zoo.subject import KNOWN

__all__ = ["page"]

_TARGETS = ("cpu", "vulkan")
_APART = (SLOW, LACKS, UNSETTLED)
"""States that are counted apart from those that are right or not."""
_ALL = 0.995
"""What is no less would be told as all of them."""
_OPERATORS = ("onnx-files", "onnx-nodes")
"""Kinds that test operators more than whole networks."""
_MOST_NAMES = 150
"""A list of more that are right is a number, and the file that has their names."""
_KINDS: Mapping[str, str] = {
    "users": "Ten models at real size, as their users export them",
    "known": "What was known to fail, and its fate",
    "transformers": "`transformers`: one small model of each family",
    "causal": "`transformers`: small causal language models with a cache (state, or answer)",
    "chat": "`transformers`: small language models as folders, the text that they write (`edgec export hf:FOLDER`)",  # noqa: E501
    "timm": "`timm`: the smallest model of each module",
    "torchvision": "`torchvision`: one model of each family",
    "diffusers": "`diffusers`: its models made small",
    "keras": "`keras.applications`",
    "keras-hub": "`keras_hub`: its backbones made small",
    "flax": "`flaxmodels`, in Flax",
    "equimo": "`equimo`, in Equinox: the smallest model of each family",
    "tflite": "The .tflite files of `mediapipe`",
    "tflite-keras": "`keras.applications` as .tflite, in f32 and in 8-bit integers",
    "onnx-exported": "ONNX files by torch.onnx, tf2onnx and skl2onnx",
    "onnx-files": "The ONNX project's light networks, and its tests that PyTorch exported",
    "packages": "Trained .onnx and .tflite files that packages on PyPI carry",
    "onnx-nodes": "ONNX' own tests of its operators (opsets to the newest, answers of the tests)",
}


def page(rows: Sequence[Row], *, picture: str | None, commits: Iterable[str]) -> str:
    """The page.

    Args:
        rows: all that is known.
        picture: the name of the picture beside it; None where nothing was timed.
        commits: short names of the commits that the rows were measured at.
    """
    parts = [_HEAD.format(commits=sentence(sorted(commits)) if commits else "")]
    parts.append(_totals([row for row in rows if row.kind != KNOWN]))
    if picture is not None:
        parts.append(_speeds([row for row in rows if row.times], picture))
    parts += [table for table in (_compiling(rows), _on_arm(rows)) if table]
    for kind in KINDS:
        found = [row for row in rows if row.kind == kind]
        if found:
            parts.append(_kind(kind, found))
    return "\n".join(parts)


_HEAD = f"""# The zoo

Models of libraries that nobody tuned edgec for, written by `python -m benchmarks.zoo --write`. Each has seeded weights, is exported, compiled, and proved by its framework's own answers, each step in a process of its own with limits of time and memory. Which models of a list are taken is drawn by a hash of their names; a fifth, by another hash, is **held out**: nobody looks at those while they work on edgec. Counted apart are models that are {SLOW} (they compiled, and software stands in for the GPU), and those {LACKS} (they take or give 64-bit floats, which the GPU has not), and tests with {UNSETTLED} (edgec refuses them; ONNX Runtime or onnx.reference gives others than the file, or others at each call). {{commits}}
"""  # noqa: E501


def _totals(rows: Sequence[Row]) -> str:
    lines = [
        "| list | part | models | cpu | vulkan |",
        "|---|---|--:|--:|--:|",
    ]
    for kind in KINDS:
        for held_out in (False, True):
            part = [
                row
                for row in rows
                if row.kind == kind and row.held_out == held_out and row.state("cpu") != OUT
            ]
            if part:
                name = "held out" if held_out else "worked on"
                cells = " | ".join(_share(part, target) for target in _TARGETS)
                lines.append(f"| {kind} | {name} | {len(part)} | {cells} |")
    for held_out in (False, True):
        part = [row for row in rows if row.held_out == held_out and row.state("cpu") != OUT]
        if part:
            name = "held out" if held_out else "worked on"
            cells = " | ".join(_share(part, target) for target in _TARGETS)
            lines.append(f"| **all** | {name} | {len(part)} | {cells} |")
    return "\n".join(
        ["## Right answers", "", _count(rows), "", *lines, "", *_proofs(rows), *_devices(rows)]
    )


def _count(rows: Sequence[Row]) -> str:
    """How many networks there are, without what tests single operators."""
    found = Counter(row.held_out for row in rows if row.state("cpu") != OUT)
    tests = Counter(
        row.held_out for row in rows if row.state("cpu") != OUT and row.kind in _OPERATORS
    )
    return (
        f"{found.total() - tests.total()} architectures ({found[True] - tests[True]} of them held "
        f"out), and {tests.total()} tests of ONNX' operators and of small files."
    )


def _proofs(rows: Sequence[Row]) -> list[str]:
    """Which right answers prove little."""
    poor = [row for row in rows if row.state("cpu") == "right" and row.results["cpu"].get("proves")]
    if not poor:
        return []
    found = ", ".join(f"{row.key} ({row.results['cpu']['proves']})" for row in poor)
    return [f"Right, but the framework's own answers prove little: {found}.", ""]


def _devices(rows: Sequence[Row]) -> list[str]:
    """What computed each target's answers: software stands in for a GPU that is not here."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for target, result in row.results.items():
            if result.get("device"):
                found.setdefault(target, set()).add(result["device"])
    return [f"Answers of {t} were computed by {', '.join(sorted(n))}.\n" for t, n in found.items()]


def _share(rows: Sequence[Row], target: str) -> str:
    asked = [row for row in rows if target in row.results or target == _TARGETS[0]]
    states = Counter(row.state(target) for row in asked)
    apart = [f"{count} {state}" for state in _APART if (count := states[state])]
    known = sum(count for state, count in states.items() if state not in ("", OUT, *_APART))
    if not known and not apart:
        return ""  # nothing was asked of this target
    wrong = f", {states['wrong']} wrong" if states["wrong"] else ""
    part = states["right"] / known if known else 1
    told = f"{part:.0%}" if part == 1 or part < _ALL else f"{int(1000 * part) / 10}%"
    share = f" ({told}{wrong})" if known else ""
    return "; ".join([f"{states['right']} of {known}{share}", *apart])


def _speeds(rows: Sequence[Row], picture: str) -> str:
    counts = sorted({int(threads) for row in rows for threads in row.times})
    heads = " | ".join(f"{count} thread{'s' if count > 1 else ''}" for count in counts)
    lines = [
        "## Speed",
        "",
        "Milliseconds a call on edgert, and the best peer's time over edgec's (above 1, edgec is "
        "faster); which peer that is; the share of arithmetic in edgec's own kernels. "
        "`--sample=40 --only=ready` makes what a random sample of networks needs, "
        "`--sample=40 --only=speed --kept --stale` times it and does nothing else.",
        "",
        f"![The best peer's time over edgec's]({picture})",
        "",
        f"| model | {heads} | own kernels |",
        f"|---|{'--:|' * (len(counts) + 1)}",
    ]
    for row in rows:
        cells = " | ".join(_time(row, count) for count in counts)
        share = row.results.get("cpu", {}).get("own")
        own = "" if share is None else f"{share:.0%}"
        lines.append(f"| {row.name} | {cells} | {own} |")
    return "\n".join([*lines, ""])


def _compiling(rows: Sequence[Row]) -> str:
    """What compiling takes beside the compiler alone, by target; empty if it was not timed."""
    lines = []
    for target in _TARGETS:
        ratios = {
            what: sorted(r for row in rows if (r := row.compile_ratio(target, what)) is not None)
            for what in ("core", "seconds")
        }
        core, clock = ratios["core"], ratios["seconds"]
        if core:
            cells = (len(core), median(core), core[-1], sum(r <= 1.5 for r in core) / len(core))
            lines.append(
                "| {} | {} | {:.2f} | {:.2f} | {:.0%} | {:.2f} |".format(
                    target, *cells, median(clock)
                )
            )
    if not lines:
        return ""
    head = [
        "## Compile time",
        "",
        "What compiling takes with edgec over what the compiler alone takes with the same flags, "
        "where it takes the program (`--only=compile`). Seconds of a core are what counts: other "
        "work on the machine, which there was, changes those of a clock.",
        "",
        "| target | models | median, of a core | worst | at most 1.5 | median, of a clock |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    return "\n".join([*head, *lines, ""])


def _on_arm(rows: Sequence[Row]) -> str:
    """Instructions of a call on 64-bit Arm; empty if none were counted."""
    counted = [(row, found) for row in rows if (found := row.arm_ratio) is not None]
    if not counted:
        return ""
    lines = [
        "## Instructions on Arm",
        "",
        "Millions of instructions of a call on one thread for `cpu:arm64-v8.2`, counted under qemu "
        "(a Neoverse N1; `--only=arm`), and the best peer's over edgec's (above 1, edgec needs "
        "fewer); the peers are their wheels for aarch64: ONNX Runtime (`ort`), and for .tflite "
        "files LiteRT with XNNPACK.",
        "",
    ]
    for part, held_out in (("worked on", False), ("held out", True)):
        ratios = [ratio for row, (ratio, _) in counted if row.held_out == held_out]
        if ratios:
            lines += [
                f"- {part}: median {median(ratios):.2f}, worst {min(ratios):.2f}, "
                f"{sum(ratio >= 1 for ratio in ratios)} of {len(ratios)} at or above 1"
            ]
    lines += ["", "| model | edgec | peer / edgec |", "|---|--:|--:|"]
    lines += [
        f"| {row.key}{' (held out)' * row.held_out} | {row.arm['edgec'] / 1e6:.2f} | "
        f"**{ratio:.2f}** ({peer}) |"
        for row, (ratio, peer) in counted
    ]
    return "\n".join([*lines, ""])


def _time(row: Row, threads: int) -> str:
    found = row.ratio(threads)
    if found is None:
        return ""
    ratio, peer = found
    ours = row.times[str(threads)]["edgec"]
    return f"{ours:.2f} ms, **{ratio:.2f}** ({peer})"


def _fates(rows: Sequence[Row]) -> list[str]:
    lines = ["| what | cpu | vulkan | |", "|---|---|---|---|"]
    for row in rows:
        failing = [t for t in _TARGETS if row.state(t) not in ("right", "")]
        why = row.reason(failing[0]).replace("|", "\\|")[:240] if failing else ""
        lines.append(f"| {row.name} | {' | '.join(row.state(t) for t in _TARGETS)} | {why} |")
    return lines


def _kind(kind: str, rows: Sequence[Row]) -> str:
    lines = [f"## {_KINDS[kind]}", ""]
    measured = sorted({commit for row in rows for commit in row.commits})
    lines += [sentence(measured), ""] if measured else []
    if kind == KNOWN:
        return "\n".join([*lines, *_fates(rows), ""])
    right = [row for row in rows if all(row.state(t) in ("right", "") for t in _TARGETS)]
    if len(right) > _MOST_NAMES:
        lines += [f"Right where they ran: {len(right):,}; [zoo/{kind}.json](zoo/{kind}.json).", ""]
    elif right:
        lines += [f"Right where they ran: {_names(right)}.", ""]
    out = [row for row in rows if row.state("cpu") == OUT]
    if out:
        lines += [f"No subjects (too large, or not built by their library): {_names(out)}.", ""]
    others = [row for row in rows if row not in right and row not in out]
    if others:
        lines += ["| not right | cpu | vulkan | why |", "|---|---|---|---|"]
    for row in others:
        failing = next(t for t in _TARGETS if row.state(t) not in ("right", ""))
        why = row.reason(failing).replace("|", "\\|")[:160]
        states = " | ".join(row.state(t) for t in _TARGETS)
        lines.append(f"| {_marked(row)} | {states} | {why} |")
    return "\n".join([*lines, ""])


def _names(rows: Sequence[Row]) -> str:
    return ", ".join(_marked(row) for row in rows)


def _marked(row: Row) -> str:
    return f"{row.name} (held out)" if row.held_out else row.name
