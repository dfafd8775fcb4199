"""`manifest.json` of a package: the variants of one model, and what each needs, best first.

Written by `edgec package`. A runtime takes the first variant that fits the machine it is on, and
where none does, says for each why not.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from edgec.runtime.cpu import architecture
from edgec.runtime.device import Device, device_choices
from edgec.runtime.errors import (
    DeviceMissing,
    EdgecError,
    FileError,
    ModuleError,
    ModuleMismatch,
    ProgramError,
)
from edgec.runtime.files import read_bytes
from edgec.runtime.fitness import check_fits, default_device
from edgec.runtime.module import Module
from edgec.runtime.sealed_folder import check_listed
from edgec.runtime.signature import Signature

__all__ = ["MANIFEST", "SCHEMA", "Manifest", "Needs", "SharedFile", "Variant"]

MANIFEST = "manifest.json"
_DAMAGES = (KeyError, TypeError, ValueError, OverflowError, AttributeError, RecursionError)
"""What reading a text that is no manifest comes to."""
"""The file's name, at the top of a package."""

SCHEMA = 1
"""The version of the format; it grows when a key changes its meaning or goes away."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a machine must have to run a variant.

    Attributes:
        device: `cpu`, `wasm`, `vulkan`, `cuda`, `hip` or `metal`.
        isa: for `cpu` and `wasm`, the instruction set as IREE spells it (`x86_64`, `arm_64`,
            `arm_32`, `riscv_64`, `wasm_32`); else empty.
        features: CPU features on top of it, as LLVM spells them (`dotprod`, `avx2`).
        formats: the executable formats in the module (`embedded-elf-arm_64`, `static`).
    """

    device: str
    isa: str = ""
    features: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "device": self.device,
            "isa": self.isa,
            "features": list(self.features),
            "formats": list(self.formats),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Needs":
        """The inverse of `to_json`."""
        return cls(
            device=str(value["device"]),
            isa=str(value.get("isa", "")),
            features=tuple(map(str, value.get("features", ()))),
            formats=tuple(map(str, value.get("formats", ()))),
        )

    def __str__(self) -> str:
        """`cpu arm_64 with dotprod, fullfp16`."""
        words = f"{self.device} {self.isa}".strip()
        return f"{words} with {', '.join(self.features)}" if self.features else words


@dataclass(frozen=True, kw_only=True)
class SharedFile:
    """A file of a package: the weights that its variants share, or a variant's own.

    Attributes:
        file: where it is, relative to the manifest, with `/`; in the folder of the modules.
        sha256: of the file, in hexadecimal.
        size: bytes of the file.
    """

    file: str
    sha256: str
    size: int

    def __post_init__(self) -> None:
        _refuse_outside(self.file)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"file": self.file, "sha256": self.sha256, "size": self.size}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "SharedFile":
        """The inverse of `to_json`.

        Raises:
            ModuleError: the file lies outside the package.
        """
        return cls(file=str(value["file"]), sha256=str(value["sha256"]), size=int(value["size"]))


