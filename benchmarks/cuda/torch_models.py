"""Networks of other people as their users export them from PyTorch, in f16 or f32, seeded.

From `transformers` and `timm`; none of them was at hand when edgec's kernels were written. Those of
`drawn_models.py` were drawn by chance, later.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from drawn_models import DRAWN

__all__ = ["TORCH_MODELS", "build"]


def _tokens(vocabulary: int, count: int) -> Any:
    import torch

    return torch.randint(0, vocabulary, (1, count), generator=torch.Generator().manual_seed(1))


def _image(size: int) -> Any:
    import torch

    return torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(1))


def _gpt2() -> tuple[Any, tuple[Any, ...]]:
    from transformers import GPT2Config, GPT2Model

    model = GPT2Model(GPT2Config(attn_implementation="sdpa", use_cache=False))
    return _first(model), (_tokens(50257, 128),)


def _distilbert() -> tuple[Any, tuple[Any, ...]]:
    """With a padding mask, as a tokenizer gives it."""
    import torch
    from transformers import DistilBertConfig, DistilBertModel

    mask = torch.ones(1, 128, dtype=torch.long)
    mask[:, 100:] = 0
    model = DistilBertModel(DistilBertConfig(attn_implementation="sdpa"))
    return _first(model, "input_ids", "attention_mask"), (_tokens(30522, 128), mask)


_MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
"""As sentence-transformers' all-MiniLM-L6-v2 is made."""


def _bert(**sizes: int) -> tuple[Any, tuple[Any, ...]]:
    """With a padding mask, as a tokenizer gives it."""
    import torch
    from transformers import BertConfig, BertModel

    mask = torch.ones(1, 128, dtype=torch.long)
    mask[:, 100:] = 0
    model = BertModel(BertConfig(attn_implementation="sdpa", **sizes), add_pooling_layer=False)
    return _first(model, "input_ids", "attention_mask"), (_tokens(30522, 128), mask)


def _unet() -> tuple[Any, tuple[Any, ...]]:
    """U-Net of 31 million weights for 21 classes, with batch norms, as it is written today."""
    from torch import cat, nn

    def double(inputs: int, outputs: int) -> Any:
        steps = []
        for width in (inputs, outputs):
            steps += [nn.Conv2d(width, outputs, 3, padding=1, bias=False)]
            steps += [nn.BatchNorm2d(outputs), nn.ReLU()]
        return nn.Sequential(*steps)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (64, 128, 256, 512, 1024)
            pairs = list(pairwise(widths))
            self.down = nn.ModuleList(
                [double(before, after) for before, after in [(3, widths[0]), *pairs]]
            )
            self.pool = nn.MaxPool2d(2)
            self.up = nn.ModuleList(
                [nn.ConvTranspose2d(wide, narrow, 2, stride=2) for narrow, wide in reversed(pairs)]
            )
            self.join = nn.ModuleList([double(wide, narrow) for narrow, wide in reversed(pairs)])
            self.last = nn.Conv2d(widths[0], 21, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for step in self.down:
                x = step(self.pool(x) if kept else x)
                kept.append(x)
            for up, join, other in zip(self.up, self.join, kept[-2::-1], strict=True):
                x = join(cat([other, up(x)], 1))
            return self.last(x)

    return UNet(), (_image(256),)


def _first(model: Any, *names: str) -> Any:
    """The model with its first result alone; arguments by these names."""
    import torch

    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, first: Any, *rest: Any) -> Any:
            given = dict(zip(names or ("input_ids",), (first, *rest), strict=True))
            return self.model(**given)[0]

    return First()


def _timm(name: str, size: int = 224) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    def make() -> tuple[Any, tuple[Any, ...]]:
        import timm

        return timm.create_model(name), (_image(size),)

    return make


def _terms(**sizes: int) -> tuple[Any, tuple[Any, ...]]:
    """BERT whose mask comes as terms that are added to scores: pnnx keeps no other."""
    import torch
    from transformers import BertConfig, BertModel

    terms = torch.zeros(1, 1, 128, 128)
    terms[..., 100:] = -10000.0
    model = BertModel(BertConfig(attn_implementation="eager", **sizes), add_pooling_layer=False)
    return _first(model, "input_ids", "attention_mask"), (_tokens(30522, 128), terms)


TORCH_MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "gpt2": _gpt2,
    "distilbert-mask": _distilbert,
    "vit-b16": _timm("vit_base_patch16_224"),
    "mobilenetv3-l": _timm("mobilenetv3_large_100"),
    "convnext-t": _timm("convnext_tiny"),
    "resnet50": _timm("resnet50"),
    "regnetx-016": _timm("regnetx_016"),
    "bert-base": _bert,
    "bert-base-terms": _terms,
    "minilm": partial(_bert, **_MINILM),
    "minilm-terms": partial(_terms, **_MINILM),
    "unet": _unet,
    "swin-t": _timm("swin_tiny_patch4_window7_224"),
}


def build(name: str, kind: str) -> tuple[Any, tuple[Any, ...]]:
    """A network in eval mode with its inputs, floats of type `kind` (`f16`, `f32`), on the CPU."""
    import torch

    dtype = {"f16": torch.float16, "f32": torch.float32}[kind]
    torch.manual_seed(0)
    model, inputs = {**TORCH_MODELS, **DRAWN}[name]()
    model = model.eval().to(dtype)
    return model, tuple(v.to(dtype) if v.is_floating_point() else v for v in inputs)
