"""A dynamic batch as a loop over parts of fixed size: which programs become one, and are right."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from edgec import exporters, runtime, toolchain
from edgec.runtime.errors import ExportError
from edgec.runtime.signature import Dim
from edgec.toolchain.batches.compare import compared
from edgec.toolchain.batches.marks import Batch, Mark, NotByExample
from edgec.toolchain.program import Dialect, Program

_RANDOM = np.random.default_rng(0)
_WEIGHTS = _RANDOM.standard_normal((12, 6)).astype(np.float32)
_TABLE = _RANDOM.standard_normal((20, 12)).astype(np.float32)


def _values(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def _compare(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Any:
    """The verdict on a JAX function, whose inputs' first axes count three examples and four."""
    from iree.compiler import ir

    def text(count: int) -> str:
        inputs = [jax.ShapeDtypeStruct((count, *shape), jnp.float32) for shape in shapes]
        return str(jax.jit(function).lower(*inputs).as_text())

    with ir.Context():
        modules = [ir.Module.parse(text(count)) for count in (3, 4)]
        return compared(*modules, Batch(one=3, other=4))


def _attention(x: Any) -> Any:
    scores = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", x, x))
    return jnp.einsum("bqk,bkd->bqd", scores, x) @ _WEIGHTS


def _convolve(x: Any, kernel: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=numbers)


def _recurrent(x: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ c[..., :12].mT), x)


def _convolved(x: Any) -> Any:
    kernel = jnp.asarray(_WEIGHTS[:, :3]).reshape(3, 3, 4, 1)
    y = jax.lax.conv_general_dilated(
        x,
        jnp.tile(kernel, (1, 1, 1, 2)),
        (2, 2),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _between_words(x: Any) -> Any:
    """As PyTorch's `nn.MultiheadAttention` does: rows of all examples, word by word."""
    words, count = x.shape[1], x.shape[0]
    rows = x.transpose(1, 0, 2).reshape(words * count, 12) @ np.tile(_WEIGHTS, (1, 6)) + 1.0
    rows = jax.nn.relu(rows + np.arange(36, dtype=np.float32))
    q, k, v = jnp.split(rows.reshape(words, count, 3, 12), 3, 2)
    heads = [each.reshape(words, count * 2, 6).transpose(1, 0, 2) for each in (q, k, v)]
    mixed = jax.nn.softmax(heads[0] @ heads[1].mT) @ heads[2]
    mixed = mixed.transpose(1, 0, 2).reshape(words * count, 12)
    return mixed.reshape(words, count, 12).transpose(1, 0, 2)


def _called_between_words(x: Any) -> Any:
    rows = x.transpose(1, 0, 2).reshape(-1, 12)
    return jax.jit(jnp.tanh)(rows).reshape(5, -1, 12).transpose(1, 2, 0)


BY_EXAMPLE = {
    "product": (lambda x: jax.nn.gelu(x @ _WEIGHTS), (12,)),
    "attention": (_attention, (5, 12)),
    "convolution": (_convolved, (8, 8, 4)),
    "norm": (lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), (12,)),
    "rows of several": (lambda x: (x.reshape(-1, 12) @ _WEIGHTS).reshape(x.shape[0], -1), (5, 12)),
    "between words": (_between_words, (5, 12)),
    "between words, in a function": (_called_between_words, (5, 12)),
    "turned": (lambda x: (x.transpose(1, 0, 2) + 1).transpose(1, 2, 0), (5, 12)),
    "looked up": (lambda x: jnp.asarray(_TABLE)[x.astype(jnp.int32) % 20], (4,)),
    "sorted": (lambda x: jnp.sort(x, axis=-1)[..., ::-1], (12,)),
    "places in a row": (lambda x: x + jnp.arange(12.0) + jnp.ones(x.shape), (12,)),
    "joined and padded": (lambda x: jnp.pad(jnp.concatenate([x, x], 1), ((0, 0), (1, 0))), (12,)),
    "a loop": (
        lambda x: jax.lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ c[..., :12].mT), x),
        (12, 12),
    ),
    "running sums": (lambda x: jnp.cumsum(x, axis=1), (12,)),
}
ACROSS = {
    "mean of the batch": lambda x: x - x.mean(0),
    "its size": lambda x: x / x.shape[0],
    "its size in a loop": lambda x: jax.lax.fori_loop(0, x.shape[0], lambda i, c: c + 1.0, x),
    "softmax over it": lambda x: jax.nn.softmax(x, axis=0),
    "places in it": lambda x: x + jnp.arange(float(x.shape[0]))[:, None],
    "reversed": lambda x: x[::-1],
    "sorted": lambda x: jnp.sort(x, axis=0),
    "running sums": lambda x: jnp.cumsum(x, axis=0),
    "products of examples": lambda x: x @ x.T,
    "shifted": lambda x: jnp.concatenate([x[1:], x[:1]]),
    "the first for all": lambda x: x + x[:1],
    "words of one are taken for another's": lambda x: (
        jnp.repeat(x[None], 2, 0).reshape(-1, 12).reshape(-1, 2, 12).sum(1)
    ),
    "a table between words": lambda x: (
        jnp.repeat(x[None], 2, 0).reshape(-1, 12)
        * jnp.asarray(np.arange(2.0 * x.shape[0]))[:, None]
    ).reshape(2, -1, 12),
    "rows of all in another order": lambda x: (
        x.reshape(-1, 3, 4).transpose(1, 0, 2).reshape(-1, 12) @ _WEIGHTS
    ),
    "words left between": lambda x: jnp.repeat(x[None], 2, 0).reshape(-1, 12) @ _WEIGHTS,
    "turned round": lambda x: x.T.reshape(x.shape),
    "moved in memory": lambda x: jnp.roll(x.reshape(-1), 1).reshape(x.shape),
}


