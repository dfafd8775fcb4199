"""Attention is known in every spelling, means what its operations compute, and is no other thing.

What is found is compared with the operations themselves by the validation that all tests run in.
"""

import math
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from iree.compiler import ir
from torch import nn

from edgec.exporters import export
from edgec.targets import find
from edgec.toolchain.ir.erase import erase_unused
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.match.attention import Attention, Bias, Mask, read_attention
from edgec.toolchain.match.description import validate
from edgec.toolchain.passes import CATALOGUE, PLACING, Situation
from edgec.toolchain.stablehlo import parse_stablehlo


def numbers(*shape, dtype="float32"):
    return jnp.asarray(np.random.default_rng(shape).standard_normal(shape), dtype)


def tensors(*shapes, dtype=torch.float32):
    torch.manual_seed(0)
    return tuple(torch.randn(shape).to(dtype) for shape in shapes)


_READ = []  # A value that a description names lives as long as its module.


def attentions(
    program, target: str = "cuda", *, narrow: bool = False, windows: bool = False
) -> list[Attention]:
    """All that is found in a program where kernels are placed, each compared with the program."""
    module = parse_stablehlo(program.bytecode, ir.Context())
    _READ.append(module)
    situation = Situation(info=program.info, facts={}, module=module, target=find(target))
    with module.context:
        for kind in CATALOGUE:
            if kind in PLACING and kind.name.endswith("-kernels"):
                break
            if (step := kind.plan(situation)) is not None:
                step.run(module)
        erase_unused(module)
        products = (op for op in inside(module.operation) if op.name == "stablehlo.dot_general")
        read = [read_attention(op, narrow=narrow, windows=windows) for op in products]
        found = [each for each in read if each is not None]
        for each in found:
            validate(each, "attention")
    return found


def only(program, target: str = "cuda") -> Attention:
    (found,) = attentions(program, target)
    return found


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, q, k, v, *more):
        return self.function(q, k, v, *more)


