"""The iOS app: its folder is made, and it calls what the package's Swift class has."""

import re
from pathlib import Path


def test_the_app_calls_what_the_package_has(command, root: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    command("python", root / "samples/ios_digits/build.py", project, "--no-check")
    package = (project / "digits/Package.swift").read_text()
    app = project / "app.swiftpm"
    manifest = (app / "Package.swift").read_text()
    product, folder = re.findall(r'package\(name: "(\w+)", path: "([^"]+)"\)', manifest)[0]
    assert (app / folder / "Package.swift").resolve() == project / "digits/Package.swift"
    assert f'.library(name: "{product}"' in package
    swift = (project / f"digits/Sources/{product}/{product}.swift").read_text()
    ink = (app / "Sources/Ink.swift").read_text()
    # The name, the label and the type of each argument; and that failures are thrown.
    assert "public func main(image: [Float]) throws -> [Float]" in swift
    assert "try model.main(image: image())" in ink
    assert "func image() -> [Float]" in ink
    assert "public init(threads: Int = 0, key: [UInt8]? = nil) throws" in swift
    for file in (app / "Sources").glob("*.swift"):
        assert f"import {product}" in file.read_text() or file.stem == "Sheet"
        assert "fatalError" not in file.read_text()
        assert "try!" not in file.read_text()
