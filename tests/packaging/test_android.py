"""The Android package's Java and C, compiled and run on this machine's JVM."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec import runtime
from edgec.packaging import KINDS, PackageOptions, make_package
from edgec.packaging.making import targets_of
from edgec.runtime.errors import TargetError
from edgec.runtime.signature import Dim, TensorSpec
from edgec.toolchain import Program, load_program
from tests.packaging.conftest import need, run
from tests.packaging.odd import ODD

HERE = Path(__file__).parent / "java"
HEAP = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xcheck:jni")


@pytest.fixture(scope="module")
def package(digits: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("android") / "digits-android"
    options = PackageOptions(targets=("cpu:x86-64", "cpu:armv7"))
    make_package(digits, "android", place, options)
    return place


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "odd.mlir").write_text(ODD)
    program = _with_bounds(load_program(folder / "odd.mlir"), 1, 8)
    make_package(program, "android", folder / "made", PackageOptions(targets=("cpu:x86-64",)))
    return folder / "made"


def _with_bounds(program: Program, least: int, most: int) -> Program:
    """The program with this range for each size that is chosen at a call."""

    def bounded(spec: TensorSpec) -> TensorSpec:
        shape = (
            replace(s, minimum=least, maximum=most) if isinstance(s, Dim) else s for s in spec.shape
        )
        return replace(spec, shape=tuple(shape))

    functions = tuple(
        replace(
            function,
            signature=replace(
                function.signature,
                inputs=tuple(map(bounded, function.signature.inputs)),
                outputs=tuple(map(bounded, function.signature.outputs)),
            ),
        )
        for function in program.info.functions
    )
    return replace(program, info=replace(program.info, functions=functions))


@pytest.fixture(scope="module")
def java(package: Path, odd: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The command that runs a check: everything of both packages compiled by javac and CMake."""
    need("javac", "java", "cmake", "ninja")
    folder = tmp_path_factory.mktemp("java")
    sources = [*package.glob("src/main/java/**/*.java"), *HERE.glob("**/*.java")]
    sources += odd.glob("src/main/java/dev/edgec/models/**/*.java")
    run("javac", "-Xlint:all", "-Werror", "--release", "9", "-d", folder / "classes", *sources)
    run(
        *("cmake", "-G", "Ninja", "-S", package / "src/main/cpp", "-B", folder / "native"),
        "-DCMAKE_BUILD_TYPE=Debug",
    )
    run("cmake", "--build", folder / "native")
    library = folder / "native" / "libedgec_jni.so"
    return (
        *("java", *HEAP, f"-Ddev.edgec.library={library}", "-cp", str(folder / "classes")),
        "Check",
    )


def test_without_a_variant_for_gpus_their_driver_is_not_built(java: tuple[str, ...]) -> None:
    (option,) = (word for word in java if word.startswith("-Ddev.edgec.library="))
    cache = Path(option.partition("=")[2]).with_name("CMakeCache.txt").read_text()
    assert "EDGERT_WITH_VULKAN:BOOL=OFF" in cache


def test_typed_java_answers_as_the_reference_runtime(
    java: tuple[str, ...], package: Path, images: np.ndarray, tmp_path: Path
) -> None:
    images.tofile(tmp_path / "images.bin")
    said = run(*java, "answers", package / "src/main/assets/digits", tmp_path / "images.bin")
    target, *lines = [line for line in said.splitlines() if not line.startswith("WARNING")]
    assert target == "cpu:x86-64"
    assert lines.pop() == "done"
    assert len(lines) == len(images)
    with runtime.load(package) as model:
        for line, image in zip(lines, images, strict=True):
            label, scores = line.split(" ", 1)
            expected = model.main(image[None])
            assert int(label) == expected["label"]
            np.testing.assert_allclose(
                np.array(re.findall(r"[-\d.eE]+", scores), np.float32),
                expected["scores"][0],
                rtol=1e-5,
                atol=1e-5,
            )


@pytest.mark.parametrize("check", ["odd", "buffers", "sizes"])
def test_java(java: tuple[str, ...], odd: Path, check: str) -> None:
    assert run(*java, check, odd / "src/main/assets/odd").endswith("done\n")


