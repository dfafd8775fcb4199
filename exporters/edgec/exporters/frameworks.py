"""The frameworks that edgec exports from: how to know their models, and what does the work."""

import functools
import importlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

from edgec.exporters.bundle import Bundle
from edgec.exporters.dynamic import Dynamic
from edgec.exporters.traced import TracedFunction
from edgec.runtime.errors import UsageError

__all__ = ["FRAMEWORKS", "Framework", "extra_of", "framework_of", "is_model", "named"]


class Tracer(Protocol):
    """What a framework's module gives; README.md says it in full."""

    def trace(
        self, bundle: Bundle, *, dynamic: Dynamic, values: bool = False
    ) -> tuple[TracedFunction, ...]:
        """One traced function for each entry; `values` only where `keeps_values` says so."""

    def load(self, path: Path, *, signatures: tuple[str, ...]) -> Bundle:
        """Open a file of the framework's own format."""


@dataclass(frozen=True, kw_only=True)
class Framework:
    """One framework.

    Attributes:
        name: as the user writes it.
        module: edgec's module that exports from it; imported when it is needed.
        packages: top-level packages that its models' classes and arrays come from.
        suffixes: file names that are its own.
        distributions: whose versions a program records.
        keeps_values: whether it can say what it computes on the way to an answer.
    """

    name: str
    module: str
    packages: tuple[str, ...]
    suffixes: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    keeps_values: bool = False

    def tracer(self) -> Tracer:
        """The module that does the work."""
        return cast(Tracer, importlib.import_module(self.module))

    def versions(self) -> dict[str, str]:
        """The versions of its packages that are installed."""
        found: dict[str, str] = {}
        for name in self.distributions:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
        return found


# In the order of asking: a Keras model is also a TensorFlow module where that is its backend.
FRAMEWORKS: dict[str, Framework] = {
    "keras": Framework(
        name="keras",
        module="edgec.exporters.from_keras.export",
        packages=("keras",),
        suffixes=(".keras",),
        distributions=("keras", "jax", "jaxlib"),
        keeps_values=True,
    ),
    "torch": Framework(
        name="torch",
        module="edgec.exporters.from_torch.export",
        packages=("torch",),
        suffixes=(".pt2",),
        distributions=("torch", "torch-mlir"),
        keeps_values=True,
    ),
    "tensorflow": Framework(
        name="tensorflow",
        module="edgec.exporters.from_tensorflow.export",
        packages=("tensorflow",),
        distributions=("tensorflow", "tensorflow-cpu"),
        keeps_values=True,
    ),
    "onnx": Framework(
        name="onnx",
        module="edgec.exporters.from_onnx.export",
        packages=("onnx",),
        suffixes=(".onnx",),
        distributions=("onnx", "onnxruntime"),
        keeps_values=True,
    ),
    "tflite": Framework(
        name="tflite",
        module="edgec.exporters.from_tflite.export",
        packages=(),
        suffixes=(".tflite",),
        distributions=("ai-edge-litert", "jax", "jaxlib"),
        keeps_values=True,
    ),
    "jax": Framework(
        name="jax",
        module="edgec.exporters.from_jax.export",
        packages=("flax", "equinox", "jax", "jaxlib"),
        distributions=("jax", "jaxlib", "flax", "equinox"),
        keeps_values=True,
    ),
}


def named(name: str) -> Framework:
    """A framework by its name.

    Raises:
        UsageError: there is none of this name.
    """
    if name not in FRAMEWORKS:
        raise UsageError(
            f"there is no framework {name!r}", hint=f"choose one of {', '.join(FRAMEWORKS)}"
        )
    return FRAMEWORKS[name]


def extra_of(module: str | None) -> str | None:
    """The extra of edgec that installs a framework, by the name of its package."""
    package = (module or "").partition(".")[0]
    return package if package in FRAMEWORKS else None


def is_model(value: Any) -> bool:
    """Whether a value is a model of some framework, or any callable."""
    if isinstance(value, tuple) and len(value) == 2:
        return _class_of(value[0]) is FRAMEWORKS["jax"] and isinstance(value[1], Mapping)
    return callable(value) or _class_of(value) not in (None, FRAMEWORKS["jax"])


def framework_of(bundle: Bundle) -> Framework:
    """The one framework of a bundle's functions; no framework is imported to tell.

    A plain Python function is of the framework of its example inputs, of the modules that it
    names, or else JAX.

    Raises:
        UsageError: the entries are of several frameworks.
    """
    found: dict[str, str] = {}
    for entry in bundle.entries:
        model = entry.function
        framework = _class_of(model[0] if isinstance(model, tuple) and model else model)
        for part in () if framework else (*_leaves(entry.inputs), *_leaves(entry.kwargs)):
            framework = framework or _class_of(part)
        framework = framework or _by_globals(model) or FRAMEWORKS["jax"]
        found.setdefault(framework.name, entry.name)
    if len(found) > 1:
        said = ", ".join(f"{entry} is {framework}" for framework, entry in found.items())
        raise UsageError(
            f"a program is of one framework, and {said}",
            hint="export them as two programs",
        )
    return FRAMEWORKS[next(iter(found))]


def _class_of(value: Any) -> Framework | None:
    origins = {c.__module__.partition(".")[0] for c in type(value).__mro__}
    for framework in FRAMEWORKS.values():
        if origins & set(framework.packages):
            return framework
    return None


def _by_globals(function: Any) -> Framework | None:
    """The framework of a function that names only one: by the object it is bound to, or modules."""
    while isinstance(function, functools.partial):
        function = function.func
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        return _class_of(owner)
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    names = getattr(function, "__globals__", {})
    modules = {
        names[name].__name__.partition(".")[0]
        for name in (code.co_names if code else ())
        if isinstance(names.get(name), ModuleType)
    }
    fitting = [f for f in FRAMEWORKS.values() if modules & set(f.packages)]
    return fitting[0] if len(fitting) == 1 else None


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for child in value.values():
            yield from _leaves(child)
    elif isinstance(value, list | tuple):
        for child in value:
            yield from _leaves(child)
    elif value is not None:
        yield value
