"""A public key as it was given (32 bytes, a PEM file, hexadecimal, `env:NAME`) to its 32 bytes."""

import base64
import binascii
import os
import re
from pathlib import Path

from edgec.runtime.errors import UsageError
from edgec.runtime.files import read_bytes

__all__ = ["given_text", "public_key"]

_SIZE = 32
# A SubjectPublicKeyInfo of Ed25519 (RFC 8410) has this before the key.
_PREFIX = bytes.fromhex("302a300506032b6570032100")
_PEM = re.compile(r"-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----")
_ENVIRONMENT = "env:"


def public_key(given: bytes | Path | str) -> bytes:
    """The 32 bytes of an Ed25519 public key.

    Args:
        given: these bytes, or 64 hexadecimal digits, or a file or `env:NAME` (a variable of the
            environment) that holds the key as PEM or in hexadecimal.

    Raises:
        FileError: the file cannot be read.
        UsageError: it is no such key.
    """
    if isinstance(given, bytes):
        if len(given) == _SIZE:
            return given
        raise UsageError(f"a public key has {_SIZE} bytes, and this has {len(given)}")
    found = _in_hexadecimal(str(given))
    if found is not None:
        return found
    text, subject = given_text(given)
    found = _in_hexadecimal(text.strip()) or _in_pem(text)
    if found is None:
        raise UsageError(
            f"{subject} holds no Ed25519 public key",
            hint="name the .pub file that `edgec keygen` wrote (PEM), not the private key",
        )
    return found


def given_text(given: Path | str) -> tuple[str, str]:
    """The text of a file or of a variable of the environment, and what to call it.

    Raises:
        FileError: the file cannot be read.
        UsageError: there is no such variable.
    """
    name = str(given)
    if name.startswith(_ENVIRONMENT):
        variable = name.removeprefix(_ENVIRONMENT)
        text = os.environ.get(variable)
        if text is None:
            raise UsageError(
                f"there is no variable {variable} in the environment",
                hint=f"set it, or name a file with --key=FILE instead of {name}",
            )
        return text, f"${variable}"
    return read_bytes(Path(given)).decode(errors="replace"), name


def _in_hexadecimal(text: str) -> bytes | None:
    return bytes.fromhex(text) if re.fullmatch(rf"[0-9a-fA-F]{{{2 * _SIZE}}}", text) else None


def _in_pem(text: str) -> bytes | None:
    found = _PEM.search(text)
    if found is None:
        return None
    try:
        data = base64.b64decode("".join(found[1].split()), validate=True)
    except binascii.Error:
        return None
    is_whole = data.startswith(_PREFIX) and len(data) == len(_PREFIX) + _SIZE
    return data[len(_PREFIX) :] if is_whole else None
