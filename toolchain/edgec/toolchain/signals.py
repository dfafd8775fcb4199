"""Steps that no signal's exception may cut in two."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["signals_held"]

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """What Ctrl-C, SIGTERM and SIGHUP call in Python waits until the end of the block.

    The block's children are as without it: handlers do not outlive the start of a program, as a
    mask of signals would. Outside the main thread nothing is held, for nothing is called there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    held = {number: handler for number, handler in before.items() if callable(handler)}
    try:
        for number in held:
            signal.signal(number, lambda *signalled: came.append(signalled))
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        for number, frame in came:
            held[number](number, frame)