@pytest.mark.parametrize("name", BY_EXAMPLE)
def test_each_example_by_itself(name: str) -> None:
    function, shape = BY_EXAMPLE[name]
    found = _compare(function, shape)
    assert found.arguments == (Mark(axis=0, each=1),)
    assert len(found.results) == 1
    assert isinstance(found.results[0], Mark)


@pytest.mark.parametrize("name", ACROSS)
def test_what_goes_across_the_batch_is_known(name: str) -> None:
    with pytest.raises(NotByExample):
        found = _compare(ACROSS[name], (12,))
        assert found.results[0] is not None, "an output without a batch"
        raise AssertionError(f"{name} was taken for one that keeps examples apart")


def test_two_inputs_go_through_together() -> None:
    found = _compare(lambda x, y: jnp.einsum("bij,bjk->bik", x, y), (3, 4), (4, 5))
    assert found.results == (Mark(axis=0, each=1),)


def _exported(function: Any, count: int, **asked: Any) -> Program:
    return exporters.export(function, (_values(count, 16, 16, 3),), dynamic="n=1..20", **asked)


def _network(x: Any) -> Any:
    kernel = jnp.asarray(np.resize(_WEIGHTS, (3, 3, 3, 32)))
    y = _convolve(x, kernel)
    pooled = jax.lax.reduce_window(
        jax.nn.gelu(y), 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"
    )
    ones = jax.lax.reduce_window(
        jnp.ones_like(y), 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"
    )
    return (pooled / ones).mean((1, 2)) @ np.resize(_WEIGHTS, (32, 64))


@pytest.mark.parametrize("chunk", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_a_network_is_right_for_any_number(chunk: int, tmp_path: Any) -> None:
    path = tmp_path / "net.vmfb"
    program = _exported(_network, 3, chunk=chunk)
    options = toolchain.CompileOptions(output=path, cache=False)
    toolchain.compile(program.save(tmp_path / "net.mlirbc"), "cpu:host", options)
    with runtime.load(path) as module:
        for count in (1, 7, 8, 9, 20):
            x = _values(count, 16, 16, 3)
            np.testing.assert_allclose(
                np.asarray(module["main"](x)), np.asarray(_network(x)), rtol=1e-4, atol=1e-4
            )


def test_pytorch_s_attention_goes_by_examples_between_words(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.attention = torch.nn.MultiheadAttention(16, 2)

        def forward(self, x: Any) -> Any:
            return self.attention(x, x, x, need_weights=False)[0]

    model = Model().eval()
    program = exporters.export(model, (torch.randn(5, 2, 16),), dynamic="x:1=batch=1..9", chunk=4)
    assert "computes 4 of batch at a time" in caplog.text
    options = toolchain.CompileOptions(output=tmp_path / "m.vmfb", cache=False)
    with runtime.load(toolchain.compile(program, "cpu:host", options)) as module:
        for count in (1, 6):
            x = torch.randn(5, count, 16)
            np.testing.assert_allclose(
                np.asarray(module["main"](x.numpy())), model(x).detach().numpy(), atol=1e-5
            )


def test_it_is_said_and_can_be_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"):
        made = _exported(_network, 3)
        assert "computes 8 of n at a time, then what is left one by one" in caplog.text
        caplog.clear()
        plain = _exported(_network, 3, chunk=0)
        assert not caplog.text
    assert made.info.dialect is plain.info.dialect is Dialect.STABLEHLO
    assert made.info.functions[0].signature == plain.info.functions[0].signature
    assert len(made.golden.calls) == len(plain.golden.calls)


def _batches(program: Program) -> list[int]:
    return [call.inputs[0].shape[0] for call in program.golden.calls]


def test_golden_calls_go_through_all_of_the_loop() -> None:
    assert _batches(_exported(_network, 3)) == [3, 9, 1]
    assert _batches(_exported(_network, 3, chunk=12)) == [3, 9, 1, 13]


def test_a_dimension_inside_an_example_is_in_chunks_only_if_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def rows(x: Any) -> Any:
        return jnp.tanh(x @ _WEIGHTS)

    for chunk, said in ((None, "is compiled for 8, 12, 16, 20 of n"), (8, "computes 8 of n")):
        caplog.clear()
        exporters.export(rows, (_values(2, 5, 12),), dynamic="x:1=n=1..20", chunk=chunk)
        assert said in caplog.text


def test_programs_that_are_simpler_for_one_example_are_compared_for_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def network(x: Any) -> Any:
        y = x @ _WEIGHTS
        return y * 1.0 if x.shape[0] == 1 else jnp.tanh(jnp.arctanh(y / 1e3)) * 1e3

    exporters.export(network, (_values(3, 12),), dynamic="n=2..20")
    assert "computes 8 of n at a time" in caplog.text


def test_why_not_is_said_with_its_line(caplog: pytest.LogCaptureFixture) -> None:
    def levelled(x: Any) -> Any:
        y = x.mean((1, 2)) @ np.ones((3, 4), np.float32)
        return y - y.max(0)

    with caplog.at_level("WARNING"):
        _exported(levelled, 3, chunk=8)
    assert "reduce goes across the batch, at " in caplog.text
    assert "test_batches.py:" in caplog.text


def test_onnx_becomes_stablehlo(caplog: pytest.LogCaptureFixture) -> None:
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(_WEIGHTS, "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Shape", ["y"], ["shape"]),
        helper.make_node("Relu", ["y"], ["r"]),
        helper.make_node("Reshape", ["r", "shape"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 12])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 6])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    program = exporters.export(model, dynamic="x:0=n=1..9")
    assert program.info.dialect is Dialect.STABLEHLO
    assert "computes 8 of n at a time" in caplog.text


