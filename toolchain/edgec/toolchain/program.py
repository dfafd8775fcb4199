"""A program: portable StableHLO bytecode with its signatures, as one standard `.mlirbc` file.

What StableHLO has no place for rides in the module attribute `edgec.program` as JSON, so that any
StableHLO tool can still read the file. Functions are *lifted*: parameters kept outside and state
are plain arguments and results of the function, and the JSON says which (`Role`); compiling
turns them into globals of the module.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ModuleError, ProgramError
from edgec.runtime.files import write_atomically
from edgec.runtime.golden import Golden
from edgec.runtime.mesh.joined import joined_name
from edgec.runtime.mesh.plan import Plan
from edgec.runtime.signature import Signature, TensorSpec
from edgec.runtime.text.facts import TextFacts
from edgec.runtime.tolerance import SMALLEST_NORMAL
from edgec.toolchain.framework_values import FrameworkValues

__all__ = [
    "PROGRAM_ATTRIBUTE",
    "STATE_FUNCTION",
    "Dialect",
    "Function",
    "Input",
    "Loss",
    "Output",
    "Parameter",
    "Program",
    "ProgramInfo",
    "Provenance",
    "Role",
    "State",
    "Weights",
    "digest_of",
    "source_stem",
]

PROGRAM_ATTRIBUTE = "edgec.program"
"""The module attribute that holds `ProgramInfo` as JSON."""

STATE_FUNCTION = "edgec_initial_state"
"""The function without arguments that returns the initial value of each state, in order."""

_SCHEMA = 1


class Dialect(Enum):
    """What a program file is written in; all but StableHLO depend on one compiler version."""

    STABLEHLO = "stablehlo"
    TORCH = "torch"
    ONNX = "onnx"
    LINALG = "linalg"


@dataclass(frozen=True, kw_only=True)
class Input:
    """A function argument that the caller gives: `Signature.inputs[index]`."""

    index: int


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A function argument that comes from the weights file, by this name."""

    name: str


@dataclass(frozen=True, kw_only=True)
class State:
    """A function argument or result that lives on the device between calls, by this name."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Output:
    """A function result that the caller gets: `Signature.outputs[index]`."""

    index: int


Role = Input | Parameter | State | Output


@dataclass(frozen=True, kw_only=True)
class Function:
    """One entry point: its signature, and what each argument and result of its MLIR function is.

    The MLIR function has the signature's name; its arguments and results follow `arguments` and
    `results` one to one.
    """

    signature: Signature
    arguments: tuple[Role, ...]
    results: tuple[Role, ...]


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Parameters kept in a file of their own (`.safetensors` or `.irpa`) beside the program.

    `file` is relative to the program; `names` are the keys that the program needs.
    """

    scope: str
    file: str
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a program came from: framework, versions (package → version), the user's source.

    `tensors` says what the source's own file calls a weight, by the program's name for it, where
    the file is in another format than the framework's (GGUF). `licence` is the model's, as SPDX
    spells it, where somebody said so.
    """

    framework: str
    versions: Mapping[str, str]
    source: str
    tensors: Mapping[str, str] = field(default_factory=dict)
    licence: str = ""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What was given up of the model that a program came from.

    Attributes:
        weights: how they are kept (`int4-g32`); empty where they are as they were.
        error: how far its answers are from the framework's, as a part of their spread.
        besides: what else was rounded, in words.
    """

    weights: str
    error: float
    besides: str = ""

    def __str__(self) -> str:
        """What was rounded: `weights of int4-g32, rows rounded to bytes`."""
        weights = f"weights of {self.weights}" if self.weights else ""
        return ", ".join(filter(None, (weights, self.besides)))


