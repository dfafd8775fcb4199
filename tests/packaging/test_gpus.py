"""Packages with a variant for GPUs: taken where it is right, else passed over with a reason."""

import json
import os
import re
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest

from edgec import runtime
from edgec.packaging import PackageOptions, make_package
from edgec.runtime import Manifest
from edgec.runtime.manifest import MANIFEST, shared_file
from edgec.runtime.vmfb import parse
from edgec.toolchain import Program
from tests.packaging.conftest import need, run

pytestmark = pytest.mark.vulkan

HERE = Path(__file__).parent / "java"
TARGETS = ("vulkan:android", "cpu:x86-64")
IMAGE = (np.arange(64) % 17).astype(np.float32).reshape(1, 8, 8)
NOWHERE = {"VK_DRIVER_FILES": "/none", "VK_ICD_FILENAMES": "/none"}


@pytest.fixture(scope="module")
def package(digits: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("gpus") / "digits-android"
    make_package(digits, "android", place, PackageOptions(targets=TARGETS))
    return place


@pytest.fixture(scope="module")
def java(package: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The command that loads the package as it is told to."""
    need("javac", "java", "cmake", "ninja")
    folder = tmp_path_factory.mktemp("java")
    sources = [
        *package.glob("src/main/java/dev/edgec/*.java"),
        *package.glob("src/main/java/dev/edgec/models/**/*.java"),
        HERE / "Devices.java",
    ]
    run("javac", "-Xlint:all", "-Werror", "--release", "9", "-d", folder / "classes", *sources)
    cpp = package / "src/main/cpp"
    run("cmake", "-G", "Ninja", "-S", cpp, "-B", folder / "native", "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", folder / "native")
    library = folder / "native" / "libedgec_jni.so"
    heap = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xcheck:jni")
    return ("java", *heap, f"-Ddev.edgec.library={library}", "-cp", f"{folder}/classes", "Devices")


def _asked(java: tuple[str, ...], folder: Path, device: str, verdicts: Path, **env: str) -> str:
    return run(*java, folder, device, verdicts, env=os.environ | env)


def _scores(said: str) -> np.ndarray:
    lines = [line for line in said.splitlines() if line.startswith("scores")]
    found = np.array([re.findall(r"[-\d.eE]+", line[7:]) for line in lines], np.float32)
    assert len(found) == 3
    assert (found == found[0]).all()
    return found[0]


def test_the_manifest_lists_the_gpu_first(package: Path) -> None:
    first, second = Manifest.read(package).variants
    assert (first.needs.device, first.needs.isa) == ("vulkan", "")
    assert (second.needs.device, second.needs.isa) == ("cpu", "x86_64")
    assert 'abiFilters += listOf("x86_64")' in (package / "build.gradle.kts").read_text()


@pytest.mark.parametrize("device, target", [("AUTO", 0), ("GPU", 0), ("CPU", 1)])
def test_java_computes_on_the_device_that_is_chosen(
    java: tuple[str, ...], package: Path, tmp_path: Path, device: str, target: int
) -> None:
    assets = package / "src/main/assets/digits"
    said = _asked(java, assets, device, tmp_path / "verdicts")
    assert f"target {TARGETS[target]}\n" in said
    with runtime.load(package, device="cpu") as model:
        expected = model.main(IMAGE)["scores"][0]
    np.testing.assert_allclose(_scores(said), expected, rtol=1e-4, atol=1e-4)
    if target:
        assert "device cpu\n" in said
        reason = "it is for a GPU, and a CPU was asked for"
        assert f"passed over vulkan:android: {reason}\n" in said
        assert not (tmp_path / "verdicts").exists()  # nothing was to be proved
    else:
        assert "passed over" not in said
        assert (tmp_path / "verdicts").read_text().endswith(" right\n")


def test_without_a_gpu_java_says_why_and_takes_the_next(
    java: tuple[str, ...], package: Path, tmp_path: Path
) -> None:
    assets = package / "src/main/assets/digits"
    said = _asked(java, assets, "AUTO", tmp_path / "verdicts", **NOWHERE)
    assert "target cpu:x86-64\n" in said
    assert re.search(r"passed over vulkan:android: .*Vulkan", said)
    said = _asked(java, assets, "GPU", tmp_path / "verdicts", **NOWHERE)
    assert re.search(r"failed -5 no variant fits this device: vulkan:android: .*; cpu:x86-64", said)


@pytest.fixture(scope="module")
def faulty(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with one weight of the GPU's variant changed, its sums and hashes made right."""
    folder = tmp_path_factory.mktemp("faulty") / "digits"
    shutil.copytree(package / "src/main/assets/digits", folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    path = folder / manifest["variants"][0]["file"]
    data = bytearray(path.read_bytes())
    archive = parse(memoryview(bytes(data)), str(path)).archive
    largest = max(archive[1:] or archive, key=lambda entry: entry.size)
    middle = largest.offset + largest.size // 2 // 4 * 4
    data[middle : middle + 256] = np.full(64, 3, np.float32).tobytes()
    for entry in archive:
        total = zlib.crc32(data[entry.offset : entry.offset + entry.size])
        for place in entry.checksum_offsets:
            data[place : place + 4] = total.to_bytes(4, "little")
    path.write_bytes(data)
    manifest["variants"][0] |= shared_file(path, path.name).to_json()
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


def test_a_variant_that_computes_wrongly_is_passed_over(
    java: tuple[str, ...], faulty: Path, tmp_path: Path
) -> None:
    for said_before in ("", r" \(found before\)"):
        said = _asked(java, faulty, "AUTO", tmp_path / "verdicts")
        assert "target cpu:x86-64\n" in said
        # Which output says so first is a matter of which weight the fault is in.
        wrong = r"\w+ \(output [01]\) of main is wrong: .* is .* and should be [-\d.e]+"
        assert re.search(f"passed over vulkan:android: {wrong}{said_before}\n", said), said
    with runtime.load(faulty, prove=True) as model:
        assert model.module.facts.target == "cpu:x86-64"


def test_c_takes_the_gpu_where_it_proves_itself(digits: Program, tmp_path: Path) -> None:
    need("cc")
    options = PackageOptions(targets=TARGETS)
    made = make_package(digits, "c", tmp_path / "made", options).folder
    (tmp_path / "main.c").write_text(
        '#include "digits.h"\n#include <stdio.h>\nint main(int count, char **words) {\n'
        '  edgert_error error = {EDGERT_OK, ""};\n  digits *model;\n'
        "  if (digits_open_proved(words[count - 1], NULL, &model, &error))\n"
        "    return puts(error.message), 1;\n  puts(digits_variant(model));\n"
        "  digits_close(model);\n  return 0;\n}\n"
    )
    run(
        *("cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-DEDGERT_WITH_VULKAN=1"),
        *("-I.", "-Iedgert", "digits.c", "digits_modules.S", "edgert/edgert.c"),
        *(tmp_path / "main.c", "-lpthread", "-lm", "-ldl", "-o", tmp_path / "main"),
        cwd=made,
    )
    kept = tmp_path / "verdicts"
    for env, target in (({}, TARGETS[0]), ({}, TARGETS[0]), (NOWHERE, TARGETS[1])):
        assert run(tmp_path / "main", kept, env=os.environ | env) == f"{target}\n"
    assert [line.split()[1] for line in kept.read_text().splitlines()] == ["right"] * 2
