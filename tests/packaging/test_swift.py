"""The Swift of Apple's packages, compiled and run on Linux, where a Swift compiler is there.

The binding is the package's own but for the name of the system that it asks for; the C behind it is
that of the package for C, since kernels for Apple's systems are linked for those alone.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from edgec.packaging import PackageOptions, make_package
from edgec.runtime.manifest import Manifest
from edgec.signing import new_key, sign_module
from edgec.toolchain import Program
from tests.packaging.conftest import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("swiftc") is None, reason="no swiftc: Debian 12 has none"),
]
MAIN = """
import CDigits
import Foundation

extension Bundle { static let module = Bundle(path: CommandLine.arguments[1])! }

let digits = Array(CommandLine.arguments[2].utf8)
let key = stride(from: 0, to: digits.count, by: 2).map {
    UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)!
}
let image = CommandLine.arguments[3].split(separator: ",").map { Float($0)! }
do {
    let model = try Digits(threads: 1, key: key.isEmpty ? nil : key)
    try model.prove()
    let found = try model.main(images: image)
    print(found.label[0], found.scores.map { String($0) }.joined(separator: " "))
} catch let error as DigitsError {
    print(error.status == EDGERT_UNTRUSTED.rawValue ? "untrusted:" : "failed:", error)
}
"""


@pytest.fixture(scope="module")
def app(digits: Program, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program around the package's Swift, and the module in its resources."""
    folder = tmp_path_factory.mktemp("swift")
    make_package(digits, "ios", folder / "ios")
    options = PackageOptions(targets=("cpu",), link=False)
    made = make_package(digits, "c", folder / "c", options)
    swift = (folder / "ios/Sources/Digits/Digits.swift").read_text()
    here = swift.replace("#if os(macOS)", "#if os(Linux)")
    assert here != swift
    place = folder / "swift"
    (place / "CDigits").mkdir(parents=True)
    (place / "Digits.swift").write_text(here)
    (place / "main.swift").write_text(MAIN)
    for name in ("digits.h", "edgert.h"):
        shutil.copy(next((folder / "c").rglob(name)), place / "CDigits" / name)
    map_file = folder / "ios/Sources/CDigits/include/module.modulemap"
    shutil.copy(map_file, place / "CDigits" / map_file.name)
    objects = []
    for name in ("digits.c", "edgert.c", "digits_modules.S"):
        objects.append(place / f"{name}.o")
        source = next((folder / "c").rglob(name))
        run(
            *("cc", "-std=c11", "-O1", "-D_POSIX_C_SOURCE=200809L", "-DEDGERT_WITH_SIGNATURES=1"),
            *(f"-I{place / 'CDigits'}", "-c", source, "-o", objects[-1]),
            cwd=folder / "c",
        )
    run(
        *("swiftc", "-I", place, place / "main.swift", place / "Digits.swift", *objects),
        *("-lm", "-o", place / "app"),
    )
    (place / "Modules").mkdir()
    (variant,) = Manifest.read(folder / "c").variants
    assert made.manifest.variants[0].file == variant.file
    shutil.copy(folder / "c" / variant.file, place / "Modules/digits.cpu-apple-arm64.vmfb")
    return place / "app", place / "Modules/digits.cpu-apple-arm64.vmfb"


def test_swift_gives_the_frameworks_answers_and_refuses_what_is_not_signed(
    app: tuple[Path, Path], digits: Program, tmp_path: Path
) -> None:
    program, module = app
    (call, *_) = digits.golden.calls if digits.golden is not None else ()
    image = ",".join(str(number) for number in call.inputs[0].ravel())

    def said(key: str) -> str:
        return run(program, module.parents[1], key, image).strip()

    def check_answers(text: str) -> None:
        label, *scores = text.split()
        assert int(label) == call.outputs[0].ravel()[0]
        expected = call.outputs[1].ravel()
        np.testing.assert_allclose(np.array(scores, np.float32), expected, rtol=1e-4, atol=1e-4)

    own, other = (new_key(tmp_path / f"{name}.key") for name in ("own", "other"))
    check_answers(said(""))
    assert said(own.public.hex()).startswith("untrusted:")
    sign_module(module, own, module)
    check_answers(said(own.public.hex()))
    assert "another key" in said(other.public.hex())
    data = module.read_bytes()
    for place in range(0, len(data), len(data) // 50):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        module.write_bytes(changed)
        assert said(own.public.hex()).startswith("untrusted:")
    module.write_bytes(data)
