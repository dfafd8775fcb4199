"""edgert_text as a shared library, and a tokenizer of it as Python sees one."""

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.c.conftest import SOURCE

__all__ = ["AppTokenizer", "TextError", "build"]


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 252)]


class _Message(ctypes.Structure):
    _fields_ = [("role", ctypes.c_char_p), ("content", ctypes.c_char_p)]


class TextError(Exception):
    """A status that is not `EDGERT_OK`, and its sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def build(folder: Path) -> ctypes.CDLL:
    """The library, which stops at what C leaves undefined."""
    output = folder / "libedgert_text.so"
    sources = [
        str(file)
        for file in sorted(SOURCE.glob("text/*.c"))
        if file.name not in ("answer.c", "model.c", "saved.c")
    ]
    words = ("-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared")
    words += ("-fPIC", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    command = ["cc", *words, f"-I{SOURCE / 'include'}", *sources, "-o", str(output)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(output))


class AppTokenizer:
    """A tokenizer of the attribute `edgec.text.form`; its memory is the process's."""

    def __init__(self, library: ctypes.CDLL, attribute: str) -> None:
        self._c = library
        self._self = ctypes.c_void_p()
        data = attribute.encode()
        self._do("edgert_tokenizer_parse", data, len(data), None, ctypes.byref(self._self))

    def _do(self, name: str, *given: object) -> None:
        error = _Error()
        words = [ctypes.c_size_t(word) if isinstance(word, int) else word for word in given]
        if getattr(self._c, name)(*words, ctypes.byref(error)):
            raise TextError(error.status, error.message.decode())

    def encode(self, text: str | bytes, *, special: bool = False) -> list[int]:
        """The tokens of a text."""
        data = text.encode() if isinstance(text, str) else text
        tokens, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        self._do(
            "edgert_tokenizer_encode",
            *(self._self, data, len(data), ctypes.c_int(special)),
            *(ctypes.byref(tokens), ctypes.byref(count)),
        )
        found = tokens[: count.value]
        self._c.edgert_tokenizer_free(self._self, tokens)
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        given = (ctypes.c_int32 * len(tokens))(*tokens)
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        self._do(
            "edgert_tokenizer_decode",
            *(self._self, given, len(tokens), ctypes.byref(text), ctypes.byref(size)),
        )
        return self._taken(text, size)

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """What a stream makes of each token, and of the end."""
        stream = ctypes.c_void_p()
        self._do("edgert_text_stream_create", self._self, ctypes.byref(stream))
        found = []
        for token in (*tokens, None):
            piece, size = ctypes.c_void_p(), ctypes.c_size_t()
            places = (ctypes.byref(piece), ctypes.byref(size))
            if token is None:
                self._do("edgert_text_stream_end", stream, *places)
            else:
                self._do("edgert_text_stream_add", stream, ctypes.c_int32(token), *places)
            found.append(ctypes.string_at(piece, size.value).decode())
        self._c.edgert_text_stream_release(stream)
        return found

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The prompt of a conversation."""
        given = (_Message * len(messages))(
            *((message["role"].encode(), message["content"].encode()) for message in messages)
        )
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        self._do(
            "edgert_tokenizer_prompt",
            *(self._self, given, len(messages), ctypes.byref(text), ctypes.byref(size)),
        )
        return self._taken(text, size)

    def _taken(self, text: ctypes.c_void_p, size: ctypes.c_size_t) -> str:
        found = ctypes.string_at(text, size.value).decode()
        self._c.edgert_tokenizer_free(self._self, text)
        return found

    def close(self) -> None:
        """Give its memory back."""
        self._c.edgert_tokenizer_release(self._self)
