"""`torch.compile(model, backend="edgec")`: answers, gradients and refusals are PyTorch's."""

import copy
import logging
import tomllib
from pathlib import Path

import pytest
import torch
from torch import nn

from edgec import exporters
from edgec.plugins import orders
from edgec.plugins.torch_compile import backend
from edgec.runtime.errors import UnsupportedOp, UsageError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.norm = nn.BatchNorm1d(16)

    def forward(self, tokens: torch.Tensor) -> dict[str, torch.Tensor | int]:
        x = self.table(tokens)
        y = x + self.attention(x, x, x, need_weights=False)[0]
        return {"scores": self.norm(y.mean(1)), "count": tokens.shape[0]}


@pytest.fixture(autouse=True)
def _forget():
    yield
    torch._dynamo.reset()


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net()


def test_pytorch_finds_it_by_its_name() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    named = project["project"]["entry-points"]["torch_dynamo_backends"]["edgec"]
    assert named == f"{backend.__module__}:{backend.__name__}"


def test_answers_are_those_of_eager_pytorch_at_every_size(net: Net) -> None:
    compiled = torch.compile(net.eval(), backend=backend)
    with torch.no_grad():
        for count in (2, 3):
            tokens = torch.randint(0, 50, (count, 7))
            found, expected = compiled(tokens), net(tokens)
            torch.testing.assert_close(found["scores"], expected["scores"])
            assert found["count"] == count


def test_weights_that_change_change_the_answers(net: Net, caplog) -> None:
    compiled, tokens = torch.compile(net.eval(), backend=backend), torch.randint(0, 50, (2, 7))
    with torch.no_grad():
        compiled(tokens)
        compiled(tokens)
        assert "weights" not in caplog.text
        net.table.weight.mul_(2)
        torch.testing.assert_close(compiled(tokens)["scores"], net(tokens)["scores"])
    assert "weights" in caplog.text


def test_training_takes_the_same_steps(net: Net) -> None:
    other = copy.deepcopy(net)
    tokens = torch.randint(0, 50, (4, 7), generator=torch.Generator().manual_seed(0))
    losses = []
    for model, run in ((net, torch.compile(net, backend=backend)), (other, other)):
        steps = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            steps.zero_grad()
            loss = run(tokens)["scores"].pow(4).mean()
            loss.backward()
            steps.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    torch.testing.assert_close(net.norm.running_var, other.norm.running_var)


def test_a_graph_is_exported_once_and_again_when_its_code_or_weights_change(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path))
    torch.manual_seed(0)
    exported, export = [], exporters.export
    monkeypatch.setattr(
        exporters, "export", lambda *given, **more: exported.append(1) or export(*given, **more)
    )
    table = nn.Linear(7, 5).eval()
    counts = []
    for change in ("none", "none", "weights", "code"):
        torch._dynamo.reset()
        if change == "weights":
            table.weight.data.mul_(2)
        end = torch.relu if change == "code" else torch.tanh
        x = torch.randn(3, 7)
        with torch.no_grad():
            found = torch.compile(lambda x: end(table(x)), backend=backend)(x)  # noqa: B023
            torch.testing.assert_close(found, end(table(x)))
        counts.append(len(exported))
    assert counts == [1, 1, 2, 3]


def test_what_python_does_between_graphs_is_done(capsys) -> None:
    @torch.compile(backend=backend)
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        print("between")
        return y + 1

    assert function(torch.ones(3)).tolist() == [3, 3, 3]
    assert "between" in capsys.readouterr().out


def test_the_same_seed_draws_the_numbers_that_eager_pytorch_draws() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = layer(x) + torch.rand_like(x).mT.mT + torch.empty(16).normal_(1.0, 0.5)
        return nn.functional.dropout1d(y, 0.3) + torch.randint(0, 5, (16,))

    inputs = [torch.randn(2, 5, 16, requires_grad=True) for _ in range(2)]
    inputs[1].data.copy_(inputs[0])
    for x, run in zip(inputs, (torch.compile(function, backend=backend), function), strict=True):
        torch.manual_seed(7)
        for _ in range(2):  # the second call draws other numbers than the first
            found = run(x)
            found.pow(2).sum().backward()
        x.found = found
        x.state = torch.get_rng_state()
    torch.testing.assert_close(inputs[0].found, inputs[1].found)
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-4, atol=1e-4)
    assert torch.equal(inputs[0].state, inputs[1].state)


