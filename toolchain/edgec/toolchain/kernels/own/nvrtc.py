"""CUDA C++ to PTX by NVIDIA's NVRTC, a library that needs neither a GPU nor the CUDA toolkit.

It comes with `nvidia-cuda-nvrtc` (or `-cu12`), which PyTorch and JAX bring along with CUDA, or with
the system. Of its interface (nvrtc.h, unchanged since CUDA 7) only what makes PTX is declared.
"""

import ctypes
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["Nvrtc", "NvrtcRefused"]

_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
_LIBRARIES = ("cu13/lib", "cuda_nvrtc/lib")
_HEADERS = ("cu13/include", "cuda_runtime/include")


class NvrtcRefused(Exception):
    """The library does not take a source; the text is what it says."""


class Nvrtc:
    """The library.

    Attributes:
        version: such as `12.9`.
        headers: folders of CUDA's headers (`cuda_fp16.h`) that came as packages.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"
        self.headers = tuple(_folders(_HEADERS))

    @classmethod
    def find(cls) -> "Nvrtc | None":
        """The package's, else the system's; None where there is none."""
        places = [folder / name for folder in _folders(_LIBRARIES) for name in _NAMES]
        for place in (*(str(each) for each in places if each.exists()), *_NAMES):
            try:
                return cls(ctypes.CDLL(place))
            except OSError:
                continue
        return None

    def ptx(self, source: str, name: str, flags: Sequence[str]) -> str:
        """Compile one source.

        Args:
            source: CUDA C++.
            name: what it is called in messages.
            flags: as nvcc takes them, so far as NVRTC knows them.

        Raises:
            NvrtcRefused: it does not compile.
        """
        library, program = self._library, ctypes.c_void_p()
        library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), name.encode(), 0, None, None
        )
        options = [*flags, *(f"--include-path={folder}" for folder in self.headers)]
        given = (ctypes.c_char_p * len(options))(*(each.encode() for each in options))
        try:
            failed = library.nvrtcCompileProgram(program, len(options), given)
            if failed:
                raise NvrtcRefused(self._text(program, "ProgramLog") or f"error {failed}")
            return self._text(program, "PTX")
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, program: ctypes.c_void_p, what: str) -> str:
        size = ctypes.c_size_t()
        getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value + 1)
        getattr(self._library, f"nvrtcGet{what}")(program, buffer)
        return buffer.value.decode(errors="replace")


def _folders(names: Sequence[str]) -> Iterator[Path]:
    """Those of NVIDIA's packages that are here."""
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield from (Path(place, name) for name in names if Path(place, name).is_dir())
