"""Models that nobody tuned edgec for: `python -m benchmarks.zoo`, or `make zoo`.

Each is built with seeded weights, exported, compiled, proved on every target, and timed beside
ONNX Runtime and OpenVINO. Rows are kept in build/zoo.jsonl as they come: a run can be stopped and
gone on with. A fifth of each list is held out, to be looked at only when the work is done.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from benchmarks.coverage.process import ROOT, in_child
from benchmarks.peers.page import write_page
from benchmarks.zoo import kept
from benchmarks.zoo.catalogue import KINDS, WITH_PEERS
from benchmarks.zoo.child import ONNX, PROGRAM, compiled
from benchmarks.zoo.page import page
from benchmarks.zoo.plot import draw
from benchmarks.zoo.row import OUT, Row, Store
from benchmarks.zoo.speed import ENGINES
from benchmarks.zoo.subject import Subject, drawn, sampled
from benchmarks.zoo.sweep import CodeChanged, Sweep, code_digest, folder_of

_TARGETS = ("cpu", "vulkan")
_STEPS = ("built", "right", "ready", "speed", "compile", "arm")
"""What `--only` may ask for: which names have a model (and why others have none), proofs, all that
timing needs made, times of calls and of compiling, instructions on 64-bit Arm (after
`benchmarks/zoo/arm/machine.sh build/arm64`)."""


def main() -> int:
    chosen = _arguments()
    store = Store(chosen.store)
    if chosen.compare is not None:
        return _compare(Store(chosen.compare), store)
    timed = chosen.only == "speed" or (chosen.only is None and chosen.kind == ["users"])
    sweep = Sweep(
        store=store,
        code=code_digest(),
        stale=chosen.stale,
        targets=chosen.target if chosen.only in (None, "right") else (),
        compiles=chosen.target if chosen.only == "compile" else (),
        arm=chosen.only == "arm",
        ready=chosen.only == "ready",
        threads=chosen.threads if timed else (),
        engines=chosen.engine,
        rounds=chosen.rounds,
        seconds=chosen.seconds,
        limit=chosen.slow,
        keep=chosen.keep or chosen.kept,
        tell=_tell,
    )
    alone = timed or chosen.only == "compile"
    subjects = _subjects(chosen)
    with ThreadPoolExecutor(1 if alone else chosen.jobs) as pool:
        try:
            if chosen.only == "built":
                return _tell_missing(subjects, pool.map(sweep.missing, subjects))
            rows = list(pool.map(lambda s: sweep.one(s, again=chosen.again), subjects))
        except CodeChanged as changed:
            raise SystemExit(
                f"edgec's code changed while {changed} was at work: that one has no row, those "
                "before it are kept; run this again"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)
            sweep.close()
    _sum_up(rows, chosen.target, chosen.threads)
    if chosen.write:
        _write(list(store.rows.values()))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.zoo", description=__doc__.splitlines()[0])
    parser.add_argument("--kind", action="append", choices=KINDS, help="default: users")
    parser.add_argument(
        "--name", action="append", help="only names that contain this, or one of these"
    )
    parser.add_argument("--limit", type=int, help="the first so many of each kind's random order")
    parser.add_argument(
        "--held-out", choices=("with", "without", "only"), default="with", help="the held out fifth"
    )
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="of the networks that docs/zoo.md calls right and the peers take, so many by chance, "
        "spread over the kinds; --only=ready makes what is timed, --only=speed --kept --stale then "
        "times it and does nothing else",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--only", choices=_STEPS, help="default: right; for users speed, too")
    parser.add_argument("--target", action="append", choices=_TARGETS, help="default: all")
    parser.add_argument("--threads", type=_counts, default=(1, 2), help="default: 1,2")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="default: all")
    parser.add_argument("--rounds", type=int, default=5, help="turns of an engine")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--jobs", type=int, default=1, help="models at a time, if not timed")
    parser.add_argument("--slow", type=float, default=300, help="seconds that a step may take")
    parser.add_argument("--keep", action="store_true", help="keep files, to time models later")
    parser.add_argument("--kept", action="store_true", help="only models whose files were kept")
    parser.add_argument("--again", action="store_true", help="forget what is known")
    parser.add_argument(
        "--stale", action="store_true", help="leave rows and kept files of older code as they are"
    )
    parser.add_argument("--list", action="store_true", help="print the names and do nothing")
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "zoo.jsonl")
    parser.add_argument(
        "--write", action="store_true", help="then write all that is known to docs/zoo.md"
    )
    parser.add_argument("--compare", type=Path, metavar="OLD", help="say what got worse, and end")
    chosen = parser.parse_args()
    chosen.kind = chosen.kind or ["users"]
    chosen.target = chosen.target or list(_TARGETS)
    chosen.engine = chosen.engine or list(ENGINES)
    return chosen


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


def _subjects(chosen: argparse.Namespace) -> list[Subject]:
    found = _sample(chosen) if chosen.sample else []
    for kind in () if chosen.sample else chosen.kind:
        names = in_child("benchmarks.zoo.child", "list", kind, seconds=600)
        if isinstance(names, dict):
            raise SystemExit(f"{kind}: {names['what']}")
        wanted = [
            subject
            for subject in drawn(kind, names)
            if any(part in subject.name for part in chosen.name or [""])
            and (chosen.held_out == "with" or subject.held_out == (chosen.held_out == "only"))
            and (not chosen.kept or (folder_of(subject) / PROGRAM).exists())
        ]
        found += wanted[: chosen.limit]
    if chosen.list:
        print("\n".join(f"{s.key}{'  held out' if s.held_out else ''}" for s in found))
        raise SystemExit(0)
    return found


def _sample(chosen: argparse.Namespace) -> list[Subject]:
    """Networks by chance, whatever their kind; with `--kept`, of those that are ready."""
    known = kept.read(ROOT / "docs" / "zoo").values()
    right = (
        Subject(kind=row.kind, name=row.name)
        for row in known
        if row.kind in WITH_PEERS and row.state("cpu") == "right"
    )
    ready = (s for s in right if not chosen.kept or _is_ready(folder_of(s)))
    return sampled(ready, chosen.sample, seed=chosen.seed)


def _is_ready(folder: Path) -> bool:
    return compiled("cpu", folder).exists() and (folder / ONNX).exists()


def _tell(row: Row, there: bool) -> None:
    states = "  ".join(f"{t} {row.state(t)}" for t in _TARGETS if row.state(t))
    speed = "  ".join(
        f"{threads} thread{'s' if threads != '1' else ''} "
        + (f"{found[0]:.2f} of {found[1]}" if (found := row.ratio(int(threads))) else "alone")
        for threads in row.times
    )
    speed += "  ".join(
        f"compiling for {t} takes {ratio:.2f} of the compiler alone"
        for t in row.compiles
        if (ratio := row.compile_ratio(t, "core")) is not None
    )
    if row.arm_ratio is not None:
        speed += "  on Arm {:.2f} of {}'s instructions".format(*row.arm_ratio)
    reason = next((row.reason(t) for t in _TARGETS if row.state(t) not in ("", "right")), "")
    reason = "held out" if reason and row.held_out else reason
    print(
        f"{row.key:44} {states}  {speed}  {reason[:160]}{'  (kept)' if there else ''}", flush=True
    )


def _tell_missing(subjects: list[Subject], reasons: Iterable[str]) -> int:
    """Print what has no model and why, as it comes; of what is held out, the names alone."""
    there = 0
    for subject, reason in zip(subjects, reasons, strict=True):
        there += not reason
        if reason:
            said = "held out" if subject.held_out else reason
            print(f"{subject.key:44} {said}", flush=True)
    print(f"{there} of {len(subjects)} have a model")
    return 0


def _sum_up(rows: list[Row], targets: list[str], threads: tuple[int, ...]) -> None:
    for held_out in (False, True):
        part = [row for row in rows if row.held_out == held_out]
        for target in targets:
            states = Counter(s for row in part if (s := row.state(target)) not in ("", OUT))
            if states:
                said = ", ".join(f"{count} {state}" for state, count in states.most_common())
                name = "held out" if held_out else "worked on"
                print(f"{name}, {target}: {states['right']} of {states.total()} right ({said})")
    for target in targets:
        taken = sorted(c for row in rows if (c := row.compile_ratio(target, "core")) is not None)
        if taken:
            print(f"compiling for {target}: median {median(taken):.2f} of the compiler alone")
    for count in threads:
        ratios = sorted(found[0] for row in rows if (found := row.ratio(count)))
        if ratios:
            middle = ratios[len(ratios) // 2]
            print(
                f"{count} thread{'s' if count > 1 else ''}: best peer / edgec, median {middle:.2f},"
                f" worst {ratios[0]:.2f}, {sum(r >= 0.9 for r in ratios)} of {len(ratios)} >= 0.9"
            )


def _write(rows: list[Row]) -> None:
    docs = ROOT / "docs"
    known = kept.read(docs / "zoo")
    for row in rows:
        before = known.get(row.key)
        known[row.key] = row if before is None else row.with_older(before)
    kept.write(docs / "zoo", known.values())
    rows = sorted(kept.read(docs / "zoo").values(), key=lambda row: row.key)
    drawn_one = draw(rows, docs / "zoo.png")
    text = page(
        rows,
        picture="zoo.png" if drawn_one else None,
        commits={commit for row in rows for commit in row.commits},
    )
    (docs / "zoo.md").write_text(text, encoding="utf-8")
    write_page(docs)
    print("wrote docs/zoo.md, docs/zoo.png, the rows in docs/zoo, and docs/benchmarks.md of them")


def _compare(old: Store, new: Store) -> int:
    """Print what got worse; 1 if anything did."""
    worse = 0
    for key, row in sorted(new.rows.items()):
        before = old.rows.get(key)
        if before is None:
            continue
        for target in _TARGETS:
            if before.state(target) == "right" and row.state(target) not in ("", "right"):
                print(f"{key}: {target} was right, is {row.state(target)}: {row.reason(target)}")
                worse += 1
        for threads in row.times:
            was, now = before.ratio(int(threads)), row.ratio(int(threads))
            if was and now and now[0] < 0.95 * was[0]:
                print(f"{key}: {threads} threads {was[0]:.2f} -> {now[0]:.2f} of the best peer")
                worse += 1
    print(f"{worse} got worse")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
