"""A kernel of the user's own as it travels in a program: a composite with its code as JSON.

In StableHLO a kernel is a `stablehlo.composite` called `edgec.kernel`. Its decomposition is the
reference, which any StableHLO tool may run in the kernel's place; its attribute `kernel` is the
text that is read and written here: the kernel's name, and its code for each kind of device.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from edgec.runtime.errors import ProgramError
from edgec.targets import Backend

__all__ = ["ATTRIBUTE", "COMPOSITE", "Code", "Language", "OwnKernel"]

COMPOSITE = "edgec.kernel"
"""What composites of kernels are called."""

ATTRIBUTE = "kernel"
"""The composite's attribute that holds an `OwnKernel` as JSON."""


class Language(Enum):
    """What a kernel is written in."""

    C = "c"
    CUDA = "cuda"
    PTX = "ptx"
    GLSL = "glsl"
    SPIRV = "spirv"

    @property
    def backends(self) -> tuple[Backend, ...]:
        """The kinds of devices that run it."""
        return _BACKENDS[self]


_BACKENDS: Mapping[Language, tuple[Backend, ...]] = {
    Language.C: (Backend.CPU,),
    Language.CUDA: (Backend.CUDA,),
    Language.PTX: (Backend.CUDA,),
    Language.GLSL: (Backend.VULKAN, Backend.WEBGPU),
    Language.SPIRV: (Backend.VULKAN, Backend.WEBGPU),
}


@dataclass(frozen=True, kw_only=True)
class Code:
    """A kernel's code for one kind of device.

    Attributes:
        language: what it is written in.
        text: the source; of SPIR-V its bytes in base64.
        entry: the function that is called.
        grid: workgroups along x, y and z.
        group: threads of a workgroup along x, y and z; 1 on a CPU.
        shared: bytes that a workgroup shares, beside what the code itself declares.
        numbers: integers that it takes after its arrays.
        defines: names that are defined for its compiler.
        capability: the compute capability that it was compiled for (90), and runs on; 0 for any.
    """

    language: Language
    text: str
    entry: str
    grid: tuple[int, int, int] = (1, 1, 1)
    group: tuple[int, int, int] = (1, 1, 1)
    shared: int = 0
    numbers: tuple[int, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    capability: int = 0


@dataclass(frozen=True, kw_only=True)
class OwnKernel:
    """One kernel.

    Attributes:
        name: what messages call it, a word.
        inputs: how many arrays it reads: the last operands of the composite, before which stand
            what its reference has captured.
        codes: its code; of several that a device runs, the one with the highest capability.
    """

    name: str
    inputs: int
    codes: tuple[Code, ...]

    def to_json(self) -> str:
        """The text of the attribute."""
        codes = [{**asdict(code), "language": code.language.value} for code in self.codes]
        return json.dumps({"name": self.name, "inputs": self.inputs, "codes": codes})

    @classmethod
    def from_json(cls, text: str) -> "OwnKernel":
        """The inverse of `to_json`.

        Raises:
            ProgramError: the text is damaged.
        """
        try:
            value = json.loads(text)
            return cls(
                name=_word(value["name"]),
                inputs=int(value["inputs"]),
                codes=tuple(_code(code) for code in value["codes"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProgramError(
                f"the description of a kernel is damaged: {error!r}",
                hint="export the model again; docs/kernels.md says what it holds",
            ) from error


def _code(value: Mapping[str, Any]) -> Code:
    known = dict(value)
    for name in ("grid", "group", "numbers"):
        if name in known:
            known[name] = tuple(int(n) for n in known[name])
    for name in ("grid", "group"):
        if name in known and (len(known[name]) != 3 or min(known[name]) < 1):
            raise ValueError(f"{name} is {known[name]}")
    known["entry"] = _word(known["entry"])
    return Code(**{**known, "language": Language(known["language"])})


def _word(name: str) -> str:
    if not (name.isascii() and name.isidentifier()):
        raise ValueError(f"{name!r} is no name of C")
    return name
