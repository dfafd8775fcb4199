"""What the plugin is told of a program for several devices, and which programs are such."""

import base64
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from edgec.runtime.mesh.plan import CALLBACK, COLLECTIVES
from edgec.toolchain.fingerprint import digest

__all__ = ["Spread", "cutters", "is_spread"]

_WORDS = (b"sdy", CALLBACK.encode(), *(kind.encode() for kind in COLLECTIVES))
_FOLDERS = ("exporters/mesh", "plugins/pjrt")


@dataclass(frozen=True, kw_only=True)
class Spread:
    """What the plugin is told of a program for several devices, beside its module.

    Attributes:
        functions: of the module, in the order in which the route names them; none where the
            devices only speak to each other, and there is no module.
        route: what the devices do, as numbers.
        arrays: the type, rank and sizes of each argument and then each result on one device.
        shardings: of the arguments, then of the results.
        spoken: the bytes that a device gives and gets in collectives.
        shown: what each device computes, collectives and all: a portable artifact of StableHLO.
    """

    functions: tuple[str, ...]
    route: tuple[int, ...]
    arrays: tuple[int, ...]
    shardings: tuple[bytes, ...]
    spoken: int
    shown: bytes

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "functions": list(self.functions),
            "route": list(self.route),
            "arrays": list(self.arrays),
            "shardings": [base64.b64encode(each).decode() for each in self.shardings],
            "spoken": self.spoken,
            "shown": base64.b64encode(zlib.compress(self.shown)).decode(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Spread":
        """The inverse of `to_json`."""
        return cls(
            functions=tuple(value["functions"]),
            route=tuple(value["route"]),
            arrays=tuple(value["arrays"]),
            shardings=tuple(base64.b64decode(each) for each in value["shardings"]),
            spoken=value["spoken"],
            shown=zlib.decompress(base64.b64decode(value["shown"])),
        )


def is_spread(program: bytes, devices: int) -> bool:
    """Whether a portable artifact is for several devices, speaks as if it were, or calls Python."""
    return devices > 1 or any(word in program for word in _WORDS)


@cache
def cutters() -> str:
    """What cuts programs, as one word: jaxlib, and the sources around it."""
    roots = sys.modules["edgec"].__path__
    found = [Path(root) / name for name in _FOLDERS for root in roots]
    digests = [digest(folder.glob("*.py"), folder) for folder in found if folder.is_dir()]
    return f"{metadata.version('jaxlib')} {' '.join(digests)}"
