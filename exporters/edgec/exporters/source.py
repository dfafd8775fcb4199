"""What a user writes on the command line to a model: `file.py:name`, `package.module:name`, a file.

A name in Python stands for a model or function, for a `Bundle` or `Entry`, or for a function
without parameters that returns one of these: `model`, `(model, inputs)`, `(model, inputs, kwargs)`.
A function or model without inputs of its own is run on what the same file calls
`example_inputs`: a tuple of arguments, a dict of keyword arguments, or a function returning either.
"""

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from edgec.exporters.bundle import Bundle, Entry
from edgec.exporters.frameworks import FRAMEWORKS, Framework, extra_of, framework_of, is_model
from edgec.exporters.not_models import refuse_folder, refuse_text
from edgec.exporters.places import place_of_error
from edgec.runtime.errors import EdgecError, FileError, SourceError

__all__ = ["EXAMPLES", "ModelSource", "is_stablehlo", "open_source"]

EXAMPLES = "example_inputs"
"""What a Python file calls the inputs of its models."""

_STABLEHLO = (".mlir", ".mlirbc")


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """A model that was found: what to export, and by which framework."""

    bundle: Bundle
    framework: Framework


def is_stablehlo(text: str) -> bool:
    """Whether the source is an MLIR file, which needs no framework."""
    return Path(text).suffix in _STABLEHLO


def open_source(text: str, *, signatures: tuple[str, ...] = ()) -> ModelSource:
    """Find and load what `text` names.

    Args:
        text: `file.py:name`, `package.module:name`, a SavedModel folder, or a model file.
        signatures: for a bundle or model file, the signatures to keep; for a Python name, further
            names in the same module, each a signature. `NAME=WHERE` renames: the signature NAME
            is WHERE in the source.

    Raises:
        FileError: the file is missing.
        SourceError: the module cannot be imported, or holds no such model.
    """
    path = Path(text)
    for framework in FRAMEWORKS.values():
        if path.suffix in framework.suffixes:
            return _model_file(path, framework, signatures)
    if (path / "saved_model.pb").exists():
        return _model_file(path, FRAMEWORKS["tensorflow"], signatures)
    if path.is_dir():
        raise refuse_folder(path, tuple(s for f in FRAMEWORKS.values() for s in f.suffixes))
    where, colon, name = text.rpartition(":")
    if not colon or not name or not where:
        raise refuse_text(text)
    module = _import(where)
    bundle = _bundle_of(module, where, name)
    bundle = _with_signatures(bundle, module, where, signatures)
    return ModelSource(bundle=bundle, framework=framework_of(bundle))


def _model_file(path: Path, framework: Framework, signatures: tuple[str, ...]) -> ModelSource:
    if not path.exists():
        raise refuse_text(str(path))
    renamed = _renames(signatures)
    bundle = framework.tracer().load(path, signatures=tuple(renamed.values()))
    names = {where: name for name, where in renamed.items()}
    entries = tuple(replace(e, name=names.get(e.name, e.name)) for e in bundle.entries)
    return ModelSource(bundle=replace(bundle, entries=entries), framework=framework)


def _renames(signatures: tuple[str, ...]) -> dict[str, str]:
    """Signature name → its name in the source."""
    result: dict[str, str] = {}
    for text in signatures:
        name, equals, where = text.partition("=")
        result[name] = where if equals else name
    return result


def _import(where: str) -> ModuleType:
    path = Path(where)
    if path.suffix == ".py" or path.exists():
        return _import_file(path)
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{where}.".startswith(f"{error.name}."):
            raise _broken(where, error) from error
        raise SourceError(
            f"there is no module {where}",
            hint=f"write the path, as {where.replace('.', '/')}.py:NAME, or run from its folder",
        ) from error
    except Exception as error:
        raise _broken(where, error) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        near = difflib.get_close_matches(path.name, [p.name for p in _neighbours(path)], n=1)
        raise FileError(
            f"cannot read {path}: no such file",
            hint=f"did you mean {path.with_name(near[0])}?" if near else "check the path",
        )
    # As with `python file.py`, modules beside the file can be imported.
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = f"_edgec_source_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SourceError(f"{path} is no Python file", hint="name it .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _broken(str(path), error) from error
    return module


def _neighbours(path: Path) -> list[Path]:
    return list(path.parent.glob("*.py")) if path.parent.is_dir() else []


def _broken(where: str, error: Exception) -> EdgecError:
    if isinstance(error, EdgecError):
        return error
    return SourceError(
        f"{where} cannot be imported: {type(error).__name__}: {error}",
        where=place_of_error(error),
        hint=_of_missing(error) or "mend the error that Python shows for this file",
    )


