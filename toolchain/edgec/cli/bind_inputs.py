"""`--input` and `--expected` values to one array for each input or output of a signature.

Values go by position in the order of the signature, or by name. An argument that holds several
arrays (a dict of parameters) takes an archive with a key for each. An archive without a name fills
by its keys. A file of golden answers (`NAME.golden.npz`) fills everything from its first call.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgec.cli.array_files import Check, read_npy, read_npz, read_raw
from edgec.cli.images import SUFFIXES, read_image
from edgec.cli.input_spec import FORMS, FileValue, InputSpec, TypedShape
from edgec.cli.literals import parse_values
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError, UsageError
from edgec.runtime.golden import Golden, GoldenCall
from edgec.runtime.signature import Signature, TensorSpec

__all__ = ["Slots", "bind", "golden_call"]

Accept = Callable[[TensorSpec, tuple[int, ...]], str | None]
"""Whether a spec takes an array of that shape: None, or why not."""


@dataclass(frozen=True, kw_only=True)
class Slots:
    """What there is to fill: the inputs, or the outputs, of one signature.

    Attributes:
        signature: the signature they are of.
        specs: one for each slot.
        flag: the option that fills them, for messages.
        accept: which shapes a slot takes.
    """

    signature: Signature
    specs: tuple[TensorSpec, ...]
    flag: str
    accept: Accept

    def index(self, name: str) -> int | None:
        """The slot of that name."""
        return next((i for i, spec in enumerate(self.specs) if spec.name == name), None)

    def below(self, name: str) -> dict[str, int]:
        """The slots inside an argument of that name: the rest of the name → slot."""
        found = {}
        for index, spec in enumerate(self.specs):
            rest = spec.name.removeprefix(name)
            if rest != spec.name and rest[:1] in (".", "["):
                found[rest.removeprefix(".")] = index
        return found

    def check(self, index: int) -> Check:
        """Refuses an array by its header."""
        spec = self.specs[index]

        def check(name: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
            DType.of(dtype.newbyteorder("="))
            reason = self.accept(spec, shape)
            if reason is not None:
                raise InputError(f"{name} does not fit: {reason}", hint=f"call {self.signature}")

        return check


def bind(specs: Sequence[InputSpec], slots: Slots) -> dict[int, np.ndarray]:
    """Read every value into its slot; types are as the files have them.

    Raises:
        InputError: too many values, an unknown name, one given twice, or one that does not fit.
        FileError: a file cannot be read.
    """
    found: dict[int, np.ndarray] = {}
    position = 0
    for spec in specs:
        if spec.name is None:
            arrays = _unnamed(spec, slots, position)
            position = max([position, *(index + 1 for index in arrays)])
        else:
            arrays = _named(spec, spec.name, slots)
        for index, array in arrays.items():
            if index in found:
                raise InputError(
                    f"{slots.specs[index].name} is given twice",
                    hint=f"give each {slots.flag} once",
                )
            found[index] = array
    return found


def golden_call(spec: InputSpec, slots: Slots) -> GoldenCall | None:
    """A golden file's first call of this signature; None if it is no golden file."""
    value = spec.value
    if not isinstance(value, FileValue) or not value.path.name.endswith(".golden.npz"):
        return None
    if spec.name is not None or value.key is not None:
        return None
    calls = Golden.load(value.path).calls
    call = next((c for c in calls if c.signature == slots.signature.name), None)
    if call is None:
        raise InputError(
            f"{value.path} has no call of {slots.signature.name}",
            hint=f"it has {', '.join(sorted({c.signature for c in calls})) or 'none'}",
        )
    arrays = _side(call, slots)
    if len(arrays) != len(slots.specs):
        raise InputError(
            f"{value.path} is of another program: it has {len(arrays)} arrays for {slots.flag}",
            hint=f"call {slots.signature}",
        )
    return call


def _side(call: GoldenCall, slots: Slots) -> tuple[np.ndarray, ...]:
    return call.inputs if slots.flag == "--input" else call.outputs


def _unnamed(spec: InputSpec, slots: Slots, position: int) -> dict[int, np.ndarray]:
    golden = golden_call(spec, slots)
    if golden is not None:
        return dict(enumerate(_side(golden, slots)))
    value = spec.value
    if isinstance(value, FileValue) and value.path.suffix == ".npz" and value.key is None:
        return _whole_archive(value, slots, position)
    _refuse_beyond(position, slots)
    return {position: _one(spec, position, slots)}


def _refuse_beyond(position: int, slots: Slots) -> None:
    if position >= len(slots.specs):
        raise InputError(
            f"{slots.signature.name} has {len(slots.specs)} slots for {slots.flag} "
            f"and got {position + 1} or more",
            hint=f"call {slots.signature}",
        )


