"""How far answers are from others, of floats and of whole numbers."""

import numpy as np

from edgec.quantising.answers import distance
from edgec.runtime.golden import Golden, GoldenCall


def golden(*outputs: np.ndarray) -> Golden:
    return Golden(
        calls=tuple(GoldenCall(signature="main", inputs=(), outputs=(each,)) for each in outputs)
    )


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
