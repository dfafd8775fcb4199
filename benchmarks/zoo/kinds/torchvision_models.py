"""The first model of each family of `torchvision`: pictures in, numbers out.

Detectors go as far as the scores and offsets of all their boxes (of all that they propose, where
they propose some first): which boxes they choose then depends on data.
"""

import itertools
from typing import Any

from benchmarks.zoo.kinds.torch_models import declare_torchvision, subject
from benchmarks.zoo.subject import Built, Left

__all__ = ["build", "names"]

_SIZE = 128
_FILMS = ((8, 112), (16, 224))


def names() -> list[str]:
    declare_torchvision()
    from torchvision import models

    folders = [models, models.detection, models.segmentation, models.video, models.optical_flow]
    listed = sorted(
        (_family(name), name) for folder in folders for name in models.list_models(module=folder)
    )
    return [next(iter(group))[1] for _, group in itertools.groupby(listed, lambda pair: pair[0])]


def build(name: str) -> Built:
    declare_torchvision()
    import torch
    from torchvision import models

    torch.manual_seed(0)
    builder = models.get_model_builder(name).__module__
    with_backbone = ".segmentation" in builder or ".detection" in builder
    plain = {"weights_backbone": None} if with_backbone else {}
    model = models.get_model(name, weights=None, **plain)
    if ".detection" in builder:
        return subject(_scores(model), torch.randn(1, 3, _SIZE, _SIZE))
    if ".video" in builder:
        return subject(model, _film(model))
    if ".optical_flow" in builder:
        return subject(model, *(torch.randn(1, 3, _SIZE, _SIZE) for _ in range(2)))
    size = 224 if "vit" in name or "maxvit" in name else _SIZE
    return subject(model, torch.randn(1, 3, size, size))


def _film(model: Any) -> Any:
    """The smallest film that the model takes."""
    import torch

    problem = ""
    for frames, side in _FILMS:
        film = torch.randn(1, 3, frames, side, side)
        try:
            with torch.no_grad():
                model.eval()(film)
        except RuntimeError as error:  # it knows one size alone
            problem = str(error)
            continue
        return film
    raise Left(problem)


def _scores(detector: Any) -> Any:
    """The detector as far as its first head."""
    import torch

    class Scores(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.backbone = detector.backbone
            self.head = detector.rpn.head if hasattr(detector, "rpn") else detector.head

        def forward(self, image: Any) -> Any:
            return self.head(list(self.backbone(image).values()))

    return Scores()


def _family(name: str) -> str:
    """`resnet101` and `resnet18` are one."""
    from torchvision import models

    return str(models.get_model_builder(name).__module__)
