"""A `.vmfb` file to what is known of it before it runs: signatures, facts, sizes, imports."""

import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from edgec.runtime.archive import sum_up
from edgec.runtime.declaration import parse_declaration
from edgec.runtime.errors import EdgecError, ModuleError
from edgec.runtime.files import unreadable, write_atomically
from edgec.runtime.kernel_share import KernelShare
from edgec.runtime.ledger import SizeLedger
from edgec.runtime.seal import MODULE, Seal, check_seal, find_seal
from edgec.runtime.signature import Signature, TensorSpec
from edgec.runtime.vmfb import Export, Import, Vmfb, parse

__all__ = [
    "CHECK_ATTRIBUTE",
    "CHECK_WIDTH",
    "GET_STATE",
    "GOLDEN_ATTRIBUTE",
    "IDENTITY_ATTRIBUTE",
    "IDENTITY_WIDTH",
    "MODULE_ATTRIBUTE",
    "OVERWRITTEN_ATTRIBUTE",
    "SET_STATE",
    "SIGNATURE_ATTRIBUTE",
    "TEXT_ATTRIBUTE",
    "TEXT_FORM_ATTRIBUTE",
    "Module",
    "ModuleFacts",
    "WeightsFacts",
    "mark_checked",
]

SIGNATURE_ATTRIBUTE = "edgec.signature"
"""On every public function: its signature as JSON."""

MODULE_ATTRIBUTE = "edgec.module"
"""On the first public function: `ModuleFacts` as JSON, without `check`."""

CHECK_ATTRIBUTE = "edgec.check"
"""On the first public function: whether the module proved itself, in a field of fixed width."""

GOLDEN_ATTRIBUTE = "edgec.golden"
"""On the first public function: golden calls as `seeded_calls` has them, where there are some."""

TEXT_ATTRIBUTE = "edgec.text"
"""On the first public function of a language model: `TextFacts` as JSON."""

TEXT_FORM_ATTRIBUTE = "edgec.text.form"
"""On the first public function of a language model: tokenizer and chat template as apps read them
(`edgert_text.h`), or why they cannot."""

IDENTITY_ATTRIBUTE = "edgec.text.identity"
"""On the first public function of a language model: a word of `IDENTITY_WIDTH` hexadecimal digits
that no module of another program or with other weights has."""

IDENTITY_WIDTH = 32

OVERWRITTEN_ATTRIBUTE = "edgec.overwritten"
"""On a function that writes into arguments that are given away: `0` or `1` for each argument."""

CHECK_WIDTH = 64
"""Bytes of the check field, padded with spaces."""

GET_STATE = "edgec_get_state"
SET_STATE = "edgec_set_state"

_INTERNAL = "edgec_"
_UNCHECKED = "unchecked"

# Executable format to the driver that runs it (local-sync runs what local-task does).
_DRIVERS = {
    "embedded-elf": "local-task",
    "system-elf": "local-task",
    "system-macho": "local-task",
    "system-dll": "local-task",
    "system-wasm": "wasm",
    "vmvx": "local-task",
    "vulkan-spirv": "vulkan",
    "cuda-nvptx": "cuda",
    "rocm-hsaco": "hip",
    "metal-msl": "metal",
    "webgpu-wgsl": "webgpu",
}


@dataclass(frozen=True, kw_only=True)
class WeightsFacts:
    """Weights kept outside: scope in the module, file relative to the module, the keys needed."""

    scope: str
    file: str
    names: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"scope": self.scope, "file": self.file, "names": list(self.names)}


