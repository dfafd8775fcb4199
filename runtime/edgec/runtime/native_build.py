"""C sources of a checkout to a shared library in the user's cache, once for each state of them."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgec.runtime.cache_folder import CACHE_VARIABLE, cache_folder
from edgec.runtime.errors import DeviceError, DeviceMissing
from edgec.runtime.files import FULL, no_space, refuse_full

__all__ = ["Recipe", "built"]

_SECONDS = 300.0
_ROOM = 1 << 20
"""Bytes that are there before a compiler begins; a library takes some 200 KB."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a library is made.

    Attributes:
        what: what it is called in messages.
        file: the library's own name.
        folder: what its folder in the cache begins with.
        sources: folders whose C files go in.
        headers: folders where headers are looked for.
        flags: the compiler's.
        variable: what names a library made otherwise.
        linked: a library that it needs, to be found where it is now.
    """

    what: str
    file: str
    folder: str
    sources: tuple[Path, ...]
    headers: tuple[Path, ...]
    flags: tuple[str, ...]
    variable: str
    linked: Path | None = None


def built(recipe: Recipe) -> Path:
    """The library, compiled by a C compiler of this machine if it is not there yet.

    Raises:
        DeviceMissing: there is no C compiler.
        DeviceError: it could not be built or written.
        FileError: no space is left for it, or for the compiler.
    """
    library = cache_folder() / f"{recipe.folder}-{_key(recipe)}" / recipe.file
    if not library.is_file():
        _build(recipe, library)
    return library


def _read(recipe: Recipe) -> Iterator[tuple[str, Path]]:
    """Every file that the library is made of, by its name in its folder."""
    for folder in (*recipe.sources, *recipe.headers):
        for file in sorted(folder.glob("**/*.[ch]")):
            yield file.relative_to(folder).as_posix(), file


def _key(recipe: Recipe) -> str:
    """What a build depends on, as 16 hexadecimal digits."""
    found = hashlib.sha256()
    # A home folder may be shared by machines: of other architectures, with other C libraries.
    system = (sysconfig.get_platform(), sysconfig.get_config_var("MULTIARCH"), recipe.flags)
    found.update(repr(system).encode())
    found.update(str(recipe.linked).encode())
    for name, file in _read(recipe):
        found.update(f"\0{name}\0".encode())
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _compiler(recipe: Recipe) -> tuple[str, ...]:
    """The command of a C compiler.

    Raises:
        DeviceMissing: there is none.
    """
    named = os.environ.get("CC")
    for name in (named, "cc", "gcc", "clang"):
        found = shutil.which(name) if name else None
        if found:
            return (found,)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc")
    raise DeviceMissing(
        f"{recipe.what} is not built, and there is no C compiler to build it with",
        hint="install one (apt install gcc, or pip install ziglang), "
        f"or set ${recipe.variable} to a {recipe.file}",
    )


def _linked(recipe: Recipe) -> tuple[str, ...]:
    """What the linker is told of the library that is needed."""
    if recipe.linked is None:
        return ()
    folder = recipe.linked.resolve().parent
    name = recipe.linked.stem.removeprefix("lib")
    return (f"-L{folder}", f"-l{name}", f"-Wl,-rpath,{folder}")


def _build(recipe: Recipe, library: Path) -> None:
    """Compile; the file appears at once, whole, also where several processes build it."""
    compiler = _compiler(recipe)
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        refuse_full(library.parent, _ROOM)
        with tempfile.TemporaryDirectory(dir=library.parent, prefix="build-") as folder:
            made = Path(folder, recipe.file)
            files = sorted(str(file) for each in recipe.sources for file in each.glob("**/*.c"))
            command = [
                *(*compiler, *recipe.flags, *(f"-I{each}" for each in recipe.headers), *files),
                *("-o", str(made), *_linked(recipe), "-lm", "-lpthread", "-ldl"),
            ]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
            if done.returncode != 0 and FULL in done.stderr:
                raise no_space(None)
            if done.returncode != 0:
                lines = done.stderr.strip().splitlines()
                said = next((line for line in lines if "error" in line), "it said nothing")
                raise DeviceError(
                    f"{recipe.what} could not be built by {' '.join(compiler)}: {said}",
                    hint=f"try another C compiler (CC=clang), or set ${recipe.variable}",
                )
            made.replace(library)
    except subprocess.TimeoutExpired as error:
        raise DeviceError(
            f"{recipe.what} was not built within {_SECONDS:.0f} s",
            hint=f"set ${recipe.variable}",
        ) from error
    except OSError as error:
        raise DeviceError(
            f"{recipe.what} could not be built in {library.parent}: {error.strerror or error}",
            hint=f"set ${CACHE_VARIABLE} to a folder that can be written to",
        ) from error
