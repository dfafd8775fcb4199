"""An app of one file around a package's Swift, for Linux, where a Swift compiler is there.

The Swift is that of the package for Apple's systems but for the name of the system that it asks
for; the C behind it is that of the package for C, since kernels for Apple's systems are linked for
those alone.
"""

import shutil
from pathlib import Path

from edgec.packaging import PackageOptions, make_package
from edgec.runtime.manifest import Manifest
from edgec.toolchain import Program
from tests.packaging.conftest import run

__all__ = ["swift_app"]


def swift_app(program: Program, name: str, main: Path, folder: Path) -> tuple[Path, Path]:
    """Make both packages of a model that is called `name`, and compile `main` with them.

    Returns: the program, whose first argument is the folder of the package's resources, and the
    module in there.
    """
    make_package(program, "ios", folder / "ios", PackageOptions(name=name))
    options = PackageOptions(name=name, targets=("cpu",), link=False)
    made = make_package(program, "c", folder / "c", options)
    place, title = folder / "swift", name.capitalize()
    (place / f"C{title}").mkdir(parents=True)
    swift = []
    for file in sorted((folder / f"ios/Sources/{title}").glob("*.swift")):
        swift.append(place / file.name)
        swift[-1].write_text(file.read_text().replace("#if os(macOS)", "#if os(Linux)"))
    assert "#if os(Linux)" in (place / f"{title}.swift").read_text()
    shutil.copy(main, place / "main.swift")
    for file in (folder / f"ios/Sources/C{title}/include").iterdir():
        shutil.copy(file, place / f"C{title}" / file.name)
    shutil.copy(folder / "c" / f"{name}.h", place / f"C{title}" / f"{name}.h")
    objects = []
    for file in [*folder.glob("c/*.[cS]"), *folder.glob("c/edgert/*.c")]:
        if file.name == "main.c":
            continue
        objects.append(place / f"{file.name}.o")
        run(
            *("cc", "-std=c11", "-O1", "-D_POSIX_C_SOURCE=200809L", "-DEDGERT_WITH_SIGNATURES=1"),
            *(f"-I{place / f'C{title}'}", "-c", file, "-o", objects[-1]),
            cwd=folder / "c",
        )
    run(
        *("swiftc", "-warnings-as-errors", "-I", place, place / "main.swift", *swift, *objects),
        *("-lm", "-o", place / "app"),
    )
    (place / "Modules").mkdir()
    (variant,) = Manifest.read(folder / "c").variants
    assert made.manifest.variants[0].file == variant.file
    module = place / f"Modules/{name}.cpu-apple-arm64.vmfb"
    shutil.copy(folder / "c" / variant.file, module)
    return place / "app", module
