"""A module or package and a public key to whether its owner signed all of it as it is."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.cli.report import Report
from edgec.runtime.errors import UsageError

if TYPE_CHECKING:
    from edgec.runtime import Module

__all__ = ["Checked", "checked", "read_signed"]


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A signature that is right.

    Attributes:
        file: what was signed.
        key: how seals call the public key.
        public: the key.
        said: of what the signature is, in words.
        module: the module; None where a package was signed.
    """

    file: Path
    key: str
    public: bytes
    said: str
    module: "Module | None"

    def is_all(self, *, asked: bool) -> bool:
        """Whether the signature is all that can be looked at: there is nothing to be called by."""
        from edgec.runtime import Golden

        if self.module is None:
            return True
        return not (asked or self.module.golden or Golden.path_for(self.file).exists())

    def report(self) -> Report:
        """The signature alone."""
        return Report(
            data={
                "file": self.file,
                "kind": "package" if self.module is None else "module",
                "signed_by": self.key,
                "ok": True,
                "calls": [],
            },
            blocks=(self.said, "verdict: signed"),
        )


def read_signed(file: Path, key: str | None, weights: Path | None, *, leaves: bool) -> "Module":
    """A module, refused where a key was given whose owner did not sign it.

    Args:
        file: the module.
        key: as `--key` has it; None to ask for no signature.
        weights: the weights file, where it is not where the module says.
        leaves: whether the module goes to another machine, whose weights are then looked at here;
            else what loads them compares them.

    Raises:
        Untrusted: the key's owner did not sign it, or it changed since.
        UsageError: there is no such key.
        FileError: a file cannot be read.
    """
    from edgec.runtime import Module
    from edgec.runtime.parameters import weights_path
    from edgec.runtime.public_key import public_key
    from edgec.runtime.seal import check_weights

    if key is None:
        return Module.read(file)
    module = Module.read(file, key=public_key(key))
    beside = weights_path(module, weights)
    if leaves and beside is not None and module.seal is not None:
        check_weights(beside, module.seal)
    return module


def checked(file: Path, key: str | None, weights: Path | None, *, is_program: bool) -> Checked:
    """Check the signature of a file or folder, and everything it is of.

    Raises:
        Untrusted: the key's owner did not sign it, or it changed since.
        UsageError: there is no key, or programs are not signed.
        FileError: a file cannot be read.
    """
    from edgec.runtime import Module
    from edgec.runtime.manifest import Manifest
    from edgec.runtime.parameters import weights_path
    from edgec.runtime.public_key import public_key
    from edgec.runtime.seal import check_weights, key_name
    from edgec.runtime.sealed_folder import check_folder

    if key is None:
        raise UsageError(
            f"{file} is a folder, and of a package the signature alone is verified",
            hint="give a public key with --key, or name one of its modules (.vmfb); "
            f"`edgec run {file} --prove` makes its golden calls",
        )
    if is_program:
        raise UsageError(
            f"{file} is a program, and --key is for modules and packages, which are signed",
            hint="leave --key out, or verify the module",
        )
    public = public_key(key)
    name = key_name(public)
    if file.is_dir():
        count = check_folder(file, public)
        manifest = Manifest.read(file)
        for variant in manifest.variants:
            Module.read(file / variant.file, key=public)
        said = f"signed by {name}: {count} files, {len(manifest.variants)} modules among them"
        return Checked(file=file, key=name, public=public, said=said, module=None)
    module = Module.read(file, key=public)
    said = f"signed by {name}: {file}"
    beside = weights_path(module, weights)
    if beside is not None and module.seal is not None:
        check_weights(beside, module.seal)
        said += f", {beside}"
    return Checked(file=file, key=name, public=public, said=said, module=module)