def test_hardware_buffers_fill_tensors(java: tuple[str, ...], odd: Path, tmp_path: Path) -> None:
    """On a library in place of Android's; where there is none, they are refused."""
    folder = odd / "src/main/assets/odd"
    assert run(*java, "without", folder).endswith("done\n")
    compiler = shutil.which("javac")
    headers = Path(compiler or "").resolve().parents[1] / "include"
    system = next(each.parent for each in headers.glob("*/jni_md.h"))
    for name in ("libandroid.so", "libnativewindow.so"):
        run(
            *("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"),
            *(f"-I{headers}", f"-I{system}", HERE.with_name("fake_android.c")),
            *("-o", tmp_path / name),
        )
    there = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    assert run(*java, "hardware", folder, env=there).endswith("done\n")


def test_names_hold_any_letter(java: tuple[str, ...], odd: Path, tmp_path: Path) -> None:
    """JNI gives letters such as faces in a form of its own, which no file is named in."""
    folder = tmp_path / "Stra\u00dfe \U0001f642"
    shutil.copytree(odd / "src/main/assets/odd", folder)
    assert run(*java, "names", folder, env=os.environ | {"LC_ALL": "C.UTF-8"}).endswith("done\n")


def test_failures_are_exceptions(java: tuple[str, ...], odd: Path, package: Path) -> None:
    foreign = package / "src/main/assets/digits/digits.cpu-armv7.vmfb"
    assert run(*java, "refusals", odd, foreign).endswith("done\n")


def test_a_hundred_thousand_calls_leak_nothing(java: tuple[str, ...], odd: Path) -> None:
    words = [word for word in java if word != "-Xcheck:jni"]
    assert run(*words, "leaks", odd, "100000").endswith("done\n")


@pytest.mark.skipif(shutil.which("kotlinc") is None, reason="no kotlinc on the PATH")
def test_kotlin_answers_as_the_reference_runtime(
    java: tuple[str, ...], package: Path, odd: Path, tmp_path: Path
) -> None:
    classes = java[java.index("-cp") + 1]
    sources = [f for root in (package, odd) for f in root.glob("src/main/kotlin/**/*.kt")]
    use = HERE.with_name("kotlin") / "Use.kt"
    run(
        "kotlinc",
        "-Werror",
        "-include-runtime",
        "-cp",
        classes,
        *sources,
        use,
        "-d",
        "k.jar",
        cwd=tmp_path,
    )
    command = [*java[:-1], "UseKt"]
    command[command.index(classes)] = f"{classes}:{tmp_path / 'k.jar'}"
    label, *scores = run(*command, package / "src/main/assets").split()
    with runtime.load(package) as model:
        expected = model.main(np.zeros((1, 8, 8), np.float32))
    assert int(label) == expected["label"]
    np.testing.assert_allclose(
        np.array(scores, np.float32), expected["scores"][0], rtol=1e-5, atol=1e-5
    )


def test_kotlin_names_what_java_has(package: Path) -> None:
    (kotlin,) = package.glob("src/main/kotlin/**/*.kt")
    text = kotlin.read_text()
    assert "fun Context.openDigits(" in text
    java = (package / "src/main/java/dev/edgec/models/digits/Digits.java").read_text()
    for kind, field in re.findall(r"component\d\(\): (\w+)Array = (\w+)", text):
        assert f"public final {kind.lower()}[] {field};" in java
    assert len(re.findall("operator fun", text)) == 2


def test_gradle_builds_what_the_manifest_lists(package: Path) -> None:
    gradle = (package / "build.gradle.kts").read_text()
    assert 'abiFilters += listOf("x86_64", "armeabi-v7a")' in gradle
    # The Android Gradle plugin 9 compiles Kotlin itself, and refuses both of these.
    code = re.sub(r"//.*", "", gradle)
    assert re.findall(r'id\("([^"]+)"\)', code) == ["com.android.library"]
    assert "kotlinOptions" not in code
    assert 'noCompress += listOf("vmfb", "safetensors")' in gradle
    assert "max-page-size=16384" in (package / "src/main/cpp/CMakeLists.txt").read_text()
    assert len((package / "README.md").read_text().splitlines()) <= 12


def test_a_processor_that_android_has_not_is_refused() -> None:
    with pytest.raises(TargetError, match="android does not run on cpu:riscv64"):
        targets_of(KINDS["android"], ["cpu:riscv64"])
