"""The sources of the runtimes for other languages are found in a checkout and in a wheel."""

from pathlib import Path

import pytest

from edgec.runtime.errors import FileError
from edgec.toolchain import sources


def test_a_checkout_has_them_beside_the_package() -> None:
    assert (sources.runtime_sources("c") / "amalgamate.py").is_file()
    assert (sources.runtime_sources("java") / "src/main/cpp/edgec_jni.c").is_file()


def test_a_wheel_has_them_inside_and_nothing_beside_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "site-packages" / "edgec" / "toolchain"
    (home / "sources" / "c").mkdir(parents=True)
    (tmp_path / "site-packages" / "java").mkdir()
    monkeypatch.setattr(sources, "_HERE", home)
    assert sources.runtime_sources("c") == home / "sources" / "c"
    with pytest.raises(FileError, match="no sources of runtime/java"):
        sources.runtime_sources("java")
