import errno
import os
import sys
from pathlib import Path

import pytest

from edgec.ondevice.edgert_command import edgert_command
from edgec.ondevice.machines import by_kernel
from edgec.runtime.errors import FileError, MissingExtra
from edgec.toolchain.cache import CACHE_VARIABLE

ARM = by_kernel("aarch64")
assert ARM is not None


def test_without_ziglang_the_extra_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with pytest.raises(MissingExtra, match="ziglang") as caught:
        edgert_command(ARM, lambda text: None)
    assert "edgec[web]" in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("ziglang")
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    with pytest.raises(FileError, match="cannot keep edgert"):
        edgert_command(ARM, lambda text: None)


def test_a_full_cache_is_said_before_anything_is_built(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("ziglang")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))

    def full(**given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(FileError, match=f"no space is left in {tmp_path}") as caught:
        edgert_command(ARM, lambda text: None)
    assert "EDGEC_CACHE_DIR" in (caught.value.hint or "")
