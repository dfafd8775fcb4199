"""Steps that were written out against PyTorch, and what becomes of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.kernels.cpu.source import VectorUnit
from edgec.toolchain.passes.simplify.roll_loops import RollLoops
from edgec.toolchain.stablehlo import parse_stablehlo

AVX512 = VectorUnit(lanes=16, registers=32, broadcasts=True)
STEPS = 10
W = (np.random.default_rng(0).standard_normal((16, 16)) / 4).astype(np.float32)
LARGE = np.arange(1100 * 1100, dtype=np.float32).reshape(1100, 1100)


def rewritten(function) -> tuple[str, int]:
    program = export(function, (jnp.zeros((STEPS, 2, 16)),))
    with ir.Context() as context:
        module = parse_stablehlo(program.bytecode, context)
        count = RollLoops(unit=AVX512).run(module)
        module.operation.verify()
        return str(module), count


def plain(x):
    h, states = jnp.zeros((2, 16)), []
    for step in range(STEPS):
        h = jnp.tanh(x[step] + h @ W)
        states.append(h)
    return jnp.stack(states), h


def backwards(x):
    h, states = jnp.zeros((2, 16)), []
    for step in reversed(range(STEPS)):
        h = jnp.tanh(x[step] + h @ W)
        states.insert(0, h)
    return jnp.concatenate([jnp.ones((1, 2, 16)), jnp.stack(states)])


@pytest.mark.parametrize("function", [plain, backwards])
def test_equal_steps_become_a_loop(function):
    after, count = rewritten(function)
    assert count == 1
    assert after.count("stablehlo.while") == 1
    assert after.count("stablehlo.dot_general") == 1
    assert after.count("stablehlo.tanh") == 1


def other_step(x):
    h, states = jnp.zeros((2, 16)), []
    for step in range(STEPS):
        h = (jnp.sin if step == 5 else jnp.tanh)(x[step] + h @ W)
        states.append(h)
    return jnp.stack(states)


def uneven(x):
    h, states = jnp.zeros((2, 16)), []
    for step in range(STEPS):
        h = jnp.tanh(x[step * step % 7] + h @ W)
        states.append(h)
    return jnp.stack(states)


def before_last(x):
    h = g = jnp.zeros((2, 16))
    states = []
    for step in range(STEPS):
        h, g = jnp.tanh(x[step] + g + h @ W), h
        states.append(h)
    return jnp.stack(states)


def large(x):
    h, states = jnp.zeros((2, 1100)), []
    for step in range(STEPS):
        h = jnp.tanh(x[step, 0, :1] + h @ LARGE)
        states.append(h)
    return jnp.stack(states)


def side_by_side(x):
    return jnp.stack([jnp.tanh(x[step] @ W) for step in range(STEPS)])


@pytest.mark.parametrize("function", [other_step, uneven, large, side_by_side])
def test_other_products_by_one_matrix_stay(function):
    after, count = rewritten(function)
    assert count == 0
    assert after.count("stablehlo.dot_general") == STEPS


class Recurrent(torch.nn.Module):
    """A layer in both directions, and one whose last state is a result, too."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.gru = torch.nn.GRU(12, 20, bidirectional=True, batch_first=True)
        self.lstm = torch.nn.LSTM(40, 24, batch_first=True)
        self.head = torch.nn.Linear(24, 5)

    def forward(self, x):
        y, (h, c) = self.lstm(self.gru(x)[0])
        return self.head(y), h, c


def test_answers_are_those_of_pytorch(tmp_path):
    model = Recurrent().eval()
    x = torch.randn(3, 9, 12, generator=torch.Generator().manual_seed(1))
    program = export(model, (x,))
    changes = run_passes(program, "cpu").changes
    assert changes["roll-loops"] == changes["recurrent-loops"] == 3
    module = compile(program, "cpu", CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded, torch.no_grad():
        for answer, wanted in zip(loaded.main(x.numpy()), model(x), strict=True):
            np.testing.assert_allclose(np.asarray(answer), wanted.numpy(), 1e-5, 1e-5)


def written_out(x):
    return plain(x), backwards(x), before_last(x)


def test_answers_are_those_of_jax(tmp_path):
    x = np.random.default_rng(2).standard_normal((STEPS, 2, 16)).astype(np.float32)
    program = export(written_out, (x,))
    module = compile(program, "cpu", CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded:
        answers = jax.tree.leaves(loaded.main(x))
    for answer, wanted in zip(answers, jax.tree.leaves(jax.jit(written_out)(x)), strict=True):
        np.testing.assert_allclose(np.asarray(answer), np.asarray(wanted), 1e-5, 1e-5)