def test_numbers_drawn_by_values_are_refused_at_the_users_line_or_left_to_pytorch(caplog) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.bernoulli(x)

    with pytest.raises(UnsupportedOp, match="random") as caught:
        torch.compile(function, backend=backend)(torch.ones(3))
    assert "test_torch_compile.py" in caught.value.where
    torch._dynamo.reset()
    left = torch.compile(function, backend=backend, options={"refused": "eager"})
    with caplog.at_level(logging.WARNING):
        assert left(torch.tensor([1.0, 0.0])).tolist() == [1, 0]
    assert "refuses" in caplog.text


def test_an_option_that_there_is_not_is_named() -> None:
    compiled = torch.compile(lambda x: x + 1, backend=backend, options={"devcie": "cpu"})
    with pytest.raises((UsageError, torch._dynamo.exc.BackendCompilerFailed), match="devcie"):
        compiled(torch.ones(2))


class Pixels(nn.Module):
    """A small network of images: all that a step of training goes back through."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.second = nn.Conv2d(16, 24, 3, padding=1)
        self.means = nn.AvgPool2d(2)
        self.last = nn.Linear(24 * 4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.norm(self.first(x))))
        return self.last(self.means(torch.tanh(self.second(x))).flatten(1))


@pytest.mark.slow
def test_a_step_of_a_convolutional_network_is_that_of_eager_pytorch() -> None:
    torch.manual_seed(1)
    net, x = Pixels(), torch.randn(3, 3, 18, 19).to(memory_format=torch.channels_last)
    other = copy.deepcopy(net)
    compiled = torch.compile(net, backend=backend)
    kept: list[torch.Tensor] = []

    def keep(value: torch.Tensor) -> torch.Tensor:
        kept.append(value)
        return value

    for _ in range(2):
        for step, model in ((compiled, net), (other, other)):
            model.zero_grad()
            kept.clear()
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
                loss = step(x).square().mean()
            loss.backward()
            if model is net:  # for the backward pass as the kernels have them
                images = [value for value in kept if value.shape[:2] == (3, 16)]
                assert images
                assert all(orders.has_channels_last(value) for value in images)
    for found, expected in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-3, atol=1e-5)
    for found, expected in zip(net.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(found, expected)


def test_results_are_no_memory_of_an_input() -> None:
    def keep(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 0.0, x.reshape(4, 8) * 1.0

    x = torch.randn(8, 4)
    before = x.clone()
    with torch.no_grad():
        for each in torch.compile(keep, backend=backend)(x):
            each.zero_()
    torch.testing.assert_close(x, before)


class Separable(nn.Module):
    """A window a channel, then products whose channels are last, as ConvNeXt has them."""

    def __init__(self) -> None:
        super().__init__()
        self.windows = nn.Conv2d(20, 20, 3, padding=1, groups=20)
        self.first = nn.LayerNorm(20)
        self.norm = nn.BatchNorm2d(20)
        self.wider = nn.Linear(20, 24)
        self.narrower = nn.Linear(24, 20)
        self.scale = nn.Parameter(torch.linspace(0.5, 1, 20))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = self.first(image.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        for _ in range(2):
            x = self.norm(self.windows(image)).permute(0, 2, 3, 1)
            x = self.narrower(nn.functional.gelu(self.wider(x))) * self.scale
            image = image + x.permute(0, 3, 1, 2)
        return nn.functional.max_pool2d(image, 2)


@pytest.mark.slow  # A step of a convolutional network is above; window products have the layouts.
def test_gradients_of_images_whose_channels_move_are_those_of_eager_pytorch() -> None:
    torch.manual_seed(0)
    net = Separable()
    image, given = torch.randn(3, 20, 6, 8), torch.randn(3, 20, 3, 4)
    found = []
    for run in (torch.compile(net, backend=backend), net):
        x = image.clone().requires_grad_()
        found.append(torch.autograd.grad(run(x), [x, *net.parameters()], given))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