def _named(spec: InputSpec, name: str, slots: Slots) -> dict[int, np.ndarray]:
    index = slots.index(name)
    if index is not None:
        return {index: _one(spec, index, slots)}
    inside = slots.below(name)
    value = spec.value
    if not inside:
        known = ", ".join(s.name for s in slots.specs) or "none"
        raise InputError(
            f"{slots.signature.name} has nothing named {name} for {slots.flag}",
            hint=f"the names are {known}; a value looks like {FORMS}",
        )
    if not isinstance(value, FileValue) or value.path.suffix != ".npz" or value.key is not None:
        raise InputError(
            f"{name} holds {len(inside)} arrays: {', '.join(inside)}",
            hint=f"give an archive with these keys, or each as {name}.KEY=…",
        )

    def choose(keys: tuple[str, ...]) -> dict[str, Check]:
        short = {key.removeprefix(name).removeprefix("."): key for key in keys}
        if set(short) != set(inside):
            raise InputError(
                f"{value.path} holds {', '.join(keys)}, and {name} takes {', '.join(inside)}"
            )
        return {key: slots.check(inside[rest]) for rest, key in short.items()}

    arrays = read_npz(value.path, choose)
    return {inside[key.removeprefix(name).removeprefix(".")]: a for key, a in arrays.items()}


def _whole_archive(value: FileValue, slots: Slots, position: int) -> dict[int, np.ndarray]:
    places: dict[str, int] = {}

    def choose(keys: tuple[str, ...]) -> dict[str, Check]:
        if keys and all(slots.index(key) is not None for key in keys):
            places.update({key: slots.index(key) or 0 for key in keys})
        elif len(keys) == 1 or keys == tuple(f"arr_{n}" for n in range(len(keys))):
            places.update({key: position + n for n, key in enumerate(keys)})
            _refuse_beyond(position + len(keys) - 1, slots)
        else:
            raise InputError(
                f"{value.path} holds {', '.join(keys) or 'no arrays'}, which are not the names "
                f"{', '.join(s.name for s in slots.specs)}",
                hint=f"pick one with NAME=@{value.path}:KEY",
            )
        return {key: slots.check(index) for key, index in places.items()}

    return {places[key]: array for key, array in read_npz(value.path, choose).items()}


def _one(spec: InputSpec, index: int, slots: Slots) -> np.ndarray:
    """The array of one value for one slot."""
    want = slots.specs[index]
    value = spec.value
    check = slots.check(index)
    if isinstance(value, FileValue):
        return _file(value, want, check)
    typed = value.typed or _typed(want, value.text or "")
    check(spec.text[:60], typed.shape, typed.dtype.numpy)
    return parse_values(value.text, typed)


def _file(value: FileValue, want: TensorSpec, check: Check) -> np.ndarray:
    path = value.path
    suffix = path.suffix.lower()
    if value.typed is not None:
        check(path.name, value.typed.shape, value.typed.dtype.numpy)
        return read_raw(path, value.typed)
    match suffix:
        case ".npy":
            return read_npy(path, check)
        case ".npz":
            (array,) = read_npz(path, lambda keys: _pick(path, value.key, keys, check)).values()
            return array
        case ".bin":
            if not want.is_static:
                raise InputError(
                    f"the shape of {path} is unknown: {want} is dynamic",
                    hint=f"write the shape, as in 4x{want.dtype.value}=@{path}",
                )
            return read_raw(path, _typed(want, ""))
        case _ if suffix in SUFFIXES:
            return read_image(path, want)
    raise UsageError(
        f"{path} is of no kind that edgec reads",
        hint="use .npy, .npz, .bin, .png or .jpg; for raw bytes of another name SHAPExTYPE=@FILE",
    )


def _pick(path: object, key: str | None, keys: tuple[str, ...], check: Check) -> dict[str, Check]:
    chosen = key if key is not None else keys[0] if len(keys) == 1 else None
    if chosen not in keys:
        raise InputError(
            f"{path} holds {', '.join(keys) or 'no arrays'}" + (f", not {key}" if key else ""),
            hint=f"pick one with @{path}:KEY",
        )
    return {chosen: check}


def _typed(want: TensorSpec, text: str) -> TypedShape:
    """The type and shape of a literal that gives none: the function's own."""
    shape = tuple(d for d in want.shape if isinstance(d, int))
    if len(shape) != len(want.shape):
        raise InputError(
            f"{text!r} gives no shape, and {want} is dynamic",
            hint=f"write it, as in 4x{want.dtype.value}={text or 0}",
        )
    return TypedShape(shape=shape, dtype=want.dtype)