class Plain(nn.Module):
    """A function of one tensor as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


HEADS = [(2, 3, 17, 24), (2, 3, 21, 24), (2, 3, 21, 24)]
TRUTH = torch.arange(2 * 17 * 21).reshape(2, 1, 17, 21) % 3 > 0
PADDING = torch.arange(21)[None] < torch.tensor([[9], [21]])


def sdpa(q, k, v, mask=None, **options):
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options)


def written_out(q, k, v, mask):
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(24) + mask, -1) @ v


def scaled_first(q, k, v, mask):
    return torch.softmax((q * 0.2) @ k.transpose(-1, -2) + mask, -1) @ v


def filled(q, k, v, mask):
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * 0.2
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v


def softened_in_f32(q, k, v, mask):
    scores = q @ k.transpose(-1, -2) * 0.2 + mask
    return torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype) @ v


def capped(q, k, v):
    return torch.softmax(30 * torch.tanh(q @ k.transpose(-1, -2) / 30), -1) @ v


TORCH = {
    "sdpa": (sdpa, ()),
    "additive": (sdpa, tensors((2, 3, 17, 21))),
    "boolean": (sdpa, (TRUTH,)),
    "padding": (sdpa, (PADDING[:, None, None],)),
    "written out": (written_out, tensors((2, 1, 1, 21))),
    "scaled first": (scaled_first, tensors((3, 17, 21))),
    "filled": (filled, (PADDING[:, None, None],)),
    "softened in f32": (softened_in_f32, tensors((2, 1, 17, 21))),
    "capped": (capped, ()),
}


@pytest.mark.sweep(fast=5)
@pytest.mark.parametrize(
    ("spelling", "dtype"),
    [
        *((spelling, torch.float32) for spelling in TORCH),
        ("boolean", torch.bfloat16),
        ("written out", torch.float16),
        ("softened in f32", torch.float16),
    ],
)
def test_pytorch(spelling, dtype) -> None:
    function, more = TORCH[spelling]
    more = tuple(x.to(dtype) if x.is_floating_point() else x for x in more)
    found = only(export(Call(function), (*tensors(*HEADS, dtype=dtype), *more)))
    assert (found.count, found.queries, found.keys, found.width) == (6, 17, 21, 24)
    assert len(found.terms) == len(more)
    truth = bool(more) and more[0].dtype == torch.bool
    assert all(isinstance(term, Mask if truth else Bias) for term in found.terms)
    assert found.cap == (30 if function is capped else 0)


def test_halves_that_are_widened_for_it_are_read_and_written_as_halves() -> None:
    program = export(Call(sdpa), tensors(*HEADS, dtype=torch.float16))
    (wide,), (narrow,) = attentions(program), attentions(program, narrow=True)
    views = (narrow.q, narrow.k, narrow.v, narrow.out)
    assert (wide.q.element, {view.element for view in views}) == ("f32", {"f16"})


def test_padding_is_read_as_it_is_and_not_repeated() -> None:
    q, k, v = tensors(*HEADS)
    (term,) = only(export(Call(sdpa), (q, k, v, PADDING[:, None, None]))).terms
    assert (term.view.size, term.view.row, term.view.column) == (2 * 21, 0, 1)


def test_heads_that_share_keys_read_them_where_they_lie() -> None:
    q, k, v = tensors((2, 6, 17, 24), (2, 2, 17, 24), (2, 2, 17, 24))
    found = only(export(Call(lambda *x: sdpa(*x, is_causal=True, enable_gqa=True)), (q, k, v)))
    assert found.heads == (4, 3)
    assert found.k.heads == (17 * 24, 0)
    assert found.k.size == k.numel()


def test_heads_with_one_query_that_share_keys_are_the_queries_of_one() -> None:
    q, k, v = tensors((2, 6, 1, 24), (2, 2, 17, 24), (2, 2, 17, 24))
    found = only(export(Call(lambda *x: sdpa(*x, enable_gqa=True)), (q, k, v)))
    assert (found.heads, found.queries) == ((4,), 3)


def test_a_layer_of_pytorch_cuts_its_heads_out_of_one_product() -> None:
    layer = nn.TransformerEncoderLayer(24, 3, 32, batch_first=True).eval()
    found = only(export(layer, (torch.randn(2, 11, 24),)))
    assert found.q.value == found.k.value == found.v.value
    assert [view.start for view in (found.q, found.k, found.v)] == [0, 24, 48]


def in_windows(x):
    """Of 5 x 3 in two images of 10 x 9, both turned by 2 x 1 before and back after."""
    x = torch.roll(x, (-2, -1), (1, 2)).view(2, 2, 5, 3, 3, 3, 2, 24)
    q, k, v = x.permute(5, 0, 1, 3, 6, 2, 4, 7).reshape(3, 12, 2, 15, 24)
    y = sdpa(q, k, v).transpose(1, 2).reshape(2, 2, 3, 5, 3, 48).permute(0, 1, 3, 2, 4, 5)
    return torch.roll(y.reshape(2, 10, 9, 48), (2, 1), (1, 2))


def test_windows_of_an_image_that_is_turned_are_read_and_written_where_they_lie() -> None:
    program = export(Plain(in_windows), tensors((2, 10, 9, 144)))
    (found,) = attentions(program, windows=True)
    assert (found.heads, found.queries, found.keys) == ((4, 3, 2), 15, 15)
    for view, width in ((found.q, 144), (found.k, 144), (found.v, 144), (found.out, 48)):
        assert view.size == 2 * 10 * 9 * width
        assert [(part.size, part.step) for part in view.rows] == [(5, 9 * width), (3, width)]
        assert len(view.rolls) == 2
        assert view.turns_whole_rows(found.heads, 24)
    (found,) = attentions(program)
    assert all(view.is_even for view in (found.q, found.k, found.v, found.out))


def library(**options):
    return lambda q, k, v, *more: jax.nn.dot_product_attention(q, k, v, *more, **options)


def einsum(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / 4)
    return jnp.einsum("bhts,bshd->bthd", weights, v)


JAX = {
    "library": (library(), 0),
    "causal": (library(is_causal=True), 1),
    "window": (library(local_window_size=(3, 0)), 2),
    "lengths": (library(key_value_seq_lengths=jnp.array([5, 9])), 1),
    "mask": (library(mask=jnp.asarray(TRUTH.numpy())), 1),
    "einsum": (einsum, 0),
}


@pytest.mark.parametrize(
    ("spelling", "dtype"), [*((spelling, "float32") for spelling in JAX), ("mask", "bfloat16")]
)
def test_jax(spelling, dtype) -> None:
    function, terms = JAX[spelling]
    shared = 6 if function is einsum else 2
    shapes = [(2, 17, 6, 24), (2, 21, shared, 24), (2, 21, shared, 24)]
    found = only(export(function, tuple(numbers(*shape, dtype=dtype) for shape in shapes)))
    assert (found.count, found.queries, found.keys) == (12, 17, 21)
    assert found.k.size == math.prod(shapes[1])
    assert len(found.terms) == terms


@pytest.mark.slow
def test_keras() -> None:
    import keras

    x = keras.Input((11, 24))
    layer = keras.layers.GroupQueryAttention(8, 4, 2)
    model = keras.Model(x, layer(x, x, use_causal_mask=True))
    found = only(export(model, (np.zeros((2, 11, 24), np.float32),)))
    assert (found.count, found.queries, found.keys, len(found.terms)) == (8, 11, 11, 1)


def near(scores=lambda s: s, axis=-1, weights=lambda w: w):
    def function(q, k, v):
        shares = jax.nn.softmax(scores(jnp.einsum("bhqd,bhkd->bhqk", q, k)), axis)
        return jnp.einsum("bhqk,bhkd->bhqd", weights(shares), v)

    return function


def sums_to_two(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k)
    powers = jnp.exp(scores - scores.max(-1, keepdims=True))
    return jnp.einsum("bhqk,bhkd->bhqd", powers / (powers.sum(-1, keepdims=True) / 2), v)


def sums_other_powers(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k)
    total = jnp.exp(2 * scores).sum(-1, keepdims=True)
    return jnp.einsum("bhqk,bhkd->bhqd", jnp.exp(scores) / total, v)


def sums_queries(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k))
    return jnp.einsum("bhqk,bhqd->bhkd", weights, v)


OTHERS = {
    "softmax along queries": near(axis=-2),
    "softmax along heads": near(axis=1),
    "scores times a tensor": near(scores=lambda s: s * jnp.arange(16.0)),
    "scores squared": near(scores=lambda s: s * s),
    "rectified scores": near(scores=jax.nn.relu),
    "weights cut off": near(weights=lambda w: jnp.maximum(w, 0.1)),
    "weights of half the keys": near(weights=lambda w: w.at[..., 8:].set(0)),
    "weights turned around": near(weights=lambda w: w[..., ::-1]),
    "sums to two": sums_to_two,
    "sums of other powers": sums_other_powers,
    "sums over queries": sums_queries,
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_only_looks_like_attention_is_none(other) -> None:
    arguments = tuple(numbers(2, 3, 16, 16) for _ in range(3))
    assert attentions(export(OTHERS[other], arguments)) == []


def test_weights_that_are_a_result_too_are_shared() -> None:
    def function(q, k, v):
        weights = jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k))
        return jnp.einsum("bhqk,bhkd->bhqd", weights, v), weights

    assert only(export(function, tuple(numbers(2, 3, 16, 16) for _ in range(3)))).shared


def test_a_softmax_over_keys_of_a_product_that_gives_values_too_is_no_attention() -> None:
    def factorised(x, weights):
        q, k, v = jnp.split((x @ weights).reshape(17, 3, 4, 8).transpose(1, 2, 0, 3), 3)
        return q @ (jax.nn.softmax(k, axis=-2).swapaxes(-1, -2) @ v)

    assert attentions(export(factorised, (numbers(17, 24), numbers(24, 96)))) == []


def test_a_mask_that_keeps_all_is_none() -> None:
    mask = torch.ones(17, 1, dtype=torch.bool)
    assert only(export(Call(lambda q, k, v: sdpa(q, k, v, mask)), tensors(*HEADS))).terms == ()


class Placed(nn.Module):
    """Scores scaled by head, and a bias that a small network makes of places, as Swin v2's."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", torch.randn(36, 8))
        self.by_head = nn.Linear(8, 2)
        self.tau = nn.Parameter(torch.rand(2, 1, 1) + 0.1)

    def forward(self, q, k, v):
        bias = self.by_head(self.places.relu()).T.reshape(2, 6, 6)
        return torch.softmax(q @ k.transpose(-1, -2) / self.tau + bias, -1) @ v


