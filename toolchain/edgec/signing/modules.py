"""A module, with the weights it keeps outside, to the same module with a seal behind it."""

import hashlib
from dataclasses import replace
from pathlib import Path

from edgec.runtime.errors import ModuleError
from edgec.runtime.files import read_bytes, write_atomically
from edgec.runtime.module import Module
from edgec.runtime.parameters import weights_path
from edgec.runtime.seal import MODULE, Seal, find_seal, hash_pages, statement
from edgec.signing.keys import PrivateKey

__all__ = ["sealed", "sign_module"]

_ARCHIVE, _END, _END_SIZE = b"PK\x03\x04", b"PK\x05\x06", 22


def sign_module(path: Path | str, key: PrivateKey, output: Path | str) -> Seal:
    """Write a module with a seal; one that it has already is taken off.

    Args:
        path: the module; weights that it keeps outside are read from beside it.
        key: whose signature.
        output: the file to write, which may be the module itself.

    Raises:
        FileError: a file cannot be read or written.
        ModuleError: it is no module, or keeps weights where nobody knows.
    """
    path, output = Path(path), Path(output)
    module = Module.read(path)
    data = read_bytes(path)
    old = find_seal(data)
    content = data if old is None else data[: old.content_size]
    weights = weights_path(module, None)
    seal = Seal(kind=MODULE, content_size=len(content), content_hash=bytes(64))
    if weights is not None:
        bits, leaves, root = hash_pages(weights)
        size = weights.stat().st_size
        if not size:
            raise ModuleError(f"the weights file {weights} is empty", hint="export it again")
        seal = replace(seal, weights_size=size, page_bits=bits, leaves=leaves, root=root)
    content = _with_room(content, seal.size, path)
    whole = sealed(content, seal, key)
    with write_atomically(output) as stream:
        stream.write(whole)
    found = find_seal(whole)
    if found is None:
        raise ModuleError(f"{path} cannot be signed: its seal is not found again")
    return found


def sealed(content: bytes, seal: Seal, key: PrivateKey) -> bytes:
    """Bytes with a seal behind them, of what `seal` says beside them."""
    seal = replace(
        seal,
        content_size=len(content),
        content_hash=hashlib.sha512(content).digest(),
        key_name=key.name,
    )
    seal = replace(seal, signature=key.sign(statement(seal)))
    return content + seal.to_bytes()


def _with_room(content: bytes, size: int, path: Path) -> bytes:
    """An archive whose end says that so many bytes of comment follow, so stays one."""
    if not content.startswith(_ARCHIVE):
        return content
    at = len(content) - _END_SIZE
    if at < 0 or content[at : at + 4] != _END:
        raise ModuleError(
            f"{path} is an archive with something behind its end, and cannot be signed",
            hint="compile the program again",
        )
    return content[:-2] + size.to_bytes(2, "little")
