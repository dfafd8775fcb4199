"""What PyTorch models return beside tensors: objects that hold some, and numbers."""

from typing import Any

import pytest
import torch
from torch import nn

from edgec.exporters import export
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.program import Function, Program


def only(program: Program) -> Function:
    (function,) = program.info.functions
    return function


class Layer:
    def __init__(self, keys: torch.Tensor) -> None:
        self.keys, self.count = keys, 3


class KeyCache:
    """What Hugging Face's models return beside their tensors, in short."""

    def __init__(self, *layers: Layer) -> None:
        self.layers, self.owner = list(layers), self


class Remembering(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        cache = KeyCache(Layer(x + 1), Layer(x - 1))
        return {"logits": x * 2, "past_key_values": cache, "size": (x.shape[0], 0.5, True)}


def test_of_an_object_among_the_results_its_tensors_are_given(replay, caplog) -> None:
    program = export(Remembering(), (torch.ones(2),))
    assert "(forward) returns a KeyCache, whose tensors become outputs" in caplog.text
    said = only(program).signature
    assert [spec.name for spec in said.outputs] == [
        "logits",
        "past_key_values.layers[0].keys",
        "past_key_values.layers[1].keys",
        "size[0]",
        "size[1]",
        "size[2]",
    ]
    assert said.result == {
        "logits": 0,
        "past_key_values": {"layers": [{"keys": 1}, {"keys": 2}]},
        "size": (3, 4, 5),
    }
    assert replay(program) == 0


def test_a_size_among_the_results_is_that_of_the_call(replay) -> None:
    program = export(Remembering(), (torch.ones(2),), dynamic="n=1..8")
    assert replay(program) == 0


def test_an_object_with_tensors_among_the_arguments_is_refused_at_the_functions_line() -> None:
    def read(x: torch.Tensor, cache: KeyCache) -> torch.Tensor:
        return x + cache.layers[0].keys

    with pytest.raises(UnsupportedOp, match="the argument cache is a KeyCache") as caught:
        export(read, (torch.ones(2), KeyCache(Layer(torch.ones(2)))))
    line = read.__code__.co_firstlineno
    assert (caught.value.where or "").endswith(f"test_from_torch_results.py:{line} (read)")
    assert "hf:FOLDER" not in (caught.value.hint or "")


@pytest.mark.parametrize("given", [False, True])
def test_a_cache_of_transformers_leads_to_the_road_of_language_models(
    given: bool, caplog: pytest.LogCaptureFixture
) -> None:
    from transformers import DynamicCache

    def keep(x: torch.Tensor, cache: Any = None) -> Any:
        cache = cache or DynamicCache()
        cache.update(x, x + 1, 0)
        return x * 2, cache

    x = torch.ones(1, 1, 2, 4)
    if not given:
        outputs = only(export(keep, (x,))).signature.outputs
        assert len(outputs) == 3
        assert "use_cache=False" in caplog.text
        assert "edgec export hf:FOLDER" in caplog.text
        return
    with pytest.raises(UnsupportedOp, match="the argument cache is a DynamicCache") as caught:
        export(keep, (x, keep(x)[1]))
    assert "edgec export hf:FOLDER" in (caught.value.hint or "")


class Opaque:
    """Holds no tensor."""


def test_an_object_without_tensors_among_the_results_is_refused_by_its_name() -> None:
    with pytest.raises(UnsupportedOp, match="returns a Opaque, which is no tensor") as caught:
        export(lambda x: {"y": x * 2, "what": Opaque()}, (torch.ones(2),))
    assert "test_from_torch_results.py" in (caught.value.where or "")
    assert "return tensors" in (caught.value.hint or "")
