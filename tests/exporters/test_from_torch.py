"""PyTorch modules and functions, exported, compiled for this CPU and compared with PyTorch."""

import functools
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from edgec import runtime, toolchain
from edgec.exporters import Bundle, Entry, export
from edgec.exporters.from_torch.export import load
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError, SourceError, UnsupportedOp, UsageError
from edgec.runtime.signature import Dim
from edgec.toolchain.program import Dialect, Function, Input, Output, Parameter, Program, State


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def only(program: Program) -> Function:
    (function,) = program.info.functions
    return function


def described(program: Program) -> list[str]:
    return [str(function.signature) for function in program.info.functions]


def parameters(program: Program) -> set[str]:
    return {role.name for role in only(program).arguments if isinstance(role, Parameter)}


class Call(nn.Module):
    """A module that only calls a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


# Architectures


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4)).eval()


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8),
        nn.Conv2d(8, 16, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    ).eval()


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.layers = kind(6, 8, num_layers=2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)[0]


class Encoder(nn.Module):
    """Embeddings, two transformer layers with a padding mask; i64 everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        self.places = nn.Embedding(16, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.layers(x, src_key_padding_mask=mask == 0)


def encoder_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 7:] = 0
    return torch.randint(0, 50, (2, 12)), mask


MODELS = {
    "perceptron": lambda: (perceptron(), (torch.randn(3, 16),)),
    "convolutional": lambda: (convolutional(), (torch.randn(2, 1, 12, 12),)),
    "lstm": lambda: (Recurrent(nn.LSTM).eval(), (torch.randn(2, 4, 6),)),
    "encoder": lambda: (Encoder().eval(), encoder_inputs()),
}


@functools.cache
def exported(name: str) -> Program:
    """The program of a model; made once, whatever it runs on."""
    model, inputs = MODELS[name]()
    return export(model, inputs)


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_answers_of_pytorch_on_the_cpu(name: str, replay) -> None:
    program = exported(name)
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) <= 1e-4


@pytest.mark.sweep(fast=2)
@pytest.mark.vulkan
@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_answers_of_pytorch_on_vulkan(name: str, replay_on_vulkan) -> None:
    assert replay_on_vulkan(exported(name)) <= 1e-4


@pytest.fixture
def replay_on_vulkan(tmp_path: Path):
    """The largest error of a program's golden calls on Vulkan."""
    from edgec import runtime, toolchain

    def run(program: Program) -> float:
        saved = program.save(tmp_path / "vulkan.mlirbc")
        output = tmp_path / "vulkan.vmfb"
        options = toolchain.CompileOptions(output=output, check=False, cache=False)
        toolchain.compile(saved, "vulkan", options)
        worst = 0.0
        assert program.golden is not None
        with runtime.load(output) as module:
            for call in program.golden.calls:
                results = module[call.signature].call_flat(call.inputs)
                for result, expected in zip(results, call.outputs, strict=True):
                    error = np.abs(result.numpy().astype(np.float64) - expected)
                    worst = max(worst, float(error.max()))
        return worst

    return run


# Weights


def test_weights_are_arguments_by_their_own_names() -> None:
    program = export(perceptron(), (torch.randn(3, 16),), external_weights=None)
    assert described(program) == ["main(input: f32[3, 16]) -> (result: f32[3, 4])"]
    assert parameters(program) == set(), "they are embedded unless asked for outside"


def test_weights_outside_keep_their_names(tmp_path: Path, replay) -> None:
    file = tmp_path / "weights.safetensors"
    program = export(perceptron(), (torch.randn(3, 16),), external_weights=file)
    names = {f"{i}.{kind}" for i in (0, 1, 3) for kind in ("weight", "bias")}
    assert parameters(program) == names
    assert program.info.weights is not None
    assert set(program.info.weights.names) == names
    assert replay(program) <= 1e-4


def test_tied_weights_are_one(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.words(ids))

    program = export(Tied(), (torch.tensor([1, 2]),), external_weights=tmp_path / "w.safetensors")
    assert parameters(program) == {"words.weight"}


# Arguments and results


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@dataclass
class Found:
    score: torch.Tensor
    extra: torch.Tensor | None
    pairs: list[Pair]


