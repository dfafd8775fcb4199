"""A package's `edgec.seal` to what it lists: every file beside and below it, with its hash.

A line a file, `SHA-512 in hexadecimal, two spaces, the path with /`, in the order of the paths, and
behind the lines a seal (`seal.py`). Nothing that it does not list may lie in the folder.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from edgec.runtime.errors import FileError, Untrusted
from edgec.runtime.files import read_bytes
from edgec.runtime.seal import PACKAGE, SEAL_FILE, check_seal

__all__ = ["check_folder", "check_listed", "listed_text", "read_list"]

_LINE = re.compile(r"([0-9a-f]{128})  ([^\n]+)")
_AGAIN = "get the package again from whom you trust"


def listed_text(folder: Path) -> str:
    """The lines for what is in a folder now.

    Raises:
        FileError: a file cannot be read.
        Untrusted: there is something else than files and folders, or a name with a line's end.
    """
    lines = []
    for name, file in sorted(_files(folder).items()):
        if "\n" in name:
            raise Untrusted(f"a file's name in {folder} has two lines: {name!r}")
        lines.append(f"{_digest(file)}  {name}\n")
    return "".join(lines)


def read_list(folder: Path, key: bytes) -> Mapping[str, str]:
    """The hash of each file that a package's seal lists, the seal checked.

    Raises:
        FileError: it cannot be read.
        Untrusted: the key did not sign it.
    """
    file = folder / SEAL_FILE
    if not file.exists():
        raise Untrusted(
            f"{folder} is not trusted: it is not signed (there is no {SEAL_FILE})",
            hint="sign it with `edgec sign`, or get it from whom you trust",
        )
    data = read_bytes(file)
    seal = check_seal(data, PACKAGE, key, str(file))
    lines = data[: seal.content_size].decode().splitlines()
    found = [match for line in lines if (match := _LINE.fullmatch(line))]
    if len(found) != len(lines):
        raise Untrusted(f"{file} is not trusted: it is no list of files", hint=_AGAIN)
    return {match[2]: match[1] for match in found}


def check_listed(file: Path, key: bytes) -> None:
    """Refuse a file that the seal beside it does not list, or that is another by now.

    Raises:
        FileError: a file cannot be read.
        Untrusted: it is.
    """
    if read_list(file.parent, key).get(file.name) != _digest(file):
        raise Untrusted(
            f"{file} is not trusted: it is not as it was signed in {SEAL_FILE}", hint=_AGAIN
        )


def check_folder(folder: Path, key: bytes) -> int:
    """Refuse a package of which any file is missing, changed or new; how many files there are.

    Raises:
        FileError: a file cannot be read.
        Untrusted: one is.
    """
    listed = read_list(folder, key)
    found = _files(folder)
    for name in sorted(listed.keys() | found.keys()):
        problem = ""
        if name not in found:
            problem = "is missing"
        elif name not in listed:
            problem = "is new since it was signed"
        elif _digest(found[name]) != listed[name]:
            problem = "has changed since it was signed"
        if problem:
            raise Untrusted(f"{folder} is not trusted: {name} {problem}", hint=_AGAIN)
    return len(listed)


def _files(folder: Path) -> dict[str, Path]:
    """Every file below a folder by its path with `/`, but for the folder's own seal."""
    found = {}
    for file in folder.rglob("*"):
        name = file.relative_to(folder).as_posix()
        if file.is_symlink() or not (file.is_file() or file.is_dir()):
            raise Untrusted(
                f"{folder} is not trusted: {name} is neither a file nor a folder", hint=_AGAIN
            )
        if file.is_file() and name != SEAL_FILE:
            found[name] = file
    return found


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha512").hexdigest()
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror}") from error
