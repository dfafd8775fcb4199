"""How tuning goes on, on stderr: one live line on a terminal, a line a candidate in a pipe."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgec.cli.amounts import seconds_text
from edgec.cli.layout import wants_colour
from edgec.cli.session import Session

if TYPE_CHECKING:
    from edgec.toolchain.tuning.search import News

__all__ = ["showing", "standing"]


@contextmanager
def showing(session: Session, budget: float) -> Iterator[Callable[["News"], None]]:
    """What to give to `tune` as `tell`; it says nothing if nobody looks."""
    if session.json or session.verbosity < 0:
        yield lambda news: None
        return
    if not sys.stderr.isatty():
        yield lambda news: _line(session, news)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), BarColumn(bar_width=16), TextColumn("{task.description}"))
    console = Console(file=sys.stderr, no_color=not wants_colour(sys.stderr))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=budget)

        def show(news: "News") -> None:
            if news.lasting:  # above the live line, where it stays
                bar.console.print(news.doing, highlight=False)
                return
            done = budget - news.left
            bar.update(task, completed=done, description=f"{standing(news)}: {news.doing}")

        yield show


def standing(news: "News") -> str:
    """`12 tried, best 1.23 ms (1.31 times as fast), 40 s left`."""
    tried = f"{news.tried} tried"
    if news.after:
        tried += f", best {seconds_text(news.after)} ({news.gain:.2f} times as fast)"
    return f"{tried}, {news.left:.0f} s left"


def _line(session: Session, news: "News") -> None:
    trial = news.trial
    if trial is None:
        if not news.quiet:
            session.say(f"{news.doing}; {standing(news)}" if news.tried else news.doing)
        return
    how = trial.reason or trial.outcome.value
    ratio = f" {trial.ratio:.3f} of the best's time," if trial.ratio is not None else ""
    session.say(f"{trial.name}:{ratio} {how}; {standing(news)}")