@dataclass(frozen=True, kw_only=True)
class ModuleFacts:
    """What a module says of itself.

    Attributes:
        target: the target it was compiled for, empty when edgec did not compile it.
        driver: the driver that runs it (`local-task`, `vulkan`, `cuda`, `hip`, `metal`), or empty.
        edgec: the version of edgec that compiled it, or empty.
        compiler: the version of iree-base-compiler, or empty.
        cpu_features: what a CPU must have to run the code, as LLVM spells it.
        check: `unchecked`, or `checked` and on what.
        weights: the weights kept outside, if any.
        states: what it keeps between calls, in the order of `edgec_get_state`.
        kernels: what share of its work edgec's own kernels do, where it says so.
        program: the SHA-256 of the program's bytecode that it was compiled of, where it says so.
    """

    target: str
    driver: str
    edgec: str
    compiler: str
    cpu_features: tuple[str, ...] = ()
    check: str = _UNCHECKED
    weights: WeightsFacts | None = None
    states: tuple[TensorSpec, ...] = ()
    kernels: KernelShare | None = None
    program: str = ""

    @property
    def is_edgec(self) -> bool:
        """Whether edgec compiled the module."""
        return bool(self.edgec)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "target": self.target,
            "driver": self.driver,
            "edgec": self.edgec,
            "compiler": self.compiler,
            "cpu_features": list(self.cpu_features),
            "check": self.check,
            "weights": None if self.weights is None else self.weights.to_json(),
            "states": [state.to_json() for state in self.states],
            "kernels": None if self.kernels is None else self.kernels.to_json(),
            "program": self.program,
        }


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module file that was read and found sound; nothing of it is loaded.

    Attributes:
        path: the file.
        name: the module's name inside IREE.
        signatures: the functions that can be called, in the file's order.
        refused: functions that edgec cannot call, and why.
        facts: what it says of itself.
        sizes: where its bytes go.
        imports: what the runtime has to provide.
        formats: the executable formats in it (`embedded-elf-x86_64`, `vulkan-spirv-fb`).
        code_features: the CPU features that the compiler was allowed to use, as LLVM spells them.
        bytecode_version: major and minor.
        digest: of the file's checksums, or where it has none of its bytes.
        golden: the golden calls in it, as `seeded_calls` reads them; empty where there are none.
        text: of a language model, `text.TextFacts` as JSON; empty of any other.
        identity: of a language model, which one it is, whatever target it was compiled for; empty
            where it does not say.
        seal: who signed it and what, not checked without `key`; None where nobody did.
        key: the public key that it was checked by; None where it was not.
    """

    path: Path
    name: str
    signatures: Mapping[str, Signature]
    refused: Mapping[str, str]
    facts: ModuleFacts
    sizes: SizeLedger
    imports: tuple[Import, ...]
    formats: tuple[str, ...]
    code_features: tuple[str, ...]
    bytecode_version: tuple[int, int]
    digest: str
    golden: str = ""
    text: str = ""
    identity: str = ""
    seal: Seal | None = None
    key: bytes | None = None

    def __repr__(self) -> str:
        functions = ", ".join(map(str, self.signatures.values()))
        return f"<Module {self.path}: {functions}; {self.facts.target}, {self.facts.check}>"

    @classmethod
    def read(cls, path: Path | str, *, key: bytes | None = None) -> "Module":
        """Read a module file, its structure and its checksums verified.

        Args:
            path: the file.
            key: a public key, 32 bytes, that must have signed it. Its weights are compared when it
                is loaded, or used.

        Raises:
            FileError: it cannot be read.
            ModuleError: it is no module, truncated or damaged.
            Untrusted: the key did not sign it.
        """
        path = Path(path)
        with _mapped(path) as data:
            if key is None:
                seal = find_seal(data)
            else:
                seal = check_seal(data, MODULE, key, str(path))
            # What is behind the signed bytes is none of the module.
            with data[: len(data) if seal is None else seal.content_size] as content:
                file = parse(content, str(path))
                return cls._from(path, file, _digest(file, content), seal=seal, key=key)

    @classmethod
    def _from(
        cls, path: Path, file: Vmfb, digest: str, *, seal: Seal | None, key: bytes | None
    ) -> "Module":
        signatures: dict[str, Signature] = {}
        refused: dict[str, str] = {}
        for export in file.exports:
            if export.name.startswith((_INTERNAL, "__")):
                continue
            try:
                signature = _signature(export)
            except EdgecError as error:
                refused[export.name] = error.what
            else:
                signatures[export.name] = signature
        return cls(
            path=path,
            name=file.name,
            signatures=MappingProxyType(signatures),
            refused=MappingProxyType(refused),
            facts=_facts(path, file),
            sizes=SizeLedger.of(file),
            imports=file.imports,
            formats=_formats(file),
            code_features=_code_features(file),
            bytecode_version=file.bytecode_version,
            digest=digest,
            golden=_attribute(file, GOLDEN_ATTRIBUTE),
            text=_attribute(file, TEXT_ATTRIBUTE),
            identity=_attribute(file, IDENTITY_ATTRIBUTE),
            seal=seal,
            key=key,
        )


def mark_checked(path: Path | str, text: str) -> None:
    """Write the outcome of a check into the module's own field, the file whole or not at all.

    Args:
        path: a module that edgec compiled.
        text: up to 64 bytes, such as `checked on llvmpipe, max error 2e-7`.

    Raises:
        FileError: the file cannot be read or written.
        ModuleError: it is no module of edgec's, or the text is too long.
    """
    path = Path(path)
    field = text.encode()
    if len(field) > CHECK_WIDTH:
        raise ModuleError(f"the outcome of the check is longer than {CHECK_WIDTH} bytes: {text!r}")
    with _mapped(path) as data:
        file = parse(data, str(path))
        copy = bytearray(data)
    spans = [e.spans[CHECK_ATTRIBUTE] for e in file.exports if CHECK_ATTRIBUTE in e.spans]
    if len(spans) != 1 or spans[0].size != CHECK_WIDTH:
        raise ModuleError(
            f"{path} has no field for the outcome of a check", hint="compile it with edgec"
        )
    copy[spans[0].start : spans[0].end] = field.ljust(CHECK_WIDTH)
    sum_up(copy, file.archive, spans[0].start, CHECK_WIDTH)
    with write_atomically(path) as stream:
        stream.write(copy)


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    """The file's bytes, mapped and not read."""
    try:
        with path.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size == 0:
                raise ModuleError(f"{path} is empty", hint="compile the program again")
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
                view = memoryview(mapping)
                try:
                    yield view
                finally:
                    view.release()
    except OSError as error:
        raise unreadable(path, error) from error


