"""Networks drawn at random from `timm` and `transformers`, which nobody had tried on a GPU.

Of `timm`, modules that neither `torch_models.py` nor the zoo had worked on, shuffled by
`random.Random(20261123)`, and of each a model of 3 to 40 million weights and images of at most
256 x 256, drawn by the same; the first five. Of `transformers`, families likewise whose model by
default has less than 140 million weights and takes tokens, sound or such images; the first three.
Tuning for one of these by name would make the page that shows them worthless.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

__all__ = ["DRAWN"]


def _noise(*sizes: int) -> Any:
    import torch

    return torch.randn(*sizes, generator=torch.Generator().manual_seed(1))


def _timm(name: str) -> tuple[Any, tuple[Any, ...]]:
    import timm

    return timm.create_model(name), (_noise(1, 3, 224, 224),)


def _transformers(name: str, argument: str, *sizes: int) -> tuple[Any, tuple[Any, ...]]:
    """A family's model as its default configuration has it; its first result alone."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModel

    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_config(CONFIG_MAPPING[name]())

        def forward(self, value: Any) -> Any:
            return self.model(**{argument: value})[0]

    return First(), (_noise(*sizes),)


_IMAGE = ("pixel_values", 1, 3, 224, 224)

DRAWN: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "vit-relpos-m": partial(_timm, "vit_relpos_medium_patch16_rpn_224"),
    "gcvit-xt": partial(_timm, "gcvit_xtiny"),
    "rdnet-t": partial(_timm, "rdnet_tiny"),
    "efficientvit-b2": partial(_timm, "efficientvit_b2"),
    "lcnetv2-s": partial(_timm, "lcnetv2_small"),
    "sew": partial(_transformers, "sew", "input_values", 1, 16000),
    "beit": partial(_transformers, "beit", *_IMAGE),
    "dinov2-registers": partial(_transformers, "dinov2_with_registers", *_IMAGE),
}
