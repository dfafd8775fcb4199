"""What a builder gets: the model's name and signatures, its compiled variants, and the folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.packaging.kinds import Kind
from edgec.runtime import Golden, Signature, Tolerance
from edgec.runtime.manifest import Manifest, Variant
from edgec.targets import Target
from edgec.toolchain import Compiled
from edgec.toolchain.program import Provenance

if TYPE_CHECKING:
    from edgec.packaging.proving import Proof

__all__ = ["BuiltVariant", "Made", "Plan"]


@dataclass(frozen=True, kw_only=True)
class BuiltVariant:
    """One module of the package.

    Attributes:
        target: what it was compiled for.
        compiled: the module and the report of its making.
        entry: how the manifest lists it; `entry.file` is relative to the package.
        library: the object file with its kernels, where they are to be linked into the app.
    """

    target: Target
    compiled: Compiled
    entry: Variant
    library: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A package in the making; every path lies in `folder`.

    Attributes:
        kind: what kind of package.
        name: the model's name, safe in file names and as an identifier in every language.
        title: the name as the user wrote it, for people.
        folder: where to write; it is renamed to its real name when all is there.
        destination: that real name.
        signatures: the functions that every variant has, by name.
        variants: best first.
        provenance: where the program came from.
        golden: example calls with the framework's own answers, where the program has them.
        options: what the user asked of this kind only (`embed`), by name.
        notes: what the user should know beside the notes of the compiles.
        tolerance: how far answers may be off; None for each type's default.
    """

    kind: Kind
    name: str
    title: str
    folder: Path
    destination: Path
    signatures: Mapping[str, Signature]
    variants: tuple[BuiltVariant, ...]
    manifest: Manifest
    provenance: Provenance
    golden: Golden | None
    options: Mapping[str, str]
    notes: tuple[str, ...] = ()
    tolerance: Tolerance | None = None

    @property
    def has_gpus(self) -> bool:
        """Whether there is a variant for GPUs."""
        return any(variant.entry.needs.device == "vulkan" for variant in self.variants)

    @property
    def modules(self) -> Path:
        """The folder that the modules are in."""
        return (self.folder / self.variants[0].entry.file).parent

    def write(self, path: str, text: str) -> Path:
        """Write a text file, by its path in the package with `/`; folders are made."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def manifest_beside_modules(self) -> str:
        """The manifest's text for runtimes that see only the folder of the modules."""
        from dataclasses import replace

        variants = tuple(
            replace(variant, file=variant.file.rpartition("/")[2])
            for variant in self.manifest.variants
        )
        weights = self.manifest.weights
        if weights is not None:
            weights = replace(weights, file=weights.file.rpartition("/")[2])
        return replace(self.manifest, variants=variants, weights=weights).text()


@dataclass(frozen=True, kw_only=True)
class Made:
    """A package that was made.

    Attributes:
        folder: where it is.
        kind: what kind it is.
        manifest: what its manifest says.
        files: every file, relative to the folder, with its bytes.
        notes: what the user should know of how the modules were made.
        checks: for each target, `checked on …` or `unchecked: …`.
        proofs: what came of the package's own test, where it was run.
    """

    folder: Path
    kind: Kind
    manifest: Manifest
    files: Mapping[str, int]
    notes: tuple[str, ...]
    checks: Mapping[str, str]
    proofs: tuple["Proof", ...] = ()
