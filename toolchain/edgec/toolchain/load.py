"""A program file to a `Program`: edgec's own, or any StableHLO that tools or frameworks wrote."""

import logging
from pathlib import Path

from edgec.runtime.errors import ProgramError
from edgec.runtime.files import read_bytes
from edgec.runtime.golden import Golden
from edgec.toolchain.cache import Cache, key_of
from edgec.toolchain.isolate import call
from edgec.toolchain.program import Program, ProgramInfo

__all__ = ["load_program"]

_TIMEOUT = 600.0
_LOG = logging.getLogger("edgec.toolchain")


def load_program(path: Path | str, *, cache: bool = True) -> Program:
    """Read a `.mlirbc` or `.mlir` file, in a process of its own.

    A file that edgec wrote says itself what its functions are; of any other, each public function
    becomes a flat signature. Golden answers beside the file (`NAME.golden.npz`) come along; that
    they were written with another program is said.

    Raises:
        FileError: it cannot be read.
        ProgramError: it is no program that the compiler can read.
    """
    path = Path(path)
    data = read_bytes(path)
    store = Cache.default() if cache else None
    key = key_of("describe", str(path), data)
    entry = store.get(key) if store else None
    if entry is not None:
        info = ProgramInfo.from_json(entry.payload.read_text())
    else:
        try:
            text = call("describe", {"source": str(path)}, subject=str(path), timeout=_TIMEOUT)
        except ProgramError as error:
            error.where = error.where or str(path)
            raise
        info = ProgramInfo.from_json(text)
        if store:
            store.put(key, text.encode(), {})
    golden_path = Golden.path_for(path)
    golden = Golden.load(golden_path) if golden_path.exists() else None
    program = Program(bytecode=data, info=info, golden=golden, path=path)
    if golden is not None and golden.program not in ("", program.digest):
        _LOG.warning(
            "%s holds answers that were written with another program (SHA-256 %s…) than %s (%s…)",
            golden_path,
            golden.program[:12],
            path,
            program.digest[:12],
        )
    return program
