"""A model and a kind of package to what it adds to an app: bytes of runtime and of model.

Each package is built for one device, stripped and for size (`-Os`). What a program of the same
compiler takes that does nothing is subtracted. Compressed is as an APK or a download is (deflate).
Kernels that an app links are weighed with the model, as the object files that they are. The runtime
of a language model's package has edgert_text in it.
"""

import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.packaging import KINDS, PackageOptions, make_package
from edgec.toolchain import Program

__all__ = ["ROWS", "Measured", "Row", "Size", "called_by", "measure"]

ZIG = (sys.executable, "-m", "ziglang", "cc")
SMALL = ("-std=c11", "-Os", "-w", "-ffunction-sections", "-fdata-sections")
STRIPPED = ("-Wl,--gc-sections", "-s")
ANDROID = (
    # As the package's CMakeLists has it. The driver takes -Oz for -Os; clang itself does not.
    # The driver would link mathematics of its own, which Android has in its C library.
    *("-Oz", "-Xclang", "-Oz", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"),
    *("-fno-math-errno", "-nostdlib", "-Wl,--hash-style=gnu", "-Wl,-z,max-page-size=16384"),
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """Bytes as they are, and compressed."""

    plain: int
    packed: int

    @classmethod
    def of(cls, *parts: bytes) -> "Size":
        return cls(
            plain=sum(map(len, parts)), packed=sum(len(zlib.compress(part, 9)) for part in parts)
        )

    def less(self, other: "Size") -> "Size":
        return Size(plain=self.plain - other.plain, packed=self.packed - other.packed)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One package: its kind, device, and how the runtime in it is built and measured."""

    label: str
    kind: str
    target: str
    runtime: Callable[[Path, str, Path], Size]
    link: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one package of one model adds."""

    runtime: Size
    model: Size


def measure(program: Program, row: Row, name: str, folder: Path) -> Measured:
    """Make the package, build its runtime, and weigh both."""
    place = folder / "package"
    shutil.rmtree(place, ignore_errors=True)
    options = PackageOptions(targets=(row.target,), name=name, link=row.link)
    make_package(program, row.kind, place, options)
    kinds = ("*.vmfb", "*.safetensors", "*.a", "*.o")
    modules = [file.read_bytes() for kind in kinds for file in place.rglob(kind)]
    return Measured(runtime=row.runtime(place, name, folder), model=Size.of(*modules))


def _program(compiler: Sequence[str], flags: Sequence[str]) -> Callable[[Path, str, Path], Size]:
    """The runtime in a C package: its program without the kernels and the modules."""

    def weigh(package: Path, name: str, folder: Path) -> Size:
        # The modules are weighed apart, so an empty file stands for each.
        for module in package.rglob("*.vmfb"):
            module.write_bytes(b"")
        empty = folder / "empty.c"
        empty.write_text("int main(void) { return 0; }\n")
        kernels = _no_kernels(package / f"{name}.c", folder)
        without = ["-DEDGERT_WITH_ELF=0"] if kernels else []
        _run(
            *(*compiler, *SMALL, *without, "-I.", "-Iedgert", f"{name}.c", f"{name}_modules.S"),
            *("main.c", *_sources(package / "edgert"), *kernels, *flags, "-o", folder / "full"),
            folder=package,
        )
        _run(*compiler, *SMALL, empty, *flags, "-o", folder / "nothing", folder=package)
        full = Size.of((folder / "full").read_bytes())
        return full.less(Size.of((folder / "nothing").read_bytes()))

    return weigh


def _no_kernels(code: Path, folder: Path) -> list[Path]:
    """A source in place of the kernels that a package's C links, which are weighed as files.

    An object file is larger than what a program takes of it.
    """
    symbols = re.findall(r"extern const void \*(\w+)\(", code.read_text(encoding="utf-8"))
    stub = folder / "no_kernels.c"
    stub.write_text(
        "".join(
            f"const void *{symbol}(unsigned version, const void *environment) "
            "{ (void)version; return environment; }\n"
            for symbol in symbols
        )
    )
    return [stub] if symbols else []


def _sources(folder: Path) -> list[Path]:
    """edgert's C, and edgert_text's where the package has it."""
    return sorted(folder.glob("edgert*.c"))


def _jni(package: Path, name: str, folder: Path) -> Size:
    """The runtime in an Android package: the shared library and the Java classes."""
    javac = Path(shutil.which("javac") or "javac").resolve()
    jdk = javac.parents[1] / "include"
    library = folder / "libedgec_jni.so"
    native = package / "src/main/cpp"
    sources = _sources(native / "edgert")
    text = ["-DEDGEC_WITH_TEXT"] if len(sources) > 1 else []
    _run(
        *(*ZIG, "-target", "aarch64-linux-gnu", *SMALL, *text, "-shared", "-fvisibility=hidden"),
        *ANDROID,
        *(f"-I{jdk}", f"-I{jdk / 'linux'}", "-Iedgert", "edgec_jni.c", *sources),
        *(*STRIPPED, "-Wl,--version-script=edgec_jni.map"),
        *("-lm", "-o", library),
        folder=native,
    )
    classes = folder / "classes"
    shutil.rmtree(classes, ignore_errors=True)
    java = [f for f in package.glob("src/main/java/**/*.java") if "android" not in f.parts]
    _run(javac, "--release", "8", "-Xlint:none", "-g:none", "-d", classes, *java, folder=package)
    return Size.of(library.read_bytes(), *(f.read_bytes() for f in classes.rglob("*.class")))


def _mach(package: Path, name: str, folder: Path) -> Size:
    """The runtime in an iOS package, linked for macOS, which is as near as can be built here.

    The program takes all functions that the package's Swift calls; the Swift itself is not in it.
    """
    swift = "\n".join(file.read_text() for file in package.glob("Sources/*/*.swift"))
    called = ", ".join(f"(const void *){function}" for function in called_by(swift, name))
    (folder / "main.c").write_text(
        f'#include "{name}.h"\nint main(int count, char **files) {{\n  (void)files;\n'
        f"  static const void *const volatile called[] = {{{called}}};\n"
        "  return called[count] == 0;\n}\n"
    )
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    settings = re.findall(r'define\("(\w+)", to: "(\d)"\)', (package / "Package.swift").read_text())
    defined = [f"-D{setting}={value}" for setting, value in settings]
    zig = (*ZIG, "-target", "aarch64-macos", *SMALL, *defined)
    flags = ("-Wl,-dead_strip", "-s")
    home = next((package / "Sources").glob("C*"))
    kernels = _no_kernels(home / f"{name}.c", folder)
    _run(
        *(*zig, "-Iinclude", folder / "main.c", f"{name}.c", *_sources(home), *kernels, *flags),
        *("-o", folder / "full"),
        folder=home,
    )
    _run(*zig, folder / "empty.c", *flags, "-o", folder / "nothing", folder=home)
    full = Size.of((folder / "full").read_bytes())
    return full.less(Size.of((folder / "nothing").read_bytes()))


def called_by(swift: str, name: str) -> list[str]:
    """The C functions that the Swift of a model by this name calls; structs are made otherwise."""
    code = re.sub(r"//.*", "", swift)
    return sorted(set(re.findall(rf"\b((?:edgert|{name})_\w+)\((?!\)|\s*\w+:)", code)))


def _web(package: Path, name: str, folder: Path) -> Size:
    """The runtime in a web package, as a page that computes on processors loads it.

    Of two builds of edgert it is the larger one; what a GPU needs, and the page that shows the
    package, are not in it.
    """
    kinds = (".wasm", ".js", ".mjs")
    apart = ("edgert.wasm", "webgpu.js", "copier.js", "try.js", "selftest.mjs")
    files = [f for f in package.rglob("*") if f.suffix in kinds and f.name not in apart]
    return Size.of(*(file.read_bytes() for file in files))


def _run(*command: str | Path, folder: Path) -> None:
    subprocess.run([str(word) for word in command], cwd=folder, check=True)


_CC = _program(("cc",), (*STRIPPED, "-lm", "-lpthread"))
_ARM = _program((*ZIG, "-target", "aarch64-linux-gnu"), (*STRIPPED, "-lm"))

ROWS = tuple(
    row
    for row in (
        Row(label="C, x86-64", kind="c", target="cpu:x86-64-v3", runtime=_CC),
        Row(
            label="C, x86-64, `--static`", kind="c", target="cpu:x86-64-v3", runtime=_CC, link=True
        ),
        Row(label="C, arm64", kind="c", target="cpu:arm64-v8.2", runtime=_ARM),
        Row(label="Android, arm64", kind="android", target="cpu:arm64-v8.2", runtime=_jni),
        Row(label="iOS and macOS, arm64", kind="ios", target="cpu:apple-arm64", runtime=_mach),
        Row(label="web", kind="web", target="wasm", runtime=_web),
    )
    if row.kind in KINDS
)