def test_nested_arguments_and_results_keep_their_names(replay) -> None:
    class Model(nn.Module):
        def forward(self, x, batch, pair, *, scale, option=None, times=1):
            y = x @ batch["w"] * scale * times + pair.right
            return Found(score=y, extra=None, pairs=[Pair(y + batch["b"][0], pair.left)])

    program = export(
        Model(),
        (torch.randn(2, 3), {"w": torch.randn(3, 3), "b": [torch.randn(3)]},
         Pair(torch.randn(3), torch.randn(3))),
        example_kwargs={"scale": torch.tensor(2.0), "option": None, "times": 3},
    )  # fmt: skip
    said = only(program).signature
    assert [spec.name for spec in said.inputs] == [
        "x",
        "batch.w",
        "batch.b[0]",
        "pair.left",
        "pair.right",
        "scale",
    ]
    assert [(a.name, a.keyword_only) for a in said.arguments] == [
        ("x", False),
        ("batch", False),
        ("pair", False),
        ("scale", True),
        ("option", True),
    ]
    assert [spec.name for spec in said.outputs] == ["score", "pairs[0].left", "pairs[0].right"]
    assert said.result == {"score": 0, "extra": None, "pairs": [{"left": 1, "right": 2}]}
    assert replay(program) <= 1e-4


def test_functions_of_torchs_own_are_exported(replay) -> None:
    """Whose parameters Python does not know."""
    program = export(torch.matmul, (torch.randn(2, 3), torch.randn(3, 4)))
    assert described(program) == ["main(arg0: f32[2, 3], arg1: f32[3, 4]) -> (result: f32[2, 4])"]
    assert replay(program) < 1e-5


class Variadic(nn.Module):
    def forward(self, x, *rest, scale, **more):
        return x - 2 * rest[0] + 3 * rest[1] - 5 * scale + 7 * more["shift"]


def test_arguments_without_names_stay_where_they_are(tmp_path: Path) -> None:
    """A call by position and keyword gives what the model gives; all have one shape and type."""
    values = [torch.randn(2, 3) for _ in range(5)]
    by_name = {"shift": values[3], "scale": values[4]}
    program = export(Variadic(), tuple(values[:3]), example_kwargs=by_name)
    path = toolchain.compile(program, "cpu", toolchain.CompileOptions(output=tmp_path / "m.vmfb"))
    with runtime.load(path) as loaded:
        given = {name: value.numpy() for name, value in by_name.items()}
        answer = loaded.main(*(value.numpy() for value in values[:3]), **given)
    np.testing.assert_allclose(answer, Variadic()(*values[:3], **by_name), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "still",
    [
        lambda x: functional.rrelu(x, training=False),
        lambda x: functional.dropout(x, 0.5, training=False),
        lambda x: functional.scaled_dot_product_attention(x, x, x),
    ],
    ids=["rrelu", "dropout", "attention"],
)
def test_what_could_draw_and_does_not_is_exported(still: Any, replay) -> None:
    assert replay(export(still, (torch.randn(1, 4, 8),))) < 1e-5


def test_arguments_after_one_that_is_left_out_go_by_keyword() -> None:
    class Model(nn.Module):
        def forward(self, ids, mask=None, places=None):
            return ids + places

    program = export(Model(), (), example_kwargs={"places": torch.ones(2), "ids": torch.zeros(2)})
    said = only(program).signature
    assert [(a.name, a.keyword_only) for a in said.arguments] == [("ids", False), ("places", True)]


def test_an_unused_input_stays_an_input(replay) -> None:
    program = export(lambda x, unused: x + 1, (torch.ones(2), torch.ones(3)))
    assert [spec.name for spec in only(program).signature.inputs] == ["x", "unused"]
    assert replay(program) == 0


@pytest.mark.sweep(fast=4)
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (torch.float16, DType.F16),
        (torch.bfloat16, DType.BF16),
        (torch.float64, DType.F64),
        (torch.int8, DType.I8),
        (torch.uint8, DType.U8),
        (torch.int16, DType.I16),
        (torch.int64, DType.I64),
        (torch.bool, DType.BOOL),
        (torch.complex64, DType.C64),
    ],
    ids=lambda value: value.value if isinstance(value, DType) else "",
)
def test_element_types(kind: torch.dtype, expected: DType, replay) -> None:
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 1.0, 5.0]]).to(kind)
    program = export(
        lambda x: {"same": x, "twice": torch.cat([x, x], 1), "picked": x[1, ::2]}, (x,)
    )
    said = only(program).signature
    assert {spec.dtype for spec in (*said.inputs, *said.outputs)} == {expected}
    assert replay(program) == 0


def test_arithmetic_with_negative_numbers_is_pythons(replay) -> None:
    def work(x: torch.Tensor, f: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "mod": x % 3,
            "negative": x % -3,
            "floor": x // 4,
            "fmod": torch.fmod(x, 3),
            "trunc": torch.div(x, 4, rounding_mode="trunc"),
            "float": f % 0.7,
            "floats": f // 0.7,
            "var": f.var(),
            "top": torch.topk(f, 3).indices,
            "place": torch.argsort(x, dim=0),
        }

    program = export(work, (torch.arange(-9, 9), torch.linspace(-5.1, 5.2, 11)))
    assert replay(program) <= 1e-5


