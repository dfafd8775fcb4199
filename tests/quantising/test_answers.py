"""How far answers are from others, of floats and of whole numbers."""

import numpy as np

from edgec.quantising.answers import Answers, distance
from edgec.runtime.golden import Golden, GoldenCall


def golden(*outputs: np.ndarray, **states: np.ndarray) -> Answers:
    calls = (GoldenCall(signature="main", inputs=(), outputs=(each,)) for each in outputs)
    return Answers(golden=Golden(calls=tuple(calls)), states=states)


def test_of_floats_it_is_the_worst_call_as_a_part_of_its_spread():
    values = np.linspace(-1, 1, 64, dtype=np.float32)
    other = values + np.float32(0.1) * values.std()
    found = distance(golden(values, other), golden(values, values))
    np.testing.assert_allclose(found, 0.1, 1e-3)


def test_of_tokens_it_is_the_share_of_all_calls():
    tokens = [np.int32(number).reshape(()) for number in (4, 8, 15, 16)]
    wrong = [*tokens[:3], np.int32(23).reshape(())]
    assert distance(golden(*wrong), golden(*tokens)) == 0.25
    assert distance(golden(*tokens), golden(*tokens)) == 0


def test_where_answers_are_tokens_what_is_remembered_counts():
    token, scores = np.int32(3).reshape(()), np.linspace(-1, 1, 64)
    other = scores + 0.1 * scores.std()
    found = distance(golden(token, scores=other), golden(token, scores=scores))
    np.testing.assert_allclose(found, 0.1, 1e-3)
    floats = np.ones(4, np.float32)
    assert distance(golden(floats, scores=other), golden(floats, scores=scores)) == 0