def _digest(file: Vmfb, data: memoryview) -> str:
    """What another file would have otherwise; checksums were compared when it was read."""
    if not file.archive:
        return hashlib.sha256(data).hexdigest()
    sums = [bytes(data[at : at + 4]).hex() for e in file.archive for at in e.checksum_offsets]
    return hashlib.sha256(repr((file.size, sums)).encode()).hexdigest()


def _attribute(file: Vmfb, key: str) -> str:
    """What the first function that says something under this key says."""
    return next((e.attributes[key] for e in file.exports if key in e.attributes), "")


def _signature(export: Export) -> Signature:
    text = export.attributes.get(SIGNATURE_ATTRIBUTE)
    if text is not None:
        try:
            return Signature.from_json(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise ModuleError(f"{export.name} has a damaged signature: {error}") from None
    declaration = export.attributes.get("iree.abi.declaration")
    if declaration is None:
        raise ModuleError(f"{export.name} has no declaration of its arguments")
    return parse_declaration(export.name, declaration)


def _formats(file: Vmfb) -> tuple[str, ...]:
    found = [segment.code for segment in file.segments if segment.code]
    found += [target.format for target in file.code_targets]
    return tuple(dict.fromkeys(found))


def _code_features(file: Vmfb) -> tuple[str, ...]:
    return tuple(sorted({feature for target in file.code_targets for feature in target.features}))


def _facts(path: Path, file: Vmfb) -> ModuleFacts:
    text = _attribute(file, MODULE_ATTRIBUTE)
    check = _attribute(file, CHECK_ATTRIBUTE).strip() or _UNCHECKED
    if not text:
        drivers = [d for f in _formats(file) for p, d in _DRIVERS.items() if f.startswith(p)]
        return ModuleFacts(
            target="",
            driver=drivers[0] if drivers else "",
            edgec="",
            compiler="",
            cpu_features=_code_features(file),
            check=check,
        )
    try:
        value = json.loads(text)
        weights = value.get("weights")
        kernels = value.get("kernels")
        return ModuleFacts(
            target=str(value["target"]),
            driver=str(value["driver"]),
            edgec=str(value["edgec"]),
            compiler=str(value["compiler"]),
            cpu_features=tuple(map(str, value["cpu_features"])),
            check=check,
            weights=None
            if weights is None
            else WeightsFacts(
                scope=str(weights["scope"]),
                file=str(weights["file"]),
                names=tuple(map(str, weights["names"])),
            ),
            states=tuple(map(TensorSpec.from_json, value.get("states", ()))),
            kernels=None if kernels is None else KernelShare.from_json(kernels),
            program=str(value.get("program", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, EdgecError) as error:
        raise ModuleError(
            f"{path} has damaged facts on itself: {error!r}", hint="compile the program again"
        ) from None