# State


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0]))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.total.add_(x)
        self.calls += 1
        return {"mean": self.total / self.calls}

    def peek(self) -> torch.Tensor:
        return self.total * 1


def test_buffers_that_change_are_state_shared_by_methods(replay) -> None:
    model = Counter()
    program = export(
        Bundle((Entry(model, (torch.tensor([0.5, 1.0]),)), Entry(model.peek, name="peek")))
    )
    main, peek = program.info.functions
    assert main.arguments == (State(name="total"), State(name="calls"), Input(index=0))
    assert main.results == (State(name="total"), State(name="calls"), Output(index=0))
    assert peek.arguments == (State(name="total"),)
    assert model.total.tolist() == [1.0, 2.0], "exporting leaves the model as it was"
    assert program.golden is not None
    assert len(program.golden.calls) == 6
    assert replay(program) <= 1e-6


class Decoder(nn.Module):
    """One step of attention over a cache that the module keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 24)
        self.register_buffer("keys", torch.zeros(6, 8))
        self.register_buffer("values", torch.zeros(6, 8))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        query, key, value = self.mix(x).chunk(3, -1)
        here = (torch.arange(6) == place)[:, None]
        self.keys.copy_(torch.where(here, key, self.keys))
        self.values.copy_(torch.where(here, value, self.values))
        scores = (self.keys @ query).masked_fill(torch.arange(6) > place, -torch.inf)
        return scores.softmax(0) @ self.values


def test_a_decoder_step_keeps_its_cache(replay) -> None:
    program = export(Decoder(), (torch.randn(8), torch.tensor(2)))
    assert {state.name for state in program.info.states} == {"keys", "values"}
    assert replay(program) <= 1e-5


def test_a_training_step_updates_its_state(replay) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def loss_of(weights, x, y):
        return ((torch.func.functional_call(net, weights, (x,)) - y) ** 2).mean()

    def step(weights, x, y):
        slopes, loss = torch.func.grad_and_value(loss_of)(weights, x, y)
        return {name: w - 0.1 * slopes[name] for name, w in weights.items()}, {"loss": loss}

    def predict(weights, x):
        return torch.func.functional_call(net, weights, (x,))

    x, y = torch.randn(5, 4), torch.randn(5, 1)
    program = export(
        Bundle(
            (
                Entry(step, (x, y), name="train", updates_state=True),
                Entry(predict, (x,), name="predict", reads_state=True),
            ),
            state=dict(net.named_parameters()),
        )
    )
    assert program.golden is not None
    losses = [c.outputs[0].item() for c in program.golden.calls if c.signature == "train"]
    assert losses[0] > losses[1] > losses[2]
    assert [state.name for state in program.info.states] == [
        "0.weight",
        "0.bias",
        "2.weight",
        "2.bias",
    ]
    assert replay(program) <= 1e-5


# Dynamic dimensions


def test_a_dynamic_batch(replay) -> None:
    program = export(convolutional(), (torch.randn(2, 1, 12, 12),), dynamic="batch=1..8")
    assert described(program) == [
        "main(input: f32[batch=1..8, 1, 12, 12]) -> (result: f32[batch=1..8, 10])"
    ]
    assert program.info.dialect is Dialect.STABLEHLO
    assert program.golden is not None
    assert sorted(call.inputs[0].shape[0] for call in program.golden.calls) == [1, 2, 8]
    assert replay(program) <= 1e-4


@pytest.mark.slow  # test_buckets.py has a batch of texts of any length.
def test_two_dynamic_dimensions_in_a_transformer(replay) -> None:
    program = export(
        Encoder().eval(),
        encoder_inputs(),
        dynamic=["batch=1..4", "ids:1=length=1..16", "mask:1=length"],
        buckets=(8,),
    )
    (output,) = only(program).signature.outputs
    assert output.shape == (
        Dim(name="batch", minimum=1, maximum=4),
        Dim(name="length", minimum=1, maximum=16),
        32,
    )
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) <= 1e-4


def test_a_plain_function_with_a_dynamic_batch(replay) -> None:
    weight = torch.randn(5, 4)

    def scores(rows: torch.Tensor) -> torch.Tensor:
        return torch.tanh(rows @ weight.T).sum(-1)

    program = export(scores, (torch.randn(3, 4),), dynamic="batch=1..8")
    assert "batch=1..8" in described(program)[0]
    assert replay(program) <= 1e-4


def test_an_example_of_size_one_stays_dynamic() -> None:
    program = export(nn.Linear(4, 2), (torch.randn(1, 4),), dynamic="batch=1..8")
    assert "batch=1..8" in described(program)[0]


def test_torchs_own_dims_and_computed_sizes(replay) -> None:
    from torch.export import Dim as TorchDim

    rows = TorchDim("rows", min=3, max=9)
    program = export(
        Entry(
            Call(lambda x: (torch.cat([x, x]), x[1:])),
            (torch.randn(5, 4),),
            dynamic={"x": {0: rows}},
        )
    )
    (taken,) = only(program).signature.inputs
    twice, less = only(program).signature.outputs
    assert taken.shape[0] == Dim(name="rows", minimum=3, maximum=9)
    assert twice.shape[0] == Dim(name="2*rows", minimum=6, maximum=18)
    assert less.shape[0] == Dim(name="rows-1", minimum=2, maximum=8)
    assert replay(program) == 0


def test_a_dimension_that_the_model_fixes_is_refused() -> None:
    with pytest.raises(ExportError, match="fixes a dimension"):
        export(Call(lambda x: x.reshape(2, -1) + torch.ones(2, 4)), (torch.randn(2, 4),),
               dynamic="batch=1..8")  # fmt: skip


# Programs


def test_a_pt2_file(tmp_path: Path, replay) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(perceptron(), (torch.randn(3, 16),)), path)
    program = export(load(path))
    assert described(program) == ["main(input: f32[3, 16]) -> (result: f32[3, 4])"]
    assert replay(program) <= 1e-4


def test_a_damaged_pt2_file(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(b"no archive")
    with pytest.raises(SourceError, match=r"model\.pt2 cannot be read"):
        load(path)
    with pytest.raises(UsageError, match="one signature main"):
        load(path, signatures=("other",))


def test_places_in_the_users_source_reach_the_program() -> None:
    from iree.compiler import ir

    from edgec.toolchain.stablehlo import parse_stablehlo

    program = export(Call(lambda x: torch.sin(x)), (torch.randn(3),))
    module = parse_stablehlo(program.bytecode, ir.Context())
    text = module.operation.get_asm(enable_debug_info=True)
    assert "test_from_torch.py" in text


def test_what_has_only_a_torch_form_says_so(replay, caplog) -> None:
    with caplog.at_level(logging.WARNING, "edgec.exporters"):
        program = export(Call(torch.nonzero), (torch.tensor([0.0, 1.0, 0.0, 2.0]),))
    assert program.info.dialect is Dialect.TORCH
    assert "torch dialect" in caplog.text
    assert replay(program) <= 1e-4


# Modes


def test_a_model_in_training_mode_is_exported_in_eval_mode(caplog, replay) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.9), nn.BatchNorm1d(4))
    with caplog.at_level(logging.WARNING, "edgec.exporters"):
        program = export(model, (torch.randn(3, 4),))
    assert "eval mode" in caplog.text
    assert all(module.training for module in model.modules())
    assert program.info.states == ()
    assert replay(program) <= 1e-6


# Refusals


def control_flow(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum() > 0 else x


def no_lowering(x: torch.Tensor) -> torch.Tensor:
    return x.mode().values


def changes_its_input(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1)


def gives_a_text(x: torch.Tensor) -> tuple[torch.Tensor, str]:
    return x, "three"


def draws_numbers(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand_like(x)


def drops_some(x: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5)


@pytest.mark.parametrize(
    ("function", "kind", "what", "place"),
    [
        (control_flow, UnsupportedOp, "depends on data", "control_flow"),
        (no_lowering, UnsupportedOp, "aten.mode", "test_from_torch.py"),
        (changes_its_input, ExportError, "changes its input x in place", ""),
        (
            draws_numbers,
            UnsupportedOp,
            "draws random numbers: aten.rand_like",
            "test_from_torch.py",
        ),
        (drops_some, UnsupportedOp, "draws random numbers: aten.native_dropout", ""),
        (gives_a_text, ExportError, "returns 'three'", ""),
    ],
)
def test_a_refusal_says_what_where_and_what_next(
    function: Any, kind: type[ExportError], what: str, place: str
) -> None:
    with pytest.raises(kind, match=what) as caught:
        export(Call(function), (torch.rand(4),))
    assert place in (caught.value.where or "")
    assert caught.value.hint


def test_examples_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="do not fit"):
        export(nn.Linear(4, 2), (torch.randn(1, 4), torch.randn(1)))
    with pytest.raises(ExportError, match="cannot be run on the example inputs") as caught:
        export(nn.Linear(4, 2), (torch.randn(1, 5),))
    assert "4x2" in caught.value.what


def test_a_training_step_in_place_is_refused_with_the_form_to_write() -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.mse_loss(net(x), torch.ones(3, 1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    before = net.weight.detach().clone()
    with pytest.raises(UnsupportedOp, match="training step") as caught:
        export(step, (torch.randn(3, 2),))
    assert "grad_and_value" in (caught.value.hint or "")
    assert torch.equal(net.weight, before)
