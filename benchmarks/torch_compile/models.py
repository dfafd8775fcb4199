"""Transformers' networks with seeded weights, as `torch.compile` gets them: calls, and steps."""

import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["MODELS", "Call"]

Call = Callable[[], list[Any]]
Compiler = Callable[[Any], Any]
"""`torch.compile` with an engine, or nothing at all."""


def _tokens(count: int, length: int) -> Any:
    import torch

    return torch.randint(0, 1000, (count, length), generator=torch.Generator().manual_seed(1))


def _picture(side: int, count: int = 1) -> Any:
    import torch

    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(1))


def _calls(model: Any, given: Any, compiled: Compiler) -> Call:
    import torch

    run = compiled(model.eval())

    def call() -> list[Any]:
        with torch.no_grad():
            return [run(given)[0]]

    return call


def _steps(model: Any, given: Any, loss: Callable[[Any], Any], compiled: Compiler) -> Call:
    """A step of training, weights put back, so that each is the first."""
    import torch

    run = compiled(model.train())
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def call() -> list[Any]:
        torch.manual_seed(0)
        found = loss(run(given)[0])
        found.backward()
        # A weight that is not used has none in eager PyTorch, and zeros from a compiled graph.
        gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
        for weight in weights:
            weight.grad = None
        return [found.detach(), *gradients]

    return call


def _bert(**more: Any) -> Any:
    import transformers

    config = transformers.BertConfig(
        hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, **more
    )
    return transformers.BertModel(config)


def _gpt2() -> Any:
    import transformers

    config = transformers.GPT2Config(n_embd=256, n_layer=4, n_head=4, use_cache=False)
    return transformers.GPT2Model(config)


def _vit() -> Any:
    import transformers

    config = transformers.ViTConfig(
        hidden_size=192, num_hidden_layers=6, num_attention_heads=3, intermediate_size=768
    )
    return transformers.ViTModel(config)


def _resnet() -> Any:
    import transformers

    config = transformers.ResNetConfig(
        hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic"
    )
    return transformers.ResNetModel(config)


def _convnext() -> Any:
    import transformers

    return transformers.ConvNextModel(
        transformers.ConvNextConfig(hidden_sizes=[48, 96, 192, 384], depths=[2, 2, 4, 2])
    )


def _mobilenet() -> Any:
    import transformers

    return transformers.MobileNetV2Model(transformers.MobileNetV2Config())


def _distance(value: Any) -> Any:
    """From a seeded target: the square of a normalised value alone has no gradient."""
    import torch

    target = torch.rand(value.shape, generator=torch.Generator().manual_seed(2))
    return (value - target).pow(2).mean()


MODELS: dict[str, Callable[[Compiler], Call]] = {
    "BERT, 4 layers, 128 tokens": lambda c: _calls(_bert(), _tokens(1, 128), c),
    "GPT-2, 4 layers, 64 tokens": lambda c: _calls(_gpt2(), _tokens(1, 64), c),
    "ViT, 6 layers, 224²": lambda c: _calls(_vit(), _picture(224), c),
    "ResNet-18, 224²": lambda c: _calls(_resnet(), _picture(224), c),
    "ConvNeXt, 10 blocks, 224²": lambda c: _calls(_convnext(), _picture(224), c),
    "MobileNetV2, 224²": lambda c: _calls(_mobilenet(), _picture(224), c),
    "BERT, a step with dropout": lambda c: _steps(_bert(), _tokens(4, 64), _distance, c),
    "ViT, a step": lambda c: _steps(_vit(), _picture(224), _distance, c),
    "ResNet-18, a step, 4 of 112²": lambda c: _steps(_resnet(), _picture(112, 4), _distance, c),
    "MobileNetV2, a step, 4 of 112²": lambda c: _steps(
        _mobilenet(), _picture(112, 4), _distance, c
    ),
    "ConvNeXt, a step, 4 of 112²": lambda c: _steps(_convnext(), _picture(112, 4), _distance, c),
}


def call(name: str, compiled: Compiler) -> Call:
    """A model's call by its name; the same weights in every process."""
    import torch

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    return MODELS[name](compiled)
