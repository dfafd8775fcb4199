"""What is behind a signed file: whose signature, of which bytes, and hashes of its weights' pages.

A seal is written behind the bytes that it is of (`SPEC.md` of edgert has the format), and is
checked by edgert (`edgert_seal_check`), so that a device needs no library for signatures. Weights
lie in a file of their own and are hashed by pages; edgert compares a page when it is first used,
other runtimes are given files that were compared whole (`check_weights`).
"""

import ctypes
import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from edgec.runtime.errors import FileError, Untrusted

__all__ = [
    "MODULE",
    "PACKAGE",
    "SEAL_FILE",
    "Seal",
    "check_seal",
    "check_weights",
    "find_seal",
    "hash_pages",
    "key_name",
    "statement",
]

MODULE, PACKAGE = "module", "package"
"""What is signed: a module, or the list of a package's files."""

SEAL_FILE = "edgec.seal"
"""The file of a package that lists all others, and is signed."""

_MAGIC = b"edgeseal"
_STATEMENT = struct.Struct("<32sQQIIQ64s64s")
_LEAF = 32
_SIZE = _STATEMENT.size + 8 + 64 + len(_MAGIC)
_MIN_PAGE_BITS, _MOST_PAGES = 16, 1024
_AGAIN = "get the file again from whom you trust, or ask them which key signs it"


@dataclass(frozen=True, kw_only=True)
class Seal:
    """What a seal says; true only of one that was checked.

    Attributes:
        kind: what it is of.
        content_size: how many bytes lie before it.
        content_hash: their SHA-512.
        weights_size: bytes of the weights file beside them; 0 where there is none.
        page_bits: a page of it has two to the power of so many bytes.
        root: the hash of its pages' hashes.
        leaves: those, 32 bytes each.
        key_name: the first 8 bytes of the public key's SHA-512, in hexadecimal.
        signature: of the statement.
    """

    kind: str
    content_size: int
    content_hash: bytes
    weights_size: int = 0
    page_bits: int = 0
    root: bytes = bytes(64)
    leaves: bytes = b""
    key_name: str = ""
    signature: bytes = b""

    @property
    def size(self) -> int:
        """Bytes that it takes in the file."""
        return _SIZE + len(self.leaves)

    def to_bytes(self) -> bytes:
        """As it lies in the file, behind the content."""
        name = bytes.fromhex(self.key_name)
        return self.leaves + statement(self) + name + self.signature + _MAGIC


def statement(seal: Seal) -> bytes:
    """The bytes that are signed: what the signature is for, and all that the seal vouches for."""
    return _STATEMENT.pack(
        _text(seal.kind),
        seal.content_size,
        seal.weights_size,
        *(seal.page_bits, 0, 0, seal.content_hash, seal.root),
    )


def find_seal(data: bytes | memoryview) -> Seal | None:
    """The seal behind some bytes, not checked; None where there is none."""
    if len(data) < _SIZE or bytes(data[-len(_MAGIC) :]) != _MAGIC:
        return None
    at = len(data) - _SIZE
    text, content, weights, bits, _, _, content_hash, root = _STATEMENT.unpack_from(data, at)
    if content > at or (at - content) % _LEAF:
        return None
    name = at + _STATEMENT.size
    return Seal(
        kind=text.rstrip(b"\0").decode(errors="replace").rpartition(" ")[2],
        content_size=content,
        content_hash=content_hash,
        weights_size=weights,
        page_bits=bits,
        root=root,
        leaves=bytes(data[content:at]),
        key_name=bytes(data[name : name + 8]).hex(),
        signature=bytes(data[name + 8 : name + 72]),
    )


def check_seal(data: bytes | memoryview, kind: str, key: bytes, subject: str) -> Seal:
    """Refuse bytes that are not as the owner of a public key signed them.

    Args:
        data: a file, with its seal.
        kind: what it has to be.
        key: 32 bytes.
        subject: the file's name, for messages.

    Raises:
        Untrusted: they are not.
        ModuleMismatch, DeviceMissing: there is no edgert that checks signatures.
    """
    from edgec.runtime.edgert.native import Error, open_library

    library = open_library()
    array = np.frombuffer(data, np.uint8)
    size, error = ctypes.c_size_t(), Error()
    status = library.seal_check(
        *(array.ctypes.data, array.nbytes, kind.encode(), key),
        *(ctypes.byref(size), ctypes.byref(error)),
    )
    del array  # an error would keep it, and with it a file's mapping
    try:
        library.check(status, error, Untrusted)
    except Untrusted as refused:
        raise Untrusted(f"{subject} is {refused.what}", hint=_AGAIN) from None
    seal = find_seal(data)
    if seal is None or seal.content_size != size.value:
        raise Untrusted(f"{subject} is not trusted: its seal contradicts itself", hint=_AGAIN)
    return seal


def check_weights(path: Path, seal: Seal) -> None:
    """Refuse a weights file that is not the one that was signed with a module; all is read.

    Raises:
        FileError: it cannot be read.
        Untrusted: a page of it is another.
    """
    try:
        with path.open("rb") as stream:
            is_right = path.stat().st_size == seal.weights_size and all(
                digest == seal.leaves[index * _LEAF : (index + 1) * _LEAF]
                for index, digest in enumerate(_pages(stream, seal.page_bits))
            )
    except OSError as error:
        raise FileError(f"cannot read the weights file {path}: {error.strerror}") from error
    if not is_right:
        raise Untrusted(
            f"{path} is not trusted: these are not the weights that were signed with the module",
            hint=_AGAIN,
        )


def hash_pages(path: Path) -> tuple[int, bytes, bytes]:
    """A weights file's page size (its logarithm), its pages' hashes, and their root.

    Raises:
        FileError: it cannot be read.
    """
    try:
        size = path.stat().st_size
        bits = _MIN_PAGE_BITS
        while size > _MOST_PAGES << bits:
            bits += 1
        with path.open("rb") as stream:
            leaves = b"".join(_pages(stream, bits))
    except OSError as error:
        raise FileError(f"cannot read the weights file {path}: {error.strerror}") from error
    return bits, leaves, hashlib.sha512(_text("pages") + leaves).digest()


def key_name(key: bytes) -> str:
    """How seals call a public key: it says which one is needed, and proves nothing."""
    return hashlib.sha512(key).digest()[:8].hex()


def _pages(stream: BinaryIO, bits: int) -> Iterator[bytes]:
    text = _text("page")
    while piece := stream.read(1 << bits):
        yield hashlib.sha512(text + piece).digest()[:_LEAF]


def _text(use: str) -> bytes:
    """What every hash and signature begins with, so that none serves for another use."""
    return f"edgec seal 1 {use}".encode().ljust(32, b"\0")
