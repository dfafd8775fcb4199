"""Java asks for a key, too: the library is built as a package that was signed builds it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgec.signing import PrivateKey
from tests.signing.conftest import V, flipped

pytestmark = pytest.mark.slow  # a C library and Java's compiler
ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "runtime" / "java" / "src" / "main"


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    for tool in ("javac", "java", "cmake", "ninja"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}: run scripts/setup")
    folder = tmp_path_factory.mktemp("java")
    files = [*SOURCES.glob("java/**/*.java"), Path(__file__).parent / "java" / "Signed.java"]
    _run("javac", "--release", "9", "-d", folder / "classes", *files)
    edgert = folder / "package" / "edgert"
    _run(sys.executable, ROOT / "runtime" / "c" / "amalgamate.py", edgert)
    inside = folder / "package" / "src" / "main"
    shutil.copytree(SOURCES / "cpp", inside / "cpp")
    (folder / "package" / "edgec.seal").touch()
    words = ("-G", "Ninja", "-S", inside / "cpp", "-B", folder / "native")
    _run("cmake", *words, f"-DEDGERT_FOLDER={edgert}")
    _run("cmake", "--build", folder / "native")
    library = folder / "native" / "libedgec_jni.so"
    return ("java", f"-Ddev.edgec.library={library}", "-cp", str(folder / "classes"), "Signed")


def _run(*command: str | Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout.strip()


def test_what_is_not_as_it_was_signed_is_refused(
    java: tuple[str, ...], signed: Path, keys: tuple[PrivateKey, PrivateKey]
) -> None:
    own, other = (key.public.hex() for key in keys)
    assert _run(*java, signed, own).splitlines()[-1] == str(V.size)
    assert "UNTRUSTED not trusted: another key" in _run(*java, signed, other)
    weights = signed.with_suffix(".safetensors")
    data = weights.read_bytes()
    weights.write_bytes(flipped(data, 8 * 300_000))
    assert "UNTRUSTED not trusted: its weights have changed" in _run(*java, signed, own)
    weights.write_bytes(data)
    module = signed.read_bytes()
    signed.write_bytes(flipped(module, 8 * 2000))
    assert "UNTRUSTED not trusted: it has changed" in _run(*java, signed, own)
