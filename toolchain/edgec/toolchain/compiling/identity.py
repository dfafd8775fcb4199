"""A language model to a word that no other model has: of its program and its weights.

What a model has read (keys and values) means nothing to another, however alike their shapes are.
So a module says which model it is, whatever target it was compiled for, and what is saved says it
too (`edgec.runtime.text.saved`, `runtime/c/text/saved.c`).
"""

import hashlib
import json
from pathlib import Path

from edgec.runtime.module import IDENTITY_WIDTH
from edgec.toolchain.program import Program

__all__ = ["identity_of"]

_CHUNK = 1 << 22


def identity_of(program: Program, weights: Path | None) -> str:
    """So many hexadecimal digits as `IDENTITY_WIDTH`.

    Args:
        program: the program.
        weights: its file of weights, where it has one.

    Returns:
        The same for the same program and weights, wherever their files lie. Empty for a program
        without text, and where the weights are not at hand: then nobody can tell.
    """
    if program.info.text is None or (weights is not None and not weights.is_file()):
        return ""
    digest = hashlib.sha256(program.bytecode)
    digest.update(json.dumps([state.to_json() for state in program.info.states]).encode())
    if weights is not None:
        with weights.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()[:IDENTITY_WIDTH]
