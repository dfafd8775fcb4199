"""Every causal language model of `transformers`, made small, with its cache.

The library's own wrapper for export keeps the cache in buffers, as state; a call takes one token
and its position. Of a model that the wrapper does not take, a call takes a prompt, and the cache
that this leaves is among the answers.
"""

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.zoo.kinds import hugging_face
from benchmarks.zoo.kinds.torch_models import declare_torchvision, subject
from benchmarks.zoo.subject import Built, Left

__all__ = ["build", "names"]

_CACHE = 32  # tokens


def names() -> list[str]:
    declare_torchvision()
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def build(name: str) -> Built:
    import torch

    declare_torchvision()
    problems = []
    ways: tuple[tuple[Callable[..., Any], Mapping[str, Any]], ...] = (
        (_step, {"input_ids": torch.tensor([[7]]), "cache_position": torch.tensor([0])}),
        (_plain, {"input_ids": torch.arange(3, 11)[None], "use_cache": True}),
    )
    for made, inputs in ways:
        for cuts in hugging_face.CUTS:
            try:
                model = made(name, cuts)
                with torch.no_grad():
                    model(**inputs)
            except Exception as error:  # noqa: BLE001 - a cut that does not fit; another may
                problems.append(hugging_face.shortly(error))
                continue
            return subject(model, kwargs=inputs)
    raise Left(f"no small {name} with a cache: {'; '.join(dict.fromkeys(problems))}")


def _plain(name: str, cuts: hugging_face.Cuts, **options: Any) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    config = hugging_face.small(name, cuts, AutoModelForCausalLM)
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, **options).eval()


def _step(name: str, cuts: hugging_face.Cuts) -> Any:
    from transformers import GenerationConfig
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    model = _plain(name, cuts, attn_implementation="sdpa")
    model.generation_config = GenerationConfig(
        use_cache=True,
        cache_implementation="static",
        cache_config={"batch_size": 1, "max_cache_len": _CACHE},
    )
    return TorchExportableModuleWithStaticCache(model)
