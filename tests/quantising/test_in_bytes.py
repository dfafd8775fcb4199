"""Programs whose convolutions and products are put into bytes: their answers, table and kernels."""

from pathlib import Path

import numpy as np
import pytest

from edgec.exporters import export
from edgec.quantising import quantise_to_bytes
from edgec.quantising.ranges import ByteRange, Seen
from edgec.runtime import load
from edgec.runtime.errors import UsageError, WrongAnswer
from edgec.runtime.golden import GoldenCall
from edgec.targets import find
from edgec.toolchain import CompileOptions, Program, compile
from edgec.toolchain.kernels.cpu.source.dot_unit import dot_unit


def network(x):
    """A convolution, a depthwise one, a residual sum, a mean and a product."""
    import jax

    rng = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        fan = int(np.prod(shape[:-1]))
        return (rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)

    def convolution(y, kernel, groups=1):
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            y, kernel, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=groups
        )

    y = convolution(x, weights(3, 3, 3, 32)) * weights(32) + weights(32)  # a batch norm
    y = jax.nn.relu(y)
    z = jax.nn.relu(convolution(y, weights(3, 3, 1, 32), 32))
    y = y + convolution(z, weights(1, 1, 32, 32))
    wide = y.mean((1, 2)) @ weights(32, 128)
    # Rows are counted anew between two products, as in a transformer.
    return jax.nn.gelu(wide.reshape(2, 64)) @ weights(64, 64)


@pytest.fixture(scope="module")
def program() -> Program:
    image = np.random.default_rng(1).standard_normal((1, 12, 12, 3)).astype(np.float32)
    return export(network, (image,))


def test_ranges_hold_zero_and_leave_little_off() -> None:
    seen = Seen()
    numbers = np.random.default_rng(0).standard_normal(5000)
    seen.add("even", numbers)
    seen.add("outlier", np.concatenate([numbers, [400.0]]))
    seen.add("positive", np.abs(numbers))
    seen.add("none", np.zeros(5))
    found = seen.ranges()
    for name, each in found.items():
        assert each.rounded(np.zeros(1))[0] == 0, name
    assert np.abs(found["even"].rounded(numbers) - numbers).max() < 0.15
    assert found["positive"].zero == -128
    assert found["positive"].scale < 0.6 * found["even"].scale
    assert found["none"] == ByteRange(scale=1.0, zero=0)


def test_a_network_in_bytes_is_near_and_its_module_is_proved(
    program: Program, tmp_path: Path
) -> None:
    found = quantise_to_bytes(program)
    assert 0 < found.error < 0.05
    assert found.after < 0.4 * found.before
    assert [line.activations for line in found.lines] == ["int8"] * 3
    assert all(line.error is not None and 0 < line.error < 0.05 for line in found.lines)
    assert [kept[2] for kept in found.kept] == []
    saved = found.program.save(tmp_path / "bytes.mlirbc")
    assert program.golden is not None
    (call,) = program.golden.calls[:1]
    path = tmp_path / "bytes.vmfb"
    module = compile(saved, "cpu", CompileOptions(output=path))
    assert module.facts.check.startswith("checked")
    if dot_unit(find("cpu")) is not None:  # what reads floats keeps them as such
        assert path.stat().st_size < found.before
    (answer,) = call.outputs
    with load(path) as loaded:
        assert np.abs(np.asarray(loaded.main(*call.inputs)) - answer).max() < 0.2 * answer.std()


def test_what_is_asked_for_stays_and_bounds_are_kept(program: Program) -> None:
    worst = quantise_to_bytes(program).lines[0].where
    found = quantise_to_bytes(program, keep=[worst.rpartition("/")[2]])
    assert worst not in [line.where for line in found.lines]
    assert worst in [kept[0] for kept in found.kept]
    with pytest.raises(WrongAnswer, match="is allowed"):
        quantise_to_bytes(program, max_error=found.error * 0.7)
    with pytest.raises(UsageError, match=r"nowhere\.py:3"):
        quantise_to_bytes(program, keep=["nowhere.py:3"])


def test_ranges_come_from_the_calls_that_are_given(program: Program) -> None:
    assert program.golden is not None
    (call,) = program.golden.calls[:1]
    large = GoldenCall(
        signature=call.signature, inputs=(50 * call.inputs[0],), outputs=call.outputs
    )
    assert (
        quantise_to_bytes(program, calibrate=[large]).error > 4 * quantise_to_bytes(program).error
    )


def test_a_program_without_such_weights_is_refused() -> None:
    plain = export(lambda x: x @ x, (np.ones((8, 8), np.float32),))
    with pytest.raises(UsageError, match="nothing that is computed in bytes"):
        quantise_to_bytes(plain)


def test_a_loop_through_a_batch_has_one_range_a_layer() -> None:
    images = np.random.default_rng(1).standard_normal((2, 12, 12, 3)).astype(np.float32)
    weights = np.random.default_rng(2).standard_normal((432, 64)).astype(np.float32)

    def rows(x):
        return (x.reshape(x.shape[0], -1) @ weights).clip(0) @ weights[:64, :64]

    looped = export(rows, (images,), dynamic="n=1..20")
    (call,) = [call for call in looped.golden.calls if len(call.inputs[0]) == 1]
    made = quantise_to_bytes(looped, calibrate=[call])
    whole = made.program.golden.calls[1].outputs[0]
    alone = made.program.golden.calls[2].outputs[0]
    np.testing.assert_allclose(whole[0], alone[0], 1e-5, 1e-5)
    np.testing.assert_allclose(whole[8], whole[0], 1e-5, 1e-5)
