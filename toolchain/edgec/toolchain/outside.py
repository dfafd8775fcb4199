"""Large constants of a program, as the compiler has folded them, out of the module into a file.

Modules for several devices repeat the same weights. Between global optimisation, which evaluates
what is constant, and the rest of the compiler every large constant gets a name made of its bytes.
A constant that is to lie outside becomes a parameter by that name; what two modules lay out alike
has one name, so one file serves both, and nothing is packed when a module is loaded.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import CompileError
from edgec.runtime.files import write_atomically
from edgec.runtime.module import MODULE_ATTRIBUTE
from edgec.toolchain.folded import large_constants, parse

__all__ = ["Constant", "Outside", "collect", "move_out", "unpack"]

_SCOPE = "model"
_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class Outside:
    """Which constants a module reads from a weights file.

    Attributes:
        file: how the module names the file, relative to itself.
        path: where the file is while the module is made and checked.
        keys: names of the constants in it.
    """

    file: str
    path: Path
    keys: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Constant:
    """A constant in a pool: `POOL/KEY` holds its bytes."""

    dtype: str
    shape: tuple[int, ...]
    size: int

    def array(self, pool: Path, key: str) -> _Array:
        """Its numbers, mapped."""
        dtype = DType(self.dtype).numpy
        return np.memmap(pool / key, dtype=dtype, mode="r", shape=self.shape)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"dtype": self.dtype, "shape": list(self.shape), "size": self.size}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Constant":
        """The inverse of `to_json`."""
        return cls(dtype=value["dtype"], shape=tuple(value["shape"]), size=value["size"])


def collect(source: Path, pool: Path) -> dict[str, Constant]:
    """Write each large constant of a half compiled program into a pool; what is there, by key.

    Raises:
        FileError: a file cannot be read or written.
    """
    found: dict[str, Constant] = {}
    for _, array in large_constants(parse(source)):
        key = _key(array)
        found[key] = Constant(
            dtype=DType.of(array.dtype).value, shape=array.shape, size=array.nbytes
        )
        if not (pool / key).exists():
            with write_atomically(pool / key) as stream:
                stream.write(array.data)
    return found


def unpack(joined: Path, constants: Mapping[str, Constant], pool: Path) -> None:
    """Write constants that lie one after the other in a file into a pool, each by its key.

    Raises:
        FileError: a file cannot be written.
    """
    with joined.open("rb") as stream:
        for key, constant in constants.items():
            data = stream.read(constant.size)
            if not (pool / key).exists():
                with write_atomically(pool / key) as place:
                    place.write(data)


def move_out(source: Path, output: Path, file: str, keys: Collection[str]) -> list[str]:
    """Make parameters of those constants of a half compiled program that `keys` name.

    Args:
        source: the program after the compiler's first half.
        output: the same for its second half.
        file: the weights file as the module is to name it.
        keys: which constants.

    Returns:
        The keys that the program has.

    Raises:
        FileError: a file cannot be read or written.
        CompileError: no function of the program says what the module is.
    """
    from iree.compiler import ir

    from edgec.toolchain.ir import global_values

    module = parse(source)
    symbols: dict[tuple[str, str], str] = {}
    with module.context, ir.Location.name("edgec.outside"):
        for operation, array in list(large_constants(module)):
            key = _key(array)
            if key not in keys:
                continue
            kind = operation.results[0].type
            name = symbols.get((key, str(kind)))
            if name is None:
                name = symbols[key, str(kind)] = f"__edgec_weight_{len(symbols)}"
                _declare(module, name, key, kind)
            with ir.InsertionPoint(operation):
                loaded = global_values.load(name, kind)
            operation.results[0].replace_all_uses_with(loaded)
            operation.erase()
        names = sorted({key for key, _ in symbols})
        if names:
            _say(module, {"scope": _SCOPE, "file": file, "names": names})
        module.operation.verify()
        with write_atomically(output) as stream:
            module.operation.write_bytecode(stream)
    return names


def _declare(module: Any, name: str, key: str, kind: Any) -> None:
    from iree.compiler import ir

    from edgec.toolchain.ir import global_values

    value = ir.Attribute.parse(f'#flow.parameter.named<"{_SCOPE}"::"{key}"> : {kind}')
    with ir.InsertionPoint.at_block_begin(module.body):
        global_values.declare(name, kind, initial_value=value)


def _say(module: Any, weights: Mapping[str, Any]) -> None:
    """Write into the module's facts that it has its weights outside."""
    from iree.compiler import ir

    for op in module.body.operations:
        attributes = op.operation.attributes
        if "iree.reflection" not in attributes:
            continue
        said = {each.name: each.attr for each in ir.DictAttr(attributes["iree.reflection"])}
        if MODULE_ATTRIBUTE not in said:
            continue
        facts = json.loads(ir.StringAttr(said[MODULE_ATTRIBUTE]).value)
        facts["weights"] = dict(weights)
        said[MODULE_ATTRIBUTE] = ir.StringAttr.get(json.dumps(facts))
        attributes["iree.reflection"] = ir.DictAttr.get(said)
        return
    raise CompileError("the half compiled program says nothing of the module")


def _key(array: _Array) -> str:
    """A name made of a constant's bytes."""
    return hashlib.sha256(array.reshape(-1).view(np.uint8).data).hexdigest()[:32]
