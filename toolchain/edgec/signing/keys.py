"""Ed25519 keys: made, written as PEM, and read from files or the environment."""

import base64
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgec.runtime.errors import FileError, MissingExtra, UsageError
from edgec.runtime.public_key import given_text
from edgec.runtime.seal import key_name

__all__ = ["PUBLIC_SUFFIX", "PrivateKey", "new_key"]

PUBLIC_SUFFIX = ".pub"
_SEED = 32


@dataclass(frozen=True, kw_only=True)
class PrivateKey:
    """A key that signs.

    Attributes:
        public: the 32 bytes of its public key.
        held: the key as `cryptography` has it; nothing shows it.
    """

    public: bytes
    held: Any = field(repr=False)

    @property
    def name(self) -> str:
        """How seals call its public key."""
        return key_name(self.public)

    def sign(self, data: bytes) -> bytes:
        """The signature of some bytes."""
        return bytes(self.held.sign(data))

    @classmethod
    def read(cls, given: Path | str) -> "PrivateKey":
        """A key from a file, or from a variable of the environment (`env:NAME`).

        It is PEM (PKCS #8, not encrypted), or the seed's 32 bytes in hexadecimal or base64.

        Raises:
            MissingExtra: there is nothing here that signs.
            FileError: the file cannot be read.
            UsageError: it holds no such key.
        """
        kind = _library()
        text, subject = given_text(given)
        if "-----BEGIN" not in text:
            return cls._of(kind.Ed25519PrivateKey.from_private_bytes(_seed(text, subject)))
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            held = load_pem_private_key(text.encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            held = None
        if not isinstance(held, kind.Ed25519PrivateKey):
            raise _no_key(subject)
        return cls._of(held)

    @classmethod
    def _of(cls, held: Any) -> "PrivateKey":
        return cls(public=held.public_key().public_bytes_raw(), held=held)


def new_key(path: Path | str) -> PrivateKey:
    """Make a key: the private one goes into `path`, readable by its owner alone, the public beside.

    Raises:
        MissingExtra: there is nothing here that makes one.
        FileError: there is such a file already, or it cannot be written.
    """
    path, kind = Path(path), _library()
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    held = kind.Ed25519PrivateKey.generate()
    private = held.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = held.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for file, data, mode in (
        (path, private, 0o600),
        (path.with_suffix(PUBLIC_SUFFIX), public, 0o644),
    ):
        try:
            # Never over a key that is there: what it signed could not be signed again.
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
                out.write(data)
        except OSError as error:
            raise FileError(
                f"cannot write {file}: {error.strerror}", hint="choose another name with -o"
            ) from error
    return PrivateKey._of(held)


def _seed(text: str, subject: str) -> bytes:
    word = text.strip()
    for read in (bytes.fromhex, lambda text: base64.b64decode(text, validate=True)):
        try:
            seed = read(word)
        except ValueError:
            continue
        if len(seed) == _SEED:
            return seed
    raise _no_key(subject)


def _no_key(subject: str) -> UsageError:
    return UsageError(
        f"{subject} holds no private key of Ed25519",
        hint="make one with `edgec keygen`, or give one as PEM (PKCS #8, not encrypted)",
    )


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise MissingExtra(
            "signing needs the package cryptography, which is not installed",
            hint="pip install 'edgec[sign]'",
        ) from error
    return ed25519
