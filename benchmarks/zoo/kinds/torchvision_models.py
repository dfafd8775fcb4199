"""The smallest model of each family of `torchvision` that is one graph: pictures in, numbers out.

Detectors need the library's compiled operators, and give as many boxes as there are.
"""

import itertools

from benchmarks.zoo.kinds.torch_models import declare_torchvision, subject
from benchmarks.zoo.subject import Built

__all__ = ["build", "names"]

_SIZE, _FRAMES = 128, 8


def names() -> list[str]:
    declare_torchvision()
    from torchvision import models

    folders = [models, models.segmentation, models.video, models.optical_flow]
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
    plain = {"weights_backbone": None} if ".segmentation" in builder else {}
    model = models.get_model(name, weights=None, **plain)
    if ".video" in builder:
        return subject(model, torch.randn(1, 3, _FRAMES, 112, 112))
    if ".optical_flow" in builder:
        return subject(model, *(torch.randn(1, 3, _SIZE, _SIZE) for _ in range(2)))
    size = 224 if "vit" in name or "maxvit" in name else _SIZE
    return subject(model, torch.randn(1, 3, size, size))


def _family(name: str) -> str:
    """`resnet101` and `resnet18` are one."""
    from torchvision import models

    return str(models.get_model_builder(name).__module__)