@dataclass(frozen=True, kw_only=True)
class Variant(SharedFile):
    """One module of a package.

    Attributes:
        target: the target it was compiled for.
        needs: what a machine must have.
    """

    target: str
    needs: Needs

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {**super().to_json(), "target": self.target, "needs": self.needs.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Variant":
        """The inverse of `to_json`.

        Raises:
            ModuleError: the file lies outside the package.
        """
        return cls(
            **vars(SharedFile.from_json(value)),
            target=str(value["target"]),
            needs=Needs.from_json(value["needs"]),
        )


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a package holds.

    Attributes:
        name: the model's name, as files and typed bindings spell it.
        kind: what kind of package it is (`c`, `android`, `ios`, `web`).
        edgec: the version of edgec that made it.
        signatures: the functions that every variant has.
        variants: in the order in which a runtime tries them.
        weights: what the variants share, where there is such a file.
    """

    name: str
    kind: str
    edgec: str
    signatures: tuple[Signature, ...]
    variants: tuple[Variant, ...]
    weights: SharedFile | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "kind": self.kind,
            "edgec": self.edgec,
            "signatures": [signature.to_json() for signature in self.signatures],
            "variants": [variant.to_json() for variant in self.variants],
            "weights": None if self.weights is None else self.weights.to_json(),
        }

    def text(self) -> str:
        """The file's contents."""
        return json.dumps(self.to_json(), indent=2) + "\n"

    @classmethod
    def read(cls, path: Path | str) -> "Manifest":
        """Read a manifest, or that of a folder.

        Raises:
            FileError: there is none, or it cannot be read.
            ModuleError: it is damaged, or of a newer format.
        """
        path = Path(path)
        file = path / MANIFEST if path.is_dir() else path
        if path.is_dir() and not file.exists():
            raise FileError(
                f"{path} is a folder without a {MANIFEST}",
                hint="name a module (.vmfb), or a folder that `edgec package` made",
            )
        try:
            value = json.loads(read_bytes(file))
            schema = value["schema"]
            if schema != SCHEMA:
                raise ModuleError(
                    f"{file} has format {schema}, and this edgec reads {SCHEMA}",
                    hint="make the package again, or use the edgec that made it",
                )
            weights = value.get("weights")
            return cls(
                name=str(value["name"]),
                kind=str(value["kind"]),
                edgec=str(value["edgec"]),
                signatures=tuple(map(Signature.from_json, value["signatures"])),
                variants=tuple(map(Variant.from_json, value["variants"])),
                weights=None if weights is None else SharedFile.from_json(weights),
            )
        except ModuleError:
            raise
        except ProgramError as error:
            raise ModuleError(
                f"{file} is no manifest of a package: {error.what}", hint="make the package again"
            ) from None
        except _DAMAGES as error:
            raise ModuleError(
                f"{file} is no manifest of a package: {error!r}", hint="make the package again"
            ) from None


def variant_of(module: Module, file: str) -> Variant:
    """How a manifest lists a module that lies at `file` in the package.

    Raises:
        FileError: the module cannot be read.
    """
    return Variant(
        **vars(shared_file(module.path, file)), target=module.facts.target, needs=needs_of(module)
    )


def shared_file(path: Path, file: str) -> SharedFile:
    """How a manifest lists a file that lies at `file` in the package.

    Raises:
        FileError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    return SharedFile(file=file, sha256=digest, size=path.stat().st_size)


def needs_of(module: Module) -> Needs:
    """What a module needs, by its own facts and the code in it."""
    driver = module.facts.driver
    device = "cpu" if driver.startswith("local") else driver
    machines = [
        name.removeprefix(prefix)
        for name in module.formats
        for prefix in ("embedded-elf-", "system-elf-", "system-macho-", "system-wasm-")
        if name.startswith(prefix)
    ]
    features = set(module.facts.cpu_features)
    if device == "wasm":
        features |= set(module.code_features)
    return Needs(
        device=device,
        isa=machines[0] if machines else "",
        features=tuple(sorted(features)),
        formats=module.formats,
    )


def variants_that_fit(
    path: Path,
    device: str | Device | None,
    refused: list[str],
    *,
    key: bytes | None = None,
) -> Iterator[tuple[Variant, Module, str | Device]]:
    """The variants of a package that run here, best first, each with where to run it.

    Args:
        path: a manifest, or the folder that holds it.
        device: a URI or a device; without it each variant's own is tried.
        refused: of each variant that does not fit, why not, is added here as it is met.
        key: a public key, 32 bytes, that must have signed the manifest and the variant.

    Raises:
        FileError: the package cannot be read.
        ModuleError: the manifest or the variant is damaged.
        Untrusted: the key did not sign them.
    """
    folder = path if path.is_dir() else path.parent
    if key is not None:
        check_listed(path / MANIFEST if path.is_dir() else path, key)
    manifest = Manifest.read(path)
    for variant in manifest.variants:
        module = Module.read(folder / variant.file, key=key)
        wanted = default_device(module) if device is None else device
        try:
            _check_some_fits(module, wanted)
        except (ModuleMismatch, DeviceMissing) as error:
            refused.append(f"{variant.target}: {_reason(variant, error)}")
            continue
        _check_whole(variant, module.path)
        _check_weights(manifest.weights, folder)
        yield variant, module, wanted


def none_fits(path: Path, refused: Sequence[str]) -> ModuleMismatch:
    """The error where no variant of a package is left, which says of each why not."""
    return ModuleMismatch(
        f"{path} has no variant for this machine: {'; '.join(refused) or 'it is empty'}",
        hint="make the package again with a --target for this machine",
    )


def _check_some_fits(module: Module, wanted: str | Device) -> None:
    """Refuse a module that nothing which a URI stands for can run, with the first one's reason."""
    refused: EdgecError | None = None
    for place in (wanted,) if isinstance(wanted, Device) else device_choices(wanted):
        try:
            check_fits(module, Device.open(place))
        except (ModuleMismatch, DeviceMissing) as error:
            refused = refused or error
        else:
            return
    if refused is not None:
        raise refused


def _reason(variant: Variant, error: EdgecError) -> str:
    """Why a variant does not fit; the machine's own name where it is of another kind."""
    needs, here = variant.needs, architecture()
    if needs.device == "cpu" and needs.isa and needs.isa != here:
        return f"it needs {needs.isa} and this machine is {here}"
    return error.what


def _check_weights(weights: SharedFile | None, folder: Path) -> None:
    """Refuse another weights file; a weight's name is made of its bytes, so its size is enough."""
    if weights is None:
        return
    path = folder / weights.file
    try:
        size = path.stat().st_size
    except OSError as error:
        raise FileError(
            f"cannot read the weights file {path}: {error.strerror}",
            hint="copy the whole package again",
        ) from error
    if size != weights.size:
        raise ModuleError(
            f"{path} is not the file that the manifest lists", hint="make the package again"
        )


def _refuse_outside(file: str) -> None:
    """Refuse the path of a file outside the package.

    Raises:
        ModuleError: it lies there.
    """
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or "\\" in file:
        raise ModuleError(f"the manifest names a file outside the package: {file}")


def _check_whole(variant: Variant, path: Path) -> None:
    data = read_bytes(path)
    if len(data) != variant.size or hashlib.sha256(data).hexdigest() != variant.sha256:
        raise ModuleError(
            f"{path} is not the file that the manifest lists", hint="make the package again"
        )
