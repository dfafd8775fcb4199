"""What users were told not to bring, each as small as shows it: the list of known failures.

Its rows say what became of each: right, or refused, and with which words.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.zoo.kinds import hugging_face, onnx_nodes, torchvision_models
from benchmarks.zoo.kinds.torch_models import subject
from benchmarks.zoo.subject import Built

__all__ = ["build", "names"]


def names() -> list[str]:
    return list(_SUBJECTS)


def build(name: str) -> Built:
    return _SUBJECTS[name]()


def _family(name: str) -> Callable[[], Built]:
    return lambda: hugging_face.build(name)


def _vision(name: str, *, half: bool = False) -> Callable[[], Built]:
    def made() -> Built:
        built = torchvision_models.build(name)
        if not half:
            return built
        return subject(built.model.half(), *(value.half() for value in built.inputs))

    return made


def _node_test(name: str) -> Callable[[], Built]:
    return lambda: onnx_nodes.build(name)


def _static_cache(*, saved: bool) -> Callable[[], Built]:
    """A language model with its cache in buffers: as the module, or as a saved export."""

    def made() -> Built:
        from pathlib import Path

        import torch

        from benchmarks.zoo.kinds import causal_models

        built = causal_models.build("llama")
        if not saved:
            return built
        path = Path("exported.pt2").absolute()
        exported = torch.export.export(built.model, (), dict(built.kwargs or {}), strict=False)
        torch.export.save(exported, path)
        return Built(model=str(path))

    return made


def _jax(function: Callable[..., Any], *inputs: Any) -> Callable[[], Built]:
    """A function of JAX, which is given its modules, on inputs of any width."""

    def made() -> Built:
        import jax

        jax.config.update("jax_enable_x64", True)

        def called(*values: Any) -> Any:
            return function(jax, *values)

        return Built(model=called, inputs=inputs)

    return made


_RANDOM = np.random.default_rng(0)
_REALS = _RANDOM.uniform(-0.9, 0.9, (4, 6))
_SHARES = _RANDOM.uniform(0.1, 0.9, (4, 6))
_COMPLEX = (_REALS + 1j * _SHARES).astype(np.complex64)
_BYTES = _RANDOM.integers(-4, 4, (3, 16)).astype(np.int8)
_FEW = _RANDOM.integers(0, 200, (4, 6)).astype(np.uint8)


def _bf16_product(jax: Any, bytes_: Any, reals: Any) -> Any:
    numbers = jax.numpy
    return numbers.matmul(bytes_, reals.astype(numbers.bfloat16)).astype(numbers.float32)


def _gamma(jax: Any, shape: Any) -> Any:
    return jax.random.gamma(jax.random.key(0), shape)


_SUBJECTS: dict[str, Callable[[], Built]] = {
    **{
        f"transformers {name}": _family(name)
        for name in (
            "mixtral",
            "granitemoe",
            "jetmoe",
            "falcon",
            "rt_detr",
            "fnet",
            "longformer",
            "encodec",
            "vits",
        )
    },
    "transformers zoedepth": lambda: hugging_face.build("zoedepth", "AutoModelForDepthEstimation"),
    "torchvision swin_t": _vision("swin_t"),
    "torchvision swin_t in f16": _vision("swin_t", half=True),
    "torchvision mvit_v2_s": _vision("mvit_v2_s"),
    "static cache, as a module": _static_cache(saved=False),
    "static cache, as a .pt2": _static_cache(saved=True),
    "top_k of i8": _jax(lambda jax, x: jax.lax.top_k(x, 5), _BYTES),
    "complex128 constants": _jax(
        lambda jax, x: x * jax.numpy.asarray(_COMPLEX.astype(np.complex128)),
        _REALS.astype(np.complex128),
    ),
    "asin of f64": _jax(lambda jax, x: jax.numpy.arcsin(x), _REALS),
    "betainc of f64": _jax(
        lambda jax, a, b, x: jax.scipy.special.betainc(a, b, x), 2 * _SHARES, 3 * _SHARES, _SHARES
    ),
    "cos of complex64": _jax(lambda jax, x: jax.numpy.cos(x), _COMPLEX),
    "sin of complex64": _jax(lambda jax, x: jax.numpy.sin(x), _COMPLEX),
    "random.gamma": _jax(_gamma, _SHARES.astype(np.float32)),
    "max of complex64": _jax(lambda jax, x: jax.numpy.max(x, axis=1), _COMPLEX),
    "prod of complex64": _jax(lambda jax, x: jax.numpy.prod(x, axis=1), _COMPLEX),
    "u8 by bf16": _jax(_bf16_product, _FEW, _REALS.T.astype(np.float32)),
    "ONNX BitCast": _node_test("test_bitcast_float32_to_int32"),
    "ONNX Binarizer": _node_test("test_ai_onnx_ml_binarizer"),
    "ONNX TreeEnsemble": _node_test("test_ai_onnx_ml_tree_ensemble_single_tree"),
}
