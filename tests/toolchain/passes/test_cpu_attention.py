"""Attention kernels against JAX and PyTorch, in the forms that people write."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.passes.place.cpu_kernels import CpuKernels
from tests.toolchain.by_lane import BY_LANE


def numbers(*shape):
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def softmax_product(scores, v, form):
    return jnp.einsum(form, jax.nn.softmax(scores), v)


def heads_beside_each_other(q, k, v):
    return softmax_product(jnp.einsum("bthd,bshd->bhts", q, k) / 4, v, "bhts,bshd->bthd")


def heads_first(q, k, v):
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    return (jax.nn.softmax(0.25 * (q @ k.swapaxes(-1, -2))) @ v).transpose(0, 2, 1, 3)


def scaled_queries(q, k, v):
    return softmax_product(jnp.einsum("bthd,bshd->bhts", q * 0.25, k), v, "bhts,bshd->bhtd")


def causal(q, k, v):
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / 4
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return softmax_product(jnp.where(mask, scores, -1e9), v, "bhts,bshd->bthd")


def masked_and_biased(q, k, v):
    scores = jnp.einsum("bthd,bshd->bhts", q, k) * 0.3
    scores = scores + numbers(k.shape[2], q.shape[1], k.shape[1])
    padding = jnp.arange(k.shape[1])[None, :] < jnp.array([[5], [9]])
    scores = jnp.where(padding[:, None, None], scores, jnp.finfo(jnp.float32).min)
    return softmax_product(scores, v, "bhts,bshd->bthd")


def library(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def one_head(q, k, v):
    return jax.nn.softmax(q[0, :, 0] @ k[0, :, 0].T) @ v[0, :, 0]


def one_query(q, k, v):
    return heads_beside_each_other(q[:, :1], k, v)


def fused_projection(q, k, v):
    x = q.reshape(2, q.shape[1], -1) @ numbers(48, 3 * 48)
    parts = [p.reshape(2, -1, 3, 16) for p in jnp.split(x, 3, -1)]
    return heads_beside_each_other(*parts).reshape(2, -1, 48) @ numbers(48, 7)


SELF = [
    heads_beside_each_other,
    heads_first,
    scaled_queries,
    causal,
    masked_and_biased,
    library,
    one_query,
    fused_projection,
]


def dispatches(program):
    """How many attention kernels the pass writes for a program."""
    from iree.compiler import ir

    from edgec.targets import find
    from edgec.toolchain.kernels.cpu.source import vector_unit
    from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
    from edgec.toolchain.stablehlo import parse_stablehlo

    module = parse_stablehlo(program.bytecode, ir.Context())
    InlineCalls().run(module)
    CpuKernels(unit=vector_unit(find("cpu:x86-64-v4"))).run(module)
    module.operation.verify()
    return str(module).count("flow.dispatch @edgec_attention")


@pytest.mark.sweep(fast=6)
@pytest.mark.parametrize("function", SELF)
@pytest.mark.parametrize("lengths", [(13, 13), (30, 41)])
def test_each_form_becomes_one_kernel_that_answers_as_jax_does(function, lengths, tmp_path):
    if lengths[0] != lengths[1] and function in (fused_projection, library):
        pytest.skip("is about queries and keys of one length")
    q, k, v = (
        numbers(2, lengths[0], 3, 16),
        numbers(2, lengths[1], 3, 16),
        numbers(2, lengths[1], 3, 16),
    )
    program = export(function, (q, k, v))
    assert dispatches(program) == 1
    module = compile(program, "cpu", CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded:
        answer = np.asarray(loaded.main(q, k, v))
    np.testing.assert_allclose(answer, jax.jit(function)(q, k, v), 1e-4, 1e-5)


@pytest.mark.parametrize("target", ["cpu:x86-64-v3", "cpu:x86-64", BY_LANE])
def test_narrower_vectors_answer_alike(target, tmp_path):
    q, k, v = numbers(2, 11, 3, 22), numbers(2, 10, 3, 22), numbers(2, 10, 3, 22)
    program = export(masked_and_biased, (q, k, v))
    module = compile(program, target, CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded:
        answer = np.asarray(loaded.main(q, k, v))
    np.testing.assert_allclose(answer, jax.jit(masked_and_biased)(q, k, v), 1e-4, 1e-5)


def test_grouped_heads_with_a_cap_and_a_mask_answer_alike(tmp_path):
    def grouped(q, k, v):
        scores = jnp.einsum("bqhgd,bkhd->bhgqk", q.reshape(2, 11, 2, 3, 20), k)
        scores = 5 * jnp.tanh(scores / 5) + numbers(11, 1)
        scores = jnp.where(jnp.arange(14) < jnp.array([[[[[3]]]], [[[[14]]]]]), scores, -jnp.inf)
        return jnp.einsum("bhgqk,bkhd->bqhgd", jax.nn.softmax(scores), v)

    q, k, v = numbers(2, 11, 6, 20), numbers(2, 14, 2, 20), numbers(2, 14, 2, 20)
    program = export(grouped, (q, k, v))
    assert dispatches(program) == 1
    module = compile(program, "cpu", CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded:
        answer = np.asarray(loaded.main(q, k, v))
    np.testing.assert_allclose(answer, jax.jit(grouped)(q, k, v), 1e-4, 1e-5)


class Padded(nn.Module):
    def forward(self, q, k, v, mask):
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3"])
def test_long_sequences_are_done_in_blocks_with_nothing_left_out(target, tmp_path):
    """Of the first, all keys of a block are masked; of the second, all keys there are."""
    q, k, v = (torch.from_numpy(numbers(3, 1, n, 40)) for n in (21, 1301, 1301))
    mask = torch.arange(1301)[None] >= torch.tensor([[700], [1301], [5]])
    mask = mask[:, None, None]
    program = export(Padded(), (q, k, v, mask))
    assert dispatches(program) == 1
    module = compile(program, target, CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded, torch.no_grad():
        answer = np.asarray(loaded.main(*(x.numpy() for x in (q, k, v, mask))))
        np.testing.assert_allclose(answer, Padded()(q, k, v, mask).numpy(), 1e-4, 1e-5)
    assert not answer[1].any()


def test_weights_that_are_asked_for_are_left_to_the_compiler_and_that_is_said():
    from iree.compiler import ir

    from edgec.targets import find
    from edgec.toolchain.kernels.cpu.source import vector_unit
    from edgec.toolchain.kernels.spec import Answers, Declined
    from edgec.toolchain.stablehlo import parse_stablehlo

    def both(q, k, v):
        weights = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k))
        return jnp.einsum("bhts,bshd->bthd", weights, v), weights

    program = export(both, tuple(numbers(2, 8, 3, 16) for _ in range(3)))
    answers = Answers()
    module = parse_stablehlo(program.bytecode, ir.Context())
    CpuKernels(unit=vector_unit(find("cpu:x86-64-v4")), answers=answers).run(module)
    (answer,) = (each for each in answers if each.what.startswith("attention"))
    assert answer.what == "attention: 6 heads, 8 x 8 x 16, f32"
    assert answer.outcome == Declined(reason="its weights are used by something else, too")


def test_what_is_no_softmax_stays():
    def sums_to_two(q, k, v):
        scores = jnp.einsum("bthd,bshd->bhts", q, k)
        powers = jnp.exp(scores - scores.max(-1, keepdims=True))
        return jnp.einsum("bhts,bshd->bthd", powers / (powers.sum(-1, keepdims=True) / 2), v)

    def along_queries(q, k, v):
        scores = jnp.einsum("bthd,bshd->bhts", q, k)
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, axis=-2), v)

    arguments = tuple(numbers(2, 8, 3, 16) for _ in range(3))
    assert dispatches(export(sums_to_two, arguments)) == 0
    assert dispatches(export(along_queries, arguments)) == 0


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, x):
        return self.layer(x)


def test_a_layer_of_pytorch_becomes_kernels_and_answers_alike(tmp_path):
    torch.manual_seed(0)
    model, x = Encoder().eval(), torch.randn(2, 10, 32)
    program = export(model, (x,))
    assert dispatches(program) == 1
    module = compile(program, "cpu", CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded, torch.no_grad():
        answer = np.asarray(loaded.main(x.numpy()))
        np.testing.assert_allclose(answer, model(x).numpy(), 1e-4, 1e-5)


class BetweenChannels(nn.Module):
    """As DaViT has it: what is multiplied for a score is a channel of all pixels."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)

    def forward(self, x):
        qkv = self.qkv(x).reshape(1, -1, 3, 2, 32).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        shares = (k.transpose(-1, -2) @ v / 64).softmax(-1)
        x = (shares @ q.transpose(-1, -2)).transpose(-1, -2)
        return x.transpose(1, 2).reshape(1, -1, 64)


@pytest.mark.parametrize("pixels", [3136, 9000])
def test_attention_between_channels_of_many_pixels_fits_the_stack(pixels, tmp_path):
    torch.manual_seed(0)
    model, x = BetweenChannels().eval(), torch.randn(1, pixels, 64)
    options = CompileOptions(cache=False, output=tmp_path / "m.vmfb")
    module = compile(export(model, (x,)), "cpu", options)
    with torch.no_grad(), load(module) as loaded:
        answer = loaded.main(x.numpy())
        np.testing.assert_allclose(answer, model.double()(x.double()), 1e-4, 1e-4)
