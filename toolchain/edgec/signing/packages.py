"""A package to the same package with every module signed, and a signed list of all its files."""

import base64
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgec.packaging.folder import new_folder
from edgec.runtime.errors import UsageError
from edgec.runtime.files import write_atomically
from edgec.runtime.manifest import MANIFEST, Manifest, SharedFile, shared_file
from edgec.runtime.seal import PACKAGE, SEAL_FILE, Seal
from edgec.runtime.sealed_folder import listed_text
from edgec.signing.keys import PrivateKey
from edgec.signing.modules import sealed, sign_module

__all__ = ["Signed", "sign_package"]


@dataclass(frozen=True, kw_only=True)
class Signed:
    """A package that was signed.

    Attributes:
        modules: each module's path in the package, and its seal.
        files: how many files its list vouches for.
    """

    modules: Mapping[str, Seal]
    files: int


def sign_package(
    folder: Path | str,
    key: PrivateKey,
    output: Path | str | None = None,
    *,
    replaces: bool = False,
) -> Signed:
    """Sign a package that `edgec package` made.

    Args:
        folder: the package.
        key: whose signature.
        output: where the signed package goes; None for its own place.
        replaces: take the place of a package that is there.

    Raises:
        FileError: something cannot be read or written.
        ModuleError, UsageError: it is no package of modules.
    """
    folder, output = Path(folder), None if output is None else Path(output)
    Manifest.read(folder)
    if output is not None and output.resolve() != folder.resolve():
        if output.resolve().is_relative_to(folder.resolve()):
            raise UsageError(
                f"{output} lies in the package {folder}", hint="name a folder beside it with -o"
            )
        with new_folder(output, replace=replaces) as place:
            shutil.copytree(folder, place, dirs_exist_ok=True)
            return _sign(place, key)
    with new_folder(folder, replace=True) as place:
        shutil.copytree(folder, place, dirs_exist_ok=True)
        return _sign(place, key)


def _sign(folder: Path, key: PrivateKey) -> Signed:
    modules = {}
    for path in sorted(folder.rglob("*.vmfb")):
        name = path.relative_to(folder).as_posix()
        before = shared_file(path, name)
        modules[name] = sign_module(path, key, path)
        after = shared_file(path, name)
        for file in (*folder.rglob(MANIFEST), *folder.rglob("*.js")):
            _write_listed(file, path.name, before, after)
    (folder / SEAL_FILE).unlink(missing_ok=True)
    text = listed_text(folder)
    empty = Seal(kind=PACKAGE, content_size=0, content_hash=b"")
    with write_atomically(folder / SEAL_FILE) as stream:
        stream.write(sealed(text.encode(), empty, key))
    return Signed(modules=modules, files=text.count("\n"))


def _write_listed(file: Path, module: str, before: SharedFile, after: SharedFile) -> None:
    """Put a module's new hash and size where a manifest or a page's JavaScript has the old ones."""
    text = file.read_text(encoding="utf-8")
    if module not in text:
        return
    # `"sha256": "…",\n "size": …` in manifests, `integrity: 'sha256-…',\n size: …` in JavaScript.
    for old, new in (
        (before.sha256, after.sha256),
        (_integrity(before.sha256), _integrity(after.sha256)),
    ):
        listed = re.compile(rf"{re.escape(old)}(['\"],\s*['\"]?size['\"]?: ){before.size}\b")
        text = listed.sub(rf"{new}\g<1>{after.size}", text)
    file.write_text(text, encoding="utf-8")


def _integrity(sha256: str) -> str:
    return "sha256-" + base64.b64encode(bytes.fromhex(sha256)).decode()
