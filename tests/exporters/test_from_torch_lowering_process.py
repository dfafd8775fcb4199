"""torch-mlir's passes in a process of their own: what kills them is an error, and no more."""

import io
import os
import pickle

import pytest
import torch
from torch import nn

from edgec.exporters.from_torch import lowering_process
from edgec.exporters.from_torch.capture import quiet
from edgec.exporters.from_torch.lower import NoLowering, to_stablehlo
from edgec.exporters.from_torch.lowering_process import Died, Refused, Request, lowered


def _graph(function: nn.Module, *examples: torch.Tensor) -> torch.fx.Graph:
    with quiet():
        return torch.export.export(function, examples).run_decompositions({}).graph


class Clamp(nn.Module):
    """A number between matrices, which torch-mlir's passes die of."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.clamp(x, max=y)


def test_what_dies_of_a_model_is_a_refusal_and_the_next_one_passes() -> None:
    with pytest.raises(NoLowering, match="passes died of signal 11"):
        to_stablehlo(_graph(Clamp(), torch.tensor(1.0), torch.ones(3, 3)))
    assert to_stablehlo(_graph(nn.ReLU(), torch.zeros(2))).startswith(b"ML\xefR")


def test_a_damaged_module_ends_the_process() -> None:
    request = Request(package="torch_mlir", module=b"nothing", pipelines=(), shapes=())
    with pytest.raises(Died, match="exit code 1"):
        lowered(request)


def test_a_process_that_was_killed_is_started_again() -> None:
    to_stablehlo(_graph(nn.ReLU(), torch.zeros(2)))
    child = lowering_process._PROCESS.child
    assert child is not None
    child.kill()
    child.wait()
    assert to_stablehlo(_graph(nn.ReLU(), torch.zeros(2)))


def test_an_exception_of_the_passes_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_mlir import ir
    from torch_mlir.dialects import torch as dialect
    from torch_mlir.passmanager import PassManager

    class Dying:
        """As passes that want more memory than there is."""

        def run(self, module: object) -> None:
            raise MemoryError("std::bad_alloc")

    monkeypatch.setattr(PassManager, "parse", lambda text: Dying())
    context, module = ir.Context(), io.BytesIO()
    dialect.register_dialect(context)
    ir.Module.parse("module {}", context).operation.write_bytecode(module)
    pipelines = ("builtin.module()",)
    found = lowering_process._made(
        Request(package="torch_mlir", module=module.getvalue(), pipelines=pipelines, shapes=())
    )
    assert isinstance(found, Refused)
    again = pickle.loads(pickle.dumps(found))
    assert (again.text, again.is_exception) == ("std::bad_alloc", True)


def test_passes_that_never_end_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lowering_process._how(lowering_process._ENDLESS) == "do not end"
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    messages = lowering_process.Messages()
    for _ in range(lowering_process._MOST_MESSAGES + 1):
        messages.keep("a place", "again")
    assert ended == [lowering_process._ENDLESS]
