"""The iOS package, as far as it can be built here: its C for macOS, its libraries and lists."""

import plistlib
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgec.packaging import KINDS, make_package
from edgec.packaging.apple_archive import static_library
from edgec.packaging.making import targets_of
from edgec.runtime import Module
from edgec.runtime.errors import TargetError
from edgec.toolchain import Program
from tests.packaging.conftest import run

MAIN = """
#include <stdio.h>
#include "digits.h"
int main(int count, char **files) {
  static float image[64];
  int32_t label[1];
  float scores[10];
  edgert_error error;
  digits *model;
  if (count < 2 || digits_open_signed(files[1], NULL, NULL, &model, &error) ||
      digits_main(model, image, label, scores, &error))
    return 1;
  printf("%d\\n", label[0]);
  return 0;
}
"""


@pytest.fixture(scope="module")
def package(digits: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ios") / "digits-ios"
    make_package(digits, "ios", place)
    return place


@pytest.mark.slow
def test_the_c_and_the_kernels_are_linked_for_macos(package: Path, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    (tmp_path / "main.c").write_text(MAIN)
    kernels = package / "DigitsKernels.xcframework/macos-arm64/libDigitsKernels.a"
    settings = re.findall(r'define\("(\w+)", to: "(\d)"\)', (package / "Package.swift").read_text())
    assert ("EDGERT_WITH_SIGNATURES", "1") in settings
    defined = [f"-D{name}={value}" for name, value in settings]
    run(
        *(sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-macos", "-std=c11", "-O1"),
        *("-w", *defined, "-Iinclude", tmp_path / "main.c", "digits.c", "edgert.c"),
        *(kernels, "-o", tmp_path / "digits"),
        cwd=package / "Sources/CDigits",
    )
    magic, processor, _, kind = struct.unpack("<4I", (tmp_path / "digits").read_bytes()[:16])
    assert (magic, processor, kind) == (0xFEEDFACF, 0x0100000C, 2)  # an arm64 program


def test_each_system_has_the_kernels_of_its_module(package: Path) -> None:
    framework = package / "DigitsKernels.xcframework"
    libraries = plistlib.loads((framework / "Info.plist").read_bytes())["AvailableLibraries"]
    assert {lib["SupportedPlatform"] for lib in libraries} == {"ios", "macos"}
    code = (package / "Sources/CDigits/digits.c").read_text()
    for library in libraries:
        file = framework / library["LibraryIdentifier"] / library["LibraryPath"]
        (symbol,) = set(re.findall(rb"_(edgec_[0-9a-f]+)\0", file.read_bytes()))
        assert code.count(symbol.decode()) == 2
    swift = (package / "Sources/Digits/Digits.swift").read_text()
    for name in re.findall(r'let file = "(.*)"', swift):
        module = Module.read(package / "Sources/Digits/Modules" / f"{name}.vmfb")
        assert module.formats == ("static",)
    assert "public func main(images: [Float]) throws -> (label: [Int32], scores: [Float])" in swift
    assert "init(threads: Int = 0, key: [UInt8]? = nil) throws" in swift
    assert len((package / "README.md").read_text().splitlines()) <= 12


def test_the_archive_is_one_that_ar_reads(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    rng = np.random.default_rng(0)
    for size in (1, 8, 801):
        data = rng.bytes(size)
        (tmp_path / "x.a").write_bytes(static_library("kernels.o", data, "query"))
        command = (sys.executable, "-m", "ziglang", "ar")
        assert "kernels.o" in run(*command, "t", tmp_path / "x.a")
        done = subprocess.run(
            [*command, "p", tmp_path / "x.a", "kernels.o"], capture_output=True, check=True
        )
        assert done.stdout == data


@pytest.mark.parametrize("name", ["cpu:x86-64", "cpu:arm64", "cpu"])
def test_only_apples_systems_are_packaged_for_ios(name: str) -> None:
    with pytest.raises(TargetError, match="a package for ios does not run on"):
        targets_of(KINDS["ios"], [name])
