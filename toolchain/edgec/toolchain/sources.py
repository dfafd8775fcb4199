"""Where the sources of edgec's runtimes for other languages are: `c`, `java`, `swift`, `js`.

In a checkout they are `runtime/c` and so on; a wheel carries the same folders inside this package.
"""

from pathlib import Path

from edgec.runtime.errors import FileError

__all__ = ["runtime_sources"]

_HERE = Path(__file__).resolve().parent


def runtime_sources(language: str) -> Path:
    """The folder of the runtime for a language, by the name of its folder (`c` is edgert).

    Raises:
        FileError: this installation does not hold it.
    """
    for folder in (_HERE / "sources" / language, _HERE.parents[2] / "runtime" / language):
        if folder.is_dir():
            return folder
    raise FileError(
        f"this installation of edgec holds no sources of runtime/{language}",
        hint="install edgec's own wheel, or work in a checkout of its repository",
    )
