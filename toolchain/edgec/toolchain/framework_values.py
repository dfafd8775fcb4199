"""What a framework computed on the way to its golden answers, value by value, in one `.npz`.

The file lies beside the program as `NAME.values.npz`, where export was asked for it. Which value of
the framework an operation of the program is says the operation's location, `place_name`, that goes
through whatever rewrites it. The file's `meta` entry is JSON; arrays are `INDEX/TIME`, where a
value of a loop has several times. bf16 is stored as its 16 bits, since NumPy's format has none.
"""

import io
import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError, ProgramError
from edgec.runtime.files import read_bytes

__all__ = ["MOST_TIMES", "FrameworkValue", "FrameworkValues", "place_name", "placed", "storable"]

_Array = np.ndarray[Any, np.dtype[Any]]
_SCHEMA = 1
_NAMES = re.compile(r'"([^"]*edgec\.of\.\d[^"]*)"')
_NUMBERS = re.compile(r"edgec\.of\.(\d+)")

MOST_TIMES = 128
"""How often a value of a loop is kept: of more turns the first and the last."""


@dataclass(frozen=True, kw_only=True)
class FrameworkValue:
    """One value.

    Attributes:
        function: the signature's name.
        number: of the value in its function; locations carry it.
        name: what the framework calls it.
        operation: what made it, as the framework calls that (`aten.convolution`).
        line: where in the user's source, or in the user's model.
        arrays: its numbers, each time that it was computed in the function's first golden call.
        within: how far the framework's own ways to compute it are apart, where it has several.
    """

    function: str
    number: int
    name: str
    operation: str
    line: str
    arrays: tuple[_Array, ...]
    within: float = 0.0

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(array.nbytes for array in self.arrays)


@dataclass(frozen=True, kw_only=True)
class FrameworkValues:
    """All values of each function's first golden call.

    Attributes:
        framework: whose they are, with its version.
        program: the SHA-256 of the program's bytes.
        values: in the order in which they were computed.
    """

    framework: str
    program: str
    values: tuple[FrameworkValue, ...]

    @staticmethod
    def path_for(program: Path | str) -> Path:
        """`digits.mlirbc` → `digits.values.npz`."""
        program = Path(program)
        return program.with_name(f"{program.stem}.values.npz")

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return sum(value.size for value in self.values)

    def to_bytes(self) -> bytes:
        """The file's contents."""
        arrays: dict[str, _Array] = {}
        listed = []
        for index, value in enumerate(self.values):
            dtypes = []
            for time, array in enumerate(value.arrays):
                dtype = DType.of(array.dtype)
                dtypes.append(dtype.value)
                plain = np.ascontiguousarray(array).reshape(array.shape)
                arrays[f"{index}/{time}"] = plain.view(np.uint16) if dtype is DType.BF16 else plain
            listed.append(
                {
                    "function": value.function,
                    "number": value.number,
                    "name": value.name,
                    "operation": value.operation,
                    "line": value.line,
                    "dtypes": dtypes,
                    "within": value.within,
                }
            )
        meta = {
            "schema": _SCHEMA,
            "framework": self.framework,
            "program": self.program,
            "values": listed,
        }
        buffer = io.BytesIO()
        np.savez(buffer, meta=np.array(json.dumps(meta)), **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def load(cls, path: Path) -> "FrameworkValues":
        """Read the file.

        Raises:
            FileError: it cannot be read.
            ProgramError: it is no such file.
        """
        data = read_bytes(path)
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                meta = json.loads(str(archive["meta"]))
                if meta["schema"] != _SCHEMA:
                    raise ProgramError(
                        f"{path} holds values of schema {meta['schema']}",
                        hint="export the model again with this version of edgec",
                    )
                values = tuple(
                    FrameworkValue(
                        function=each["function"],
                        number=each["number"],
                        name=each["name"],
                        operation=each["operation"],
                        line=each["line"],
                        arrays=tuple(
                            np.asarray(archive[f"{index}/{time}"]).view(DType(dtype).numpy)
                            for time, dtype in enumerate(each["dtypes"])
                        ),
                        within=float(each.get("within", 0.0)),
                    )
                    for index, each in enumerate(meta["values"])
                )
        except (KeyError, ValueError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
            raise ProgramError(
                f"{path} is no file of a framework's values: {error}",
                hint="export the model again with --values",
            ) from error
        return cls(framework=meta["framework"], program=meta["program"], values=values)


def place_name(number: int) -> str:
    """What the location of an operation says of the value that it is a part of."""
    return f"edgec.of.{number}"


def placed(location: Any) -> int | None:
    """The number of the value that an operation's location carries: the innermost; or None."""
    for name in _NAMES.findall(str(location)):
        return int(_NUMBERS.findall(name)[-1])
    return None


def storable(array: _Array) -> bool:
    """Whether an array has numbers of a type that programs have."""
    try:
        DType.of(array.dtype)
    except InputError:
        return False
    return True
