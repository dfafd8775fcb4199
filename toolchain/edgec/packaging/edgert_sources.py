"""edgert's sources as two files in a package."""

import importlib.util
from pathlib import Path

from edgec.runtime.errors import FileError
from edgec.toolchain.sources import runtime_sources

__all__ = ["write_edgert"]


def write_edgert(folder: Path, *, text: bool = False) -> None:
    """Write `edgert.c` and `edgert.h`; for language models `edgert_text.c` and `.h`, too.

    Raises:
        FileError: this installation does not hold the sources.
    """
    script = runtime_sources("c") / "amalgamate.py"
    spec = importlib.util.spec_from_file_location("edgec_amalgamate", script)
    if spec is None or spec.loader is None or not script.is_file():
        raise FileError(f"{script} is missing", hint="install edgec again")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.amalgamate(folder, text=text)
