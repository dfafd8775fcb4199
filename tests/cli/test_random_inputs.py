import numpy as np
import pytest

from edgec.cli.random_inputs import random_inputs, sizes_of
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError
from edgec.runtime.signature import Dim, Signature, TensorSpec

BATCH, LENGTH = Dim(name="batch", minimum=0, maximum=8), Dim(name="length", minimum=3)


def takes(*shapes: tuple[int | Dim, ...], dtype: DType = DType.F32) -> Signature:
    specs = [TensorSpec(name=f"x{i}", shape=s, dtype=dtype) for i, s in enumerate(shapes)]
    return Signature.flat("main", specs, [])


@pytest.mark.parametrize("dtype", DType)
def test_every_type_has_random_numbers_that_a_seed_repeats(dtype: DType) -> None:
    signature = takes((64,), (2, 3), dtype=dtype)
    first, again, other = (random_inputs(signature, seed=seed, sizes={}) for seed in (1, 1, 2))
    assert [a.shape for a in first] == [(64,), (2, 3)]
    assert all(DType.of(a.dtype) is dtype for a in first)
    np.testing.assert_array_equal(first[0], again[0])
    assert not np.array_equal(first[0], other[0])
    if not dtype.is_float:
        assert set(np.unique(first[0]).tolist()) == {0, 1}


def test_named_sizes_are_the_smallest_of_at_least_one_unless_given() -> None:
    signature = takes((BATCH, LENGTH), (LENGTH,))
    assert sizes_of(signature) == {"batch": 1, "length": 3}
    shapes = [a.shape for a in random_inputs(signature, seed=0, sizes={"length": 5})]
    assert shapes == [(1, 5), (5,)]


def test_sizes_out_of_bounds_or_beyond_memory_are_refused() -> None:
    with pytest.raises(InputError, match="out of batch"):
        random_inputs(takes((BATCH,)), seed=0, sizes={"batch": 9})
    with pytest.raises(InputError, match="GiB of memory"):
        random_inputs(takes((LENGTH,)), seed=0, sizes={"length": 10**15})