@dataclass(frozen=True, kw_only=True)
class ProgramInfo:
    """Everything edgec knows of a program besides its code.

    `kept` says why a program is in another dialect than StableHLO: what has no form there.
    `text` is of language models alone, `mesh` of programs for several devices: their functions are
    parts, and golden answers are of the functions that the plan makes of them.
    """

    functions: tuple[Function, ...]
    states: tuple[TensorSpec, ...] = ()
    weights: Weights | None = None
    provenance: Provenance
    dialect: Dialect = Dialect.STABLEHLO
    kept: str = ""
    loss: Loss | None = None
    text: TextFacts | None = None
    mesh: Plan | None = None

    def __post_init__(self) -> None:
        names = [f.signature.name for f in self.functions]
        if not names or len(set(names)) != len(names):
            raise ProgramError(f"a program needs functions with distinct names, not {names}")

    @property
    def joined(self) -> tuple[str, ...]:
        """Functions that are a device's whole way through a mesh, with the collectives in it."""
        ways = [] if self.mesh is None else [joined_name(name) for name in self.mesh.routes]
        return tuple(f.signature.name for f in self.functions if f.signature.name in ways)

    @property
    def needs_doubles(self) -> bool:
        """Whether 64-bit floats inside the program are the author's wish.

        torch-mlir takes means and variances in f64 where PyTorch itself takes them in f32, so in
        a PyTorch program they count only if a signature or state has them.
        """
        surface = [*self.states]
        for function in self.functions:
            surface += [*function.signature.inputs, *function.signature.outputs]
        return self.provenance.framework != "torch" or any(
            spec.dtype in (DType.F64, DType.C128) for spec in surface
        )

    def to_json(self) -> str:
        """The text of the `edgec.program` attribute."""
        weights = self.weights
        return json.dumps(
            {
                "schema": _SCHEMA,
                "functions": [
                    {
                        "signature": f.signature.to_json(),
                        "arguments": [_role_to_json(r) for r in f.arguments],
                        "results": [_role_to_json(r) for r in f.results],
                    }
                    for f in self.functions
                ],
                "states": [s.to_json() for s in self.states],
                "weights": None
                if weights is None
                else {"scope": weights.scope, "file": weights.file, "names": list(weights.names)},
                "provenance": {
                    "framework": self.provenance.framework,
                    "versions": dict(self.provenance.versions),
                    "source": self.provenance.source,
                    "tensors": dict(self.provenance.tensors),
                    **({"licence": self.provenance.licence} if self.provenance.licence else {}),
                },
                "dialect": self.dialect.value,
                **({"kept": self.kept} if self.kept else {}),
                **({} if self.loss is None else {"loss": asdict(self.loss)}),
                **({} if self.text is None else {"text": self.text.to_json()}),
                **({} if self.mesh is None else {"mesh": self.mesh.to_json()}),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "ProgramInfo":
        """The inverse of `to_json`.

        Raises:
            ProgramError: the text is damaged or of another schema.
        """
        try:
            value = json.loads(text)
            if value["schema"] != _SCHEMA:
                raise ProgramError(
                    f"the program has schema {value['schema']}, this edgec reads {_SCHEMA}",
                    hint="export the model again with this version of edgec",
                )
            weights = value["weights"]
            text_facts = value.get("text")
            return cls(
                functions=tuple(
                    Function(
                        signature=Signature.from_json(f["signature"]),
                        arguments=tuple(_role_from_json(r) for r in f["arguments"]),
                        results=tuple(_role_from_json(r) for r in f["results"]),
                    )
                    for f in value["functions"]
                ),
                states=tuple(TensorSpec.from_json(s) for s in value["states"]),
                weights=None
                if weights is None
                else Weights(
                    scope=weights["scope"], file=weights["file"], names=tuple(weights["names"])
                ),
                provenance=Provenance(**value["provenance"]),
                dialect=Dialect(value["dialect"]),
                kept=value.get("kept", ""),
                loss=Loss(**value["loss"]) if "loss" in value else None,
                text=None if text_facts is None else TextFacts.from_json(text_facts),
                mesh=Plan.from_json(value["mesh"]) if "mesh" in value else None,
            )
        except (KeyError, TypeError, ValueError, AttributeError, ModuleError) as error:
            raise ProgramError(
                f"damaged program description: {error!r}", hint="export the model again"
            ) from error


@dataclass(frozen=True, kw_only=True)
class Program:
    """MLIR bytecode with its description; `golden` are the framework's answers, if recorded.

    `values` is what the framework computed on the way to them, of a program that was exported just
    now and was asked for them; `framework_values` reads them again.
    `path` is where the program was read from or saved to: `info.weights.file` is relative to it.
    """

    bytecode: bytes
    info: ProgramInfo
    golden: Golden | None = None
    values: FrameworkValues | None = None
    path: Path | None = None

    def __repr__(self) -> str:
        functions = ", ".join(str(function.signature) for function in self.info.functions)
        calls = len(self.golden.calls) if self.golden is not None else 0
        return (
            f"<Program {self.path or 'in memory'}: {functions}; {self.info.dialect.value} from "
            f"{self.info.provenance.framework}, {len(self.bytecode):,} bytes, "
            f"{calls} golden {'call' if calls == 1 else 'calls'}>"
        )

    @property
    def name(self) -> str:
        """What to call it: as its file is called, else its source, else its first function."""
        if self.path is not None:
            return self.path.stem
        return source_stem(self.info.provenance.source) or self.info.functions[0].signature.name

    @property
    def doubts(self) -> tuple[str, ...]:
        """What makes golden answers prove little: a sentence for each output that is odd."""
        found = []
        for function in self.info.functions:
            name = function.signature.name
            calls = [c for c in self.golden.calls if c.signature == name] if self.golden else []
            for spec, *values in zip(
                function.signature.outputs, *(call.outputs for call in calls), strict=False
            ):
                if not values or not spec.dtype.is_float:
                    continue
                normal = SMALLEST_NORMAL.get(spec.dtype, 0.0)
                if any(np.isnan(value).any() for value in values):
                    found.append(f"golden answers of {name} hold NaN in {spec.name}")
                elif not any(value.any() for value in values):
                    found.append(f"every golden answer of {name} is 0 in {spec.name}")
                elif all(np.all(np.abs(value) < normal) for value in values):
                    found.append(f"every golden answer of {name} is denormal in {spec.name}")
        return tuple(
            f"{what}, which proves little: look at the weights and the example inputs"
            for what in found
        )

    @property
    def weights_path(self) -> Path | None:
        """Its weights file; None where it keeps none outside."""
        weights = self.info.weights
        if weights is None:
            return None
        return ((self.path.parent if self.path is not None else Path()) / weights.file).resolve()

    @property
    def digest(self) -> str:
        """The SHA-256 of its file, in hexadecimal; modules and golden answers hold it."""
        return digest_of(self.bytecode)

    def save(self, path: Path | str) -> "Program":
        """Write `path` and, with golden answers, `NAME.golden.npz` beside it.

        What the framework computed on the way goes into `NAME.values.npz`.

        Raises:
            FileError: a file cannot be written; all are then as they were.
        """
        path = Path(path)
        with ExitStack() as files:
            # All bytes are on the disk before either file takes its place.
            for name, data in self._contents(path):
                stream = files.enter_context(write_atomically(name))
                stream.write(data)
                stream.flush()
        if self.golden is None:
            Golden.path_for(path).unlink(missing_ok=True)
        if self.values is None:
            FrameworkValues.path_for(path).unlink(missing_ok=True)
        return replace(self, path=path)

    def _contents(self, path: Path) -> Iterator[tuple[Path, bytes]]:
        yield path, self.bytecode
        if self.golden is not None:
            yield Golden.path_for(path), replace(self.golden, program=self.digest).to_bytes()
        if self.values is not None:
            yield FrameworkValues.path_for(path), self.values.to_bytes()


def digest_of(bytecode: bytes) -> str:
    """The SHA-256 of a program's bytes, in hexadecimal."""
    return hashlib.sha256(bytecode).hexdigest()


def source_stem(source: str) -> str:
    """`samples/digits/model.py:classifier` → `classifier`, `net.keras` and `hf:net` → `net`."""
    if source.startswith("hf:"):
        return Path(source.removeprefix("hf:")).name
    head, colon, name = source.rpartition(":")
    if colon and head and "/" not in name:
        return name.replace(".", "_")
    return Path(source.rstrip("/")).stem


def _role_to_json(role: Role) -> dict[str, Any]:
    match role:
        case Input():
            return {"input": role.index}
        case Output():
            return {"output": role.index}
        case Parameter():
            return {"parameter": role.name}
        case State():
            return {"state": role.name}


def _role_from_json(value: Mapping[str, Any]) -> Role:
    match dict(value):
        case {"input": int(index)}:
            return Input(index=index)
        case {"output": int(index)}:
            return Output(index=index)
        case {"parameter": str(name)}:
            return Parameter(name=name)
        case {"state": str(name)}:
            return State(name=name)
    raise ProgramError(f"damaged program description: {value!r} is no role")
