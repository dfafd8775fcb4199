"""Twelve models at their real size, as their users export them from timm and transformers.

The last two were drawn by chance from timm's list of trained models.
"""

from collections.abc import Callable
from typing import Any

from benchmarks.zoo.kinds.torch_models import declare_torchvision, subject
from benchmarks.zoo.subject import Built

__all__ = ["build", "names"]


def names() -> list[str]:
    return list(_MODELS)


def build(name: str) -> Built:
    import torch

    declare_torchvision()
    torch.manual_seed(0)
    return _MODELS[name]()


def _timm(name: str, size: int = 224) -> Callable[[], Built]:
    def made() -> Built:
        import timm
        import torch

        return subject(timm.create_model(name), torch.randn(1, 3, size, size))

    return made


def _distilbert() -> Built:
    import torch
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    model = DistilBertForSequenceClassification(DistilBertConfig())
    ids = torch.randint(0, 30000, (1, 128))
    return subject(_logits(model), ids, torch.ones_like(ids))


def _whisper() -> Built:
    import torch
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    return subject(_first(WhisperEncoder(WhisperConfig())), torch.randn(1, 80, 3000))


def _segformer() -> Built:
    import torch
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    model = SegformerForSemanticSegmentation(SegformerConfig(num_labels=150))
    return subject(_logits(model), torch.randn(1, 3, 512, 512))


def _logits(model: Any) -> Any:
    return _part(model, lambda output: output.logits)


def _first(model: Any) -> Any:
    return _part(model, lambda output: output[0])


def _part(model: Any, read: Callable[[Any], Any]) -> Any:
    """The model with one of its answers."""
    import torch

    class Part(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: Any) -> Any:
            return read(self.model(*values))

    return Part()


_MODELS: dict[str, Callable[[], Built]] = {
    "mobilevit_s": _timm("mobilevit_s", 256),
    "densenet121": _timm("densenet121"),
    "distilbert": _distilbert,
    "mobilenetv4_conv_small": _timm("mobilenetv4_conv_small"),
    "whisper_tiny_encoder": _whisper,
    "convnext_tiny": _timm("convnext_tiny"),
    "efficientformer_l1": _timm("efficientformer_l1"),
    "fastvit_t8": _timm("fastvit_t8", 256),
    "regnetx_008": _timm("regnetx_008"),
    "segformer_b0": _segformer,
    "dla60x": _timm("dla60x"),
    "vit_dpwee_patch16_reg1_gap_256": _timm("vit_dpwee_patch16_reg1_gap_256", 256),
}
