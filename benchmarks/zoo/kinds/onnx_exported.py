"""ONNX files as other exporters write them: torch.onnx, tf2onnx and skl2onnx.

torch.onnx writes torchvision's families, tf2onnx Keras' applications, and skl2onnx every estimator
of scikit-learn that it knows, trained on the iris or the diabetes data.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.zoo.kinds import keras_models, torchvision_models
from benchmarks.zoo.subject import Built, Left

__all__ = ["build", "names"]


def names() -> list[str]:
    listed = {
        "torch": torchvision_models.names(),
        "tf2onnx": keras_models.names(),
        "skl2onnx": sorted(_estimators()),
    }
    return [f"{by}-{name}" for by, found in listed.items() for name in found]


def build(name: str) -> Built:
    by, rest = name.split("-", 1)
    return _EXPORTERS[by](rest)


def _by_torch(name: str) -> Built:
    built = torchvision_models.build(name)
    if built.onnx is None:
        raise Left("it has no ONNX form")
    path = Path("exported.onnx").absolute()
    try:
        built.onnx(str(path))
    except Exception as error:
        raise Left(f"torch.onnx does not export it: {type(error).__name__}") from error
    return _file(path)


def _by_tf2onnx(name: str) -> Built:
    model: Any = keras_models.constructed(name, backend="tensorflow")
    import tensorflow as tf
    import tf2onnx

    spec = (tf.TensorSpec((1, *model.input_shape[1:]), tf.float32, name="image"),)
    path = Path("exported.onnx").absolute()
    tf2onnx.convert.from_function(
        tf.function(model, input_signature=spec),
        input_signature=spec,
        opset=17,
        output_path=str(path),
    )
    return _file(path)


def _file(path: Path, model: Any = None, *inputs: Any) -> Built:
    """The file, or its model, with inputs; the peers take it as it is."""

    def write(to: str) -> None:
        shutil.copyfile(path, to)

    return Built(model=str(path) if model is None else model, inputs=inputs, onnx=write)


def _by_skl2onnx(name: str) -> Built:
    import numpy as np
    from skl2onnx import to_onnx
    from sklearn.base import is_classifier, is_regressor
    from sklearn.datasets import load_diabetes, load_iris

    try:
        estimator = _made(_estimators()[name])
    except TypeError as error:  # it is made of another
        raise Left(str(error)) from error
    data, wanted = (load_diabetes if is_regressor(estimator) else load_iris)(return_X_y=True)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    data = data.astype(np.float32)
    plain = {"zipmap": False} if is_classifier(estimator) else None
    try:
        estimator.fit(data, wanted)
        try:
            found = to_onnx(estimator, data[:8], options=plain)
        except NameError:  # a classifier without that option
            found = to_onnx(estimator, data[:8])
    except Exception as error:
        raise Left(f"{type(error).__name__}: {str(error).splitlines()[0][:120]}") from error
    path = Path("exported.onnx").absolute()
    path.write_bytes(found.SerializeToString())
    return _file(path, found, data[:8])


def _made(kind: Any) -> Any:
    """An estimator; what is made of others gets plain ones."""
    import inspect

    from sklearn.base import RegressorMixin
    from sklearn.linear_model import LogisticRegression, Ridge

    plain = Ridge if issubclass(kind, RegressorMixin) else LogisticRegression
    others = {
        "estimator": plain(),
        "estimators": [("strong", plain()), ("weak", plain().set_params(**_WEAK[plain.__name__]))],
    }
    asked = inspect.signature(kind).parameters.values()
    return kind(
        **{p.name: others[p.name] for p in asked if p.default is p.empty and p.name in others}
    )


_WEAK = {"LogisticRegression": {"C": 0.1}, "Ridge": {"alpha": 10.0}}
"""What makes two plain estimators differ."""


def _estimators() -> dict[str, Any]:
    from skl2onnx import supported_converters
    from sklearn.utils import all_estimators

    known = set(supported_converters(from_sklearn=True))
    return {name: kind for name, kind in all_estimators() if name in known}


_EXPORTERS: dict[str, Callable[[str], Built]] = {
    "torch": _by_torch,
    "tf2onnx": _by_tf2onnx,
    "skl2onnx": _by_skl2onnx,
}
