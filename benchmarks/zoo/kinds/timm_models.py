"""One model of each module of `timm`, the smallest that the module has, at a small input size."""

from benchmarks.zoo.kinds.torch_models import declare_torchvision, subject
from benchmarks.zoo.subject import Built, Left

__all__ = ["build", "names"]

_MOST = 40_000_000  # parameters


def names() -> list[str]:
    declare_torchvision()
    import timm

    return [module for module in timm.list_modules() if timm.list_models(module=module)]


def build(name: str) -> Built:
    declare_torchvision()  # before timm, which imports it
    import timm
    import torch

    with torch.device("meta"):
        sizes = {n: _parameters(n) for n in timm.list_models(module=name)}
    smallest = min(sizes, key=lambda n: sizes[n])
    if sizes[smallest] > _MOST:
        raise Left(f"{name} has nothing below {_MOST // 1_000_000} million parameters")
    torch.manual_seed(0)
    model = timm.create_model(smallest).eval()
    image = torch.randn(1, *model.default_cfg["input_size"])
    return subject(model, image)


def _parameters(name: str) -> int:
    import timm

    return sum(p.numel() for p in timm.create_model(name).parameters())
