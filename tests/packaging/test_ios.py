"""The iOS package, as far as it can be built here: its C for macOS, its libraries and lists."""

import plistlib
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgec.packaging import KINDS, PackageOptions, make_package
from edgec.packaging.apple_archive import static_library
from edgec.packaging.making import targets_of
from edgec.runtime import Module
from edgec.runtime.errors import TargetError
from edgec.toolchain import CompileOptions, Program, load_program
from tests.exporters import one_language_model
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


TEXT_MAIN = """
#include "tiny.h"
static int say(void *user, const char *piece, size_t size) { return user && piece && size; }
int main(int count, char **files) {
  const edgert_text_message question = {"user", "What?"};
  edgert_error error;
  edgert_text_model *text = NULL;
  tiny *model;
  if (count < 2 || tiny_open_signed(files[1], NULL, NULL, &model, &error) ||
      tiny_text(model, &text, &error) ||
      edgert_text_chat(text, &question, 1, NULL, say, NULL, NULL, &error))
    return 1;
  edgert_text_model_release(text);
  return 0;
}
"""


@pytest.fixture(scope="module")
def package(digits: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ios") / "digits-ios"
    make_package(digits, "ios", place)
    return place


def link_for_macos(package: Path, main: str, folder: Path) -> None:
    """Link a program with all C sources and the kernels of a package, as `Package.swift` says."""
    pytest.importorskip("ziglang")
    (folder / "main.c").write_text(main)
    (kernels,) = package.glob("*.xcframework/macos-arm64/*.a")
    (home,) = package.glob("Sources/C*")
    settings = re.findall(r'define\("(\w+)", to: "(\d)"\)', (package / "Package.swift").read_text())
    assert ("EDGERT_WITH_SIGNATURES", "1") in settings
    defined = [f"-D{name}={value}" for name, value in settings]
    run(
        *(sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-macos", "-std=c11", "-O1"),
        *("-w", *defined, "-Iinclude", folder / "main.c", *sorted(home.glob("*.c"))),
        *(kernels, "-o", folder / "program"),
        cwd=home,
    )
    magic, processor, _, kind = struct.unpack("<4I", (folder / "program").read_bytes()[:16])
    assert (magic, processor, kind) == (0xFEEDFACF, 0x0100000C, 2)  # an arm64 program


@pytest.mark.slow
def test_the_c_and_the_kernels_are_linked_for_macos(package: Path, tmp_path: Path) -> None:
    link_for_macos(package, MAIN, tmp_path)


@pytest.mark.slow
def test_a_language_model_is_linked_for_macos_with_what_writes_text(tmp_path: Path) -> None:
    options = PackageOptions(
        name="tiny",
        targets=("cpu:apple-arm64",),
        compiling=CompileOptions(level=1, check=False),
    )
    place = tmp_path / "tiny-ios"
    make_package(load_program(one_language_model.program()), "ios", place, options)
    link_for_macos(place, TEXT_MAIN, tmp_path)
    swift = (place / "Sources/Tiny/TinyText.swift").read_text()
    assert "public init(_ model: Tiny) throws" in swift
    assert "try TinyText()" in (place / "README.md").read_text()


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
    # A model without a tokenizer has none of what writes text.
    assert not list(package.rglob("*[tT]ext*"))


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
