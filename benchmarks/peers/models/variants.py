"""Models again in fewer bits, where they are deployed so."""

from dataclasses import replace

from benchmarks.peers.models import images, transformers
from benchmarks.peers.models.model import Model, Precision

__all__ = ["MODELS"]

_FULL = {model.name: model for model in (*images.MODELS, *transformers.MODELS)}


def _in(precision: Precision, name: str) -> Model:
    full = _FULL[name]
    return replace(
        full,
        name=f"{name}_{precision.text}",
        title=f"{full.title}, {precision.text}",
        precision=precision,
        quick=False,
    )


MODELS = (
    # No transformer in i8: by tensor and from few examples, MiniLM is off by 40 % everywhere.
    *(_in(Precision.I8, name) for name in ("mobilenet_v2", "resnet50")),
    *(_in(Precision.F16, name) for name in ("mobilenet_v2", "resnet50", "minilm")),
)