def test_pytorchs_own_open_sizes_go_by_parts_too(
    caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(12, 6), torch.nn.GELU(), torch.nn.Linear(6, 5))
    open_sizes = ({0: torch.export.Dim("n", min=1, max=9)},)
    inputs = (torch.from_numpy(_values(3, 12)),)
    program = exporters.export(model.eval(), inputs, dynamic=open_sizes, chunk=4)
    assert "computes 4 of n at a time" in caplog.text
    path = tmp_path / "net.vmfb"
    options = toolchain.CompileOptions(output=path, cache=False)
    toolchain.compile(program.save(tmp_path / "net.mlirbc"), "cpu:host", options)
    with runtime.load(path) as module, torch.no_grad():
        for count in (1, 4, 9):
            x = _values(count, 12)
            wanted = model(torch.from_numpy(x)).numpy()
            np.testing.assert_allclose(np.asarray(module["main"](x)), wanted, 1e-4, 1e-5)


class _Strided(torch.nn.Module):
    """A view by strides, which torch-mlir takes for fixed sizes only."""

    def __init__(self, *, across: bool) -> None:
        super().__init__()
        self.across = across

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pairs = torch.as_strided(x.contiguous(), (x.shape[0], 4, 3), (12, 3, 1))
        y = torch.tanh(pairs) + (pairs.flip(0) if self.across else 0.0)
        return y, y.reshape(-1, 6)


@pytest.mark.parametrize("asked", [{"dynamic": "n=1..20"}, {"dynamic": "n", "chunk": 4}])
def test_what_has_no_form_with_open_sizes_goes_by_parts_alone(
    asked: dict[str, Any], caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    path, model = tmp_path / "net.vmfb", _Strided(across=False)
    program = exporters.export(model, (torch.randn(3, 12),), **asked)
    assert "has no form with all of it open: torch-mlir cannot import" in caplog.text
    assert "--chunk=0" not in caplog.text
    assert len(set(_batches(program))) == 3
    outputs = [spec.shape[0] for spec in program.info.functions[0].signature.outputs]
    assert [size.name for size in outputs if isinstance(size, Dim)] == ["n", "2*n"]
    options = toolchain.CompileOptions(output=path, cache=False)
    toolchain.compile(program.save(tmp_path / "net.mlirbc"), "cpu:host", options)
    with runtime.load(path) as module:
        for count in (1, 11, 20):
            x = torch.randn(count, 12)
            for found, expected in zip(module["main"](x.numpy()), model(x), strict=True):
                np.testing.assert_allclose(np.asarray(found), expected.numpy(), rtol=1e-5)


def test_what_goes_no_way_says_both_reasons() -> None:
    with pytest.raises(ExportError, match="torch-mlir cannot import") as caught:
        exporters.export(_Strided(across=True), (torch.randn(3, 12),), dynamic="n=1..20")
    assert "in parts of a fixed size it cannot go either" in str(caught.value.hint)
    with pytest.raises(ExportError, match="torch-mlir cannot import") as caught:
        exporters.export(_Strided(across=False), (torch.randn(3, 12),), dynamic="n", chunk=0)
    assert "in parts" not in str(caught.value.hint)