def _of_missing(error: Exception) -> str | None:
    """What to install, where a package is what is missing."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    extra = extra_of(error.name)
    if extra:
        return f'pip install "edgec[{extra}]"'
    return f"pip install the package of {error.name}, or run from the folder that holds it"


def _bundle_of(module: ModuleType, where: str, name: str, signature: str = "main") -> Bundle:
    value = _look_up(module, where, name)
    text = f"{where}:{name}"
    if isinstance(value, type):
        raise SourceError(
            f"{text} is a class, not a model",
            hint="name an instance, or a function without parameters that returns "
            "(model, example_inputs)",
        )
    made = _call(value, text) if _is_factory(value) else value
    if isinstance(made, Bundle):
        return made
    if isinstance(made, Entry):
        return Bundle((replace(made, name=signature) if made.name == "main" else made,))
    entry = _entry_of_tuple(made, signature)
    if entry is None and is_model(made):
        args, kwargs = _examples(module, where)
        entry = Entry(made, args, kwargs, name=signature)
    if entry is None and made is not value:
        # A function without parameters that computes arrays is itself the model.
        entry = Entry(value, name=signature)
    if entry is None:
        raise SourceError(
            f"{text} is of type {type(made).__name__}, which is no model",
            hint="name a function, a model, or a function that returns (model, example_inputs)",
        )
    return Bundle((entry,))


def _look_up(module: ModuleType, where: str, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            known = [n for n in vars(value) if not n.startswith("_")] if value is module else []
            near = difflib.get_close_matches(part, known, n=3, cutoff=0.5)
            local = [n for n in known if _defined_in(getattr(module, n), module)]
            said = near or local
            raise SourceError(
                f"{where} has no {name}",
                hint=f"it has {', '.join(said)}" if said else "check the name",
            )
        value = getattr(value, part)
    return value


def _defined_in(value: Any, module: ModuleType) -> bool:
    return getattr(value, "__module__", None) == module.__name__


def _is_factory(value: Any) -> bool:
    """Whether this is a plain function that can be called without arguments."""
    if not inspect.isfunction(value):
        return False
    parameters = inspect.signature(value).parameters.values()
    return all(
        p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters
    )


def _call(function: Any, text: str) -> Any:
    try:
        return function()
    except EdgecError:
        raise
    except Exception as error:
        raise SourceError(
            f"{text}() failed: {type(error).__name__}: {error}",
            where=place_of_error(error),
            hint=_of_missing(error)
            or "call the function yourself; it must return (model, example_inputs)",
        ) from error


def _entry_of_tuple(value: Any, name: str) -> Entry | None:
    """The entry that `(model, inputs)` or `(model, inputs, kwargs)` stands for."""
    if not isinstance(value, tuple) or len(value) not in (2, 3) or is_model(value):
        return None
    model, inputs = value[0], value[1]
    kwargs = value[2] if len(value) == 3 else None
    if not is_model(model) or not (kwargs is None or isinstance(kwargs, Mapping)):
        return None
    if isinstance(inputs, Mapping) and kwargs is None:
        return Entry(model, (), inputs, name=name)
    return Entry(model, inputs, kwargs, name=name)


def _examples(module: ModuleType, where: str) -> tuple[tuple[Any, ...], Mapping[str, Any] | None]:
    examples = getattr(module, EXAMPLES, ())
    if inspect.isfunction(examples):
        examples = _call(examples, f"{where}:{EXAMPLES}")
    if isinstance(examples, Mapping):
        return (), examples
    return tuple(examples) if isinstance(examples, list | tuple) else (examples,), None


def _with_signatures(
    bundle: Bundle, module: ModuleType, where: str, signatures: tuple[str, ...]
) -> Bundle:
    """The bundle cut to the signatures asked for, or with further names of the module added."""
    if not signatures:
        return bundle
    renamed = _renames(signatures)
    known = {entry.name: entry for entry in bundle.entries}
    if all(place in known for place in renamed.values()):
        entries = tuple(replace(known[place], name=name) for name, place in renamed.items())
        return replace(bundle, entries=entries)
    if len(bundle.entries) > 1:
        missing = next(place for place in renamed.values() if place not in known)
        raise SourceError(f"{where} has no signature {missing}", hint=f"it has {', '.join(known)}")
    added: list[Entry] = []
    for name, place in renamed.items():
        added.extend(_bundle_of(module, where, place, name).entries)
    return replace(bundle, entries=(*bundle.entries, *added))
