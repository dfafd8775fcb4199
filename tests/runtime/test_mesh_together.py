"""Devices that wait for each other, as functions that wait for events."""

import threading
import time
from functools import partial

import pytest

from edgec.runtime.errors import DeviceError
from edgec.runtime.mesh.together import Together

SECONDS = 20.0


def test_all_begin_at_once_and_each_gives_its_own():
    both = threading.Barrier(2, timeout=SECONDS)
    crew = Together(2)

    def give(what):
        both.wait()
        return what

    for turn in range(3):
        assert crew([partial(give, "a"), partial(give, turn)]) == ["a", turn]
    crew.close()


def test_one_that_fails_while_the_others_end_leaves_all_ready():
    def fail():
        raise DeviceError("out of memory")

    crew = Together(2)
    with pytest.raises(DeviceError, match="out of memory"):
        crew([lambda: 1, fail])
    assert crew.stranded == ""
    assert crew([lambda: 1, lambda: 2]) == [1, 2]
    crew.close()


def test_who_waits_for_one_that_failed_is_not_waited_for():
    never = threading.Event()

    def fail():
        raise DeviceError("the GPU is gone")

    crew = Together(3, grace=0.2)
    start = time.monotonic()
    with pytest.raises(DeviceError, match="device 1 of the mesh failed, and 0, 2 wait") as caught:
        crew([never.wait, fail, never.wait])
    assert time.monotonic() - start < SECONDS
    assert "the GPU is gone" in str(caught.value)
    assert "end this process" in caught.value.hint
    with pytest.raises(DeviceError, match="wait for it"):
        crew([lambda: 1, lambda: 2, lambda: 3])
    never.set()
    crew.close()
