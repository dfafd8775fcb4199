"""Streams of calls through stages that are NumPy functions: order, bounds, and failures."""

import contextlib
import threading
import time

import numpy as np
import pytest

from edgec.runtime.errors import DeviceError
from edgec.runtime.stream import Stage, streamed

SECONDS = 20.0
"""Longer than any of these takes; what waits for ever would be seen by it."""


def _double(given):
    return [given[0] * 2]


def _plus(given):
    return [given[0] + given[1]]


# 2 x + y, on devices 0, then 1 or 2.
STAGES = (
    Stage(works={0: _double}, inputs=(0,), outputs=(2,)),
    Stage(works={1: _plus, 2: _plus}, inputs=(2, 1), outputs=(3,)),
)


def _calls(count):
    return [(np.full(3, i, np.float32), np.float32(i * i)) for i in range(count)]


@pytest.mark.parametrize("in_flight", [1, 2, 7])
def test_answers_come_in_the_order_of_the_calls(in_flight):
    found = list(streamed(STAGES, (3, 0), iter(_calls(20)), in_flight=in_flight))
    assert len(found) == 20
    for i, (y, x) in enumerate(found):
        np.testing.assert_array_equal(y, np.full(3, 2 * i + i * i, np.float32))
        np.testing.assert_array_equal(x, np.full(3, i, np.float32))


def test_devices_work_at_the_same_time():
    # Each stage waits for the other one to be at work on another call.
    both = threading.Barrier(2, timeout=SECONDS)

    def meet(given):
        both.wait()
        return given

    stages = (
        Stage(works={0: meet}, inputs=(0,), outputs=(1,)),
        Stage(works={1: meet}, inputs=(1,), outputs=(2,)),
    )
    # The first stage is met by nobody at the first call, nor the second at the last.
    threading.Thread(target=both.wait, daemon=True).start()
    stream = streamed(stages, (2,), [(np.float32(i),) for i in range(4)], in_flight=2)
    helper = threading.Thread(target=both.wait)
    taken = [next(stream)[0] for _ in range(3)]
    helper.start()
    assert [*taken, next(stream)[0]] == [0, 1, 2, 3]
    helper.join()


def test_devices_that_make_the_same_step_share_the_calls():
    met = threading.Barrier(2, timeout=SECONDS)
    makers = []

    def make(number):
        def work(given):
            met.wait()
            makers.append(number)
            return given

        return work

    stage = Stage(works={0: make(0), 1: make(1)}, inputs=(0,), outputs=(1,))
    found = list(streamed((stage,), (1,), [(np.float32(i),) for i in range(6)], in_flight=4))
    assert [float(each[0]) for each in found] == [0, 1, 2, 3, 4, 5]
    assert sorted(makers) == [0, 0, 0, 1, 1, 1]


def test_no_more_inputs_are_taken_than_calls_may_be_under_way():
    asked = []

    def calls():
        for i, call in enumerate(_calls(50)):
            asked.append(i)
            yield call

    with contextlib.closing(streamed(STAGES, (3,), calls(), in_flight=4)) as stream:
        next(stream)
        assert len(asked) == 4
        next(stream)
        assert len(asked) == 5


def test_a_stage_that_fails_ends_the_stream_with_its_error():
    def fail(given):
        if given[0][0] == 3:
            raise DeviceError("the device is gone")
        return given

    stages = (STAGES[0], Stage(works={1: fail}, inputs=(0,), outputs=(3,)))
    stream = streamed(stages, (3,), _calls(20), in_flight=4)
    before = threading.active_count()
    assert [float(next(stream)[0][0]) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DeviceError, match="is gone"):
        next(stream)
    assert _ended(before)


def test_inputs_that_fail_end_the_stream_and_its_threads():
    def calls():
        yield from _calls(2)
        raise ValueError("no more")

    before = threading.active_count()
    with pytest.raises(ValueError, match="no more"):
        list(streamed(STAGES, (3,), calls(), in_flight=2))
    assert _ended(before)


def test_a_stream_that_is_left_ends_its_threads():
    before = threading.active_count()
    stream = streamed(STAGES, (3,), _calls(20), in_flight=4)
    next(stream)
    assert threading.active_count() == before + 3
    stream.close()
    assert _ended(before)


def _ended(before):
    end = time.monotonic() + SECONDS
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    return threading.active_count() <= before
