"""Golden answers: calls with the inputs and the framework's own outputs, kept in one `.npz`.

The file travels next to the program as `NAME.golden.npz`. Its `meta` entry is JSON; arrays are
`CALL/in/INDEX`, `CALL/out/INDEX`, `CALL/open/INDEX` and `CALL/others/INDEX`. bf16 is stored as its
16 bits, since NumPy's format has none.
"""

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ProgramError
from edgec.runtime.files import read_bytes, write_atomically

__all__ = ["Golden", "GoldenCall"]

_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class GoldenCall:
    """One call: flat inputs in the signature's order, and the answers the framework gave.

    `within` says of each output how far the framework's own ways of computing it are apart, where
    that is more than its type's tolerance; empty where it is not. `open` says of each output which
    of its whole numbers the framework itself gives otherwise when rounding does (ties between
    indices); empty where there are none. `others` holds of each output further values that are as
    right, one after the other along a first axis of their own; empty where there are none.
    """

    signature: str
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    within: tuple[float, ...] = ()
    open: tuple[np.ndarray, ...] = ()
    others: tuple[np.ndarray, ...] = ()

    def __repr__(self) -> str:
        shown = (
            ", ".join(f"{value.dtype}{list(value.shape)}" for value in values)
            for values in (self.inputs, self.outputs)
        )
        return f"<GoldenCall {self.signature}: {' -> '.join(shown)}>"


@dataclass(frozen=True, kw_only=True)
class Golden:
    """Calls to make in this order on a freshly loaded module (state carries over).

    `program` is the SHA-256 of the program file that they were written with; empty where none was.
    """

    calls: tuple[GoldenCall, ...]
    program: str = ""

    @staticmethod
    def path_for(program: Path | str) -> Path:
        """`digits.mlirbc` → `digits.golden.npz`."""
        program = Path(program)
        return program.with_name(f"{program.stem}.golden.npz")

    def save(self, path: Path | str) -> None:
        """Write the file, whole or not at all.

        Raises:
            FileError: it cannot be written.
        """
        with write_atomically(Path(path)) as stream:
            stream.write(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The file's contents."""
        arrays: dict[str, np.ndarray] = {}
        meta = []
        for number, call in enumerate(self.calls):
            dtypes: dict[str, list[str]] = {"in": [], "out": []}
            for kind, values in (("in", call.inputs), ("out", call.outputs)):
                for index, value in enumerate(values):
                    dtype = DType.of(value.dtype)
                    dtypes[kind].append(dtype.value)
                    plain = value.view(np.uint16) if dtype is DType.BF16 else value
                    arrays[f"{number}/{kind}/{index}"] = plain
            for index, mask in enumerate(call.open):
                arrays[f"{number}/open/{index}"] = mask
            for index, values_too in enumerate(call.others):
                arrays[f"{number}/others/{index}"] = values_too
            also = [DType.of(value.dtype).value for value in call.others]
            others = {"others": also} if also else {}
            within = {"within": list(call.within)} if call.within else {}
            ties = {"open": ["bool"] * len(call.open)} if call.open else {}
            meta.append({"signature": call.signature, **dtypes, **within, **ties, **others})
        of = {"program": self.program} if self.program else {}
        text = json.dumps({"schema": _SCHEMA, **of, "calls": meta})
        buffer = io.BytesIO()
        np.savez(buffer, meta=np.array(text), **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def load(cls, path: Path | str) -> "Golden":
        """Read the file.

        Raises:
            FileError: it cannot be read.
            ProgramError: it is no golden file.
        """
        data = read_bytes(Path(path))
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                meta = json.loads(str(archive["meta"]))
                if meta["schema"] != _SCHEMA:
                    raise ProgramError(
                        f"{path} holds golden answers of schema {meta['schema']}",
                        hint="export the model again with this version of edgec",
                    )
                calls = tuple(
                    GoldenCall(
                        signature=call["signature"],
                        inputs=_arrays(archive, f"{number}/in", call["in"]),
                        outputs=_arrays(archive, f"{number}/out", call["out"]),
                        within=tuple(map(float, call.get("within", ()))),
                        open=_arrays(archive, f"{number}/open", call.get("open", ())),
                        others=_arrays(archive, f"{number}/others", call.get("others", ())),
                    )
                    for number, call in enumerate(meta["calls"])
                )
        except (KeyError, ValueError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
            raise ProgramError(
                f"{path} is no file of golden answers: {error}", hint="export the model again"
            ) from error
        return cls(calls=calls, program=str(meta.get("program", "")))


def _arrays(
    archive: np.lib.npyio.NpzFile, prefix: str, dtypes: Sequence[str]
) -> tuple[np.ndarray, ...]:
    return tuple(
        np.asarray(archive[f"{prefix}/{index}"]).view(DType(name).numpy)
        for index, name in enumerate(dtypes)
    )
