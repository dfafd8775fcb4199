"""The Android app: all its Java compiled, and digits read with it on this machine's JVM."""

import shutil
from functools import partial
from pathlib import Path

from benchmarks.web.handwriting import STROKES
from tests.c.conftest import run
from tests.packaging.conftest import need

HERE = Path(__file__).parent / "android"
STUBS = Path(__file__).parents[1] / "packaging" / "java" / "android"
_run = partial(run, timeout=300)


def test_the_app_compiles_and_reads_digits(command, root: Path, tmp_path: Path) -> None:
    need("javac", "java", "cc")
    project = tmp_path / "project"
    options = ("--target=cpu:x86-64", "--no-check")
    command("python", root / "samples/android_digits/build.py", project, *options)
    assert 'include(":app", ":digits")' in (project / "settings.gradle.kts").read_text()
    sources = [
        *(project / "app").rglob("*.java"),
        *(project / "digits").rglob("*.java"),
        *(*HERE.rglob("*.java"), *STUBS.rglob("*.java")),
    ]
    classes, library = tmp_path / "classes", tmp_path / "libedgec_jni.so"
    _run("javac", "-Xlint:all", "-Werror", "--release", "9", "-d", classes, *sources)
    headers = Path(shutil.which("javac") or "").resolve().parents[1] / "include"
    native = project / "digits/src/main/cpp"
    _run(
        *("cc", "-std=c11", "-O1", "-w", "-shared", "-fPIC", f"-I{headers}", f"-I{headers}/linux"),
        *("-Iedgert", "edgec_jni.c", "edgert/edgert.c", "-lpthread", "-lm", "-o", library),
        cwd=native,
    )
    drawings = tmp_path / "drawings.txt"
    drawings.write_text(
        "\n".join(
            " | ".join(" ".join(f"{x:.3f} {y:.3f}" for x, y in stroke) for stroke in STROKES[digit])
            for digit in range(10)
        )
    )
    said = _run(
        *("java", f"-Ddev.edgec.library={library}", "-cp", classes),
        *("dev.edgec.samples.digits.Read", project / "digits/src/main/assets/digits", drawings),
    )
    empty, *found = map(int, said.split())
    assert empty == -1
    assert sum(digit == read for digit, read in enumerate(found)) >= 9, found