def test_a_bias_that_weights_alone_give_is_not_taken_for_scores() -> None:
    found = attentions(export(Placed().eval(), tensors(*[(3, 2, 6, 16)] * 3)))
    assert not [each for each in found if each.width != 16]


def text_models():
    """Small random models of `transformers`, by name, with what their users give them."""
    transformers = pytest.importorskip("transformers")
    some = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 48}
    heads = {**some, "num_attention_heads": 4, "max_position_embeddings": 32}
    grouped = {**heads, "num_key_value_heads": 2, "use_cache": False}
    distil = {"dim": 32, "n_heads": 4, "hidden_dim": 48, "n_layers": 1, "vocab_size": 100}
    gpt = {"n_embd": 32, "n_head": 4, "n_layer": 1, "n_positions": 32, "use_cache": False}
    t5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4}
    named = {
        "DistilBert": distil,
        "GPT2": {**gpt, "vocab_size": 100, "bos_token_id": 1, "eos_token_id": 2},
        "Llama": grouped,
        "Bert": heads,
        "Gemma2": {**grouped, "head_dim": 8, "attn_implementation": "eager"},
        "T5": {**t5, "vocab_size": 100, "use_cache": False},
        "DebertaV2": {**heads, "relative_attention": True},
    }
    for name, options in named.items():
        config = getattr(transformers, f"{name}Config")(**options)
        kind = "EncoderModel" if name == "T5" else "Model"
        yield name, getattr(transformers, f"{name}{kind}")(config).eval()


class Masked(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask):
        return self.model(ids, attention_mask=mask)[0]


@pytest.mark.slow
def test_models_of_transformers_with_a_padding_mask() -> None:
    ids = torch.arange(26).reshape(2, 13)
    mask = (torch.arange(13)[None] < torch.tensor([[9], [13]])).long()
    for name, model in text_models():
        found = only(export(Masked(model), (ids, mask)))
        assert (found.count, found.queries, found.keys) == (8, 13, 13), name
        assert found.terms, name
