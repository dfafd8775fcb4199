"""The iOS and macOS package: kernels as static libraries, edgert's sources, thin Swift.

Apps on iOS may not load code, so the kernels are linked in, and the modules, which hold the
program around them and the weights, are resources.
"""

import shutil
from pathlib import Path

from edgec.packaging.apple_archive import framework_plist, static_library
from edgec.packaging.c import bind_c, c_values, code, header, text_values, weights_code
from edgec.packaging.edgert_sources import write_edgert
from edgec.packaging.linked import own_symbol
from edgec.packaging.names import pascal
from edgec.packaging.plan import BuiltVariant, Plan
from edgec.packaging.selftest import proves_itself, write_c_self_test
from edgec.packaging.swift import swift_binding, swift_example, swift_text
from edgec.packaging.templates import render
from edgec.runtime.errors import CompileError

__all__ = ["build"]

# What a triple's system is called by xcframeworks, by the C preprocessor and by Swift.
_SYSTEMS = {
    "ios": ("ios", "TARGET_OS_IOS && !TARGET_OS_SIMULATOR", "os(iOS)"),
    "macos": ("macos", "TARGET_OS_OSX", "os(macOS)"),
}


_TEXT = """
- Text: `let model = try {type}Text()`, `try model.chat("Hello!") {{ print($0); return true }}`;
  `model.stream` gives pieces to `for try await`, `{type}Text.Options` says how they are chosen."""
_SELF_TEST = """\
        .executableTarget(
            name: "{type}SelfTest",
            dependencies: ["C{type}"],
            path: "selftest"
        ),
"""


def build(plan: Plan) -> None:
    """Write the package around the modules.

    Raises:
        CompileError: a target is not one of Apple's.
    """
    functions = bind_c(plan)
    type_name = pascal(plan.name)
    frameworks = plan.folder / f"{type_name}Kernels.xcframework"
    declarations, variants, folders, files = [], [], {}, {}
    for variant in plan.variants:
        platform, macro, condition = _SYSTEMS[_system(variant)]
        library = f"lib{type_name}Kernels.a"
        symbol = own_symbol(_library(variant), plan.name)
        archive = static_library(f"{plan.name}.o", _library(variant).read_bytes(), symbol)
        _library(variant).unlink()
        folders[f"{platform}-arm64"] = (platform, library)
        (frameworks / f"{platform}-arm64").mkdir(parents=True)
        (frameworks / f"{platform}-arm64" / library).write_bytes(archive)
        declarations += [
            f"#if {macro}",
            f"extern const void *{symbol}(uint32_t, const void *);",
            "#endif",
        ]
        variants += [
            f"#if {macro}",
            f'    {{"{variant.target.name}", "cpu", NULL, NULL, {symbol}}},',
        ]
        variants += ["#endif"]
        files[condition] = Path(variant.entry.file).stem
    (frameworks / "Info.plist").write_bytes(framework_plist(folders))
    values = c_values(plan, functions) | {
        "Type": type_name,
        "folder": plan.destination.name,
        "declarations": "#include <TargetConditionals.h>\n\n" + "\n".join(declarations) + "\n",
        "variants": "\n".join(variants) + "\n",
        "modules_note": "this package's resources",
        "opening": f"{plan.name}_open_file(path, NULL",
        "open": "",
        "weights": weights_code(plan, "beside"),
    }
    writes = bool(plan.variants[0].compiled.module.text)
    if writes:
        values |= text_values(values)
        plan.write(f"Sources/{type_name}/{type_name}Text.swift", swift_text(values))
    home = f"Sources/C{type_name}"
    write_edgert(plan.folder / home, text=writes)
    (plan.folder / home / "include").mkdir()
    for file in (plan.folder / home).glob("*.h"):
        shutil.move(file, plan.folder / home / "include" / file.name)
    plan.write(f"{home}/include/{plan.name}.h", header(functions, values))
    plan.write(f"{home}/include/module.modulemap", render("ios/module.modulemap", values))
    plan.write(f"{home}/{plan.name}.c", code(functions, values))
    plan.write(f"Sources/{type_name}/{type_name}.swift", swift_binding(values, functions, files))
    is_proved = proves_itself(plan)
    if is_proved:
        opening = f"{plan.name}_open_file(path, NULL, &model, &error)"
        write_c_self_test(plan, opening=opening, module=plan.variants[-1].entry.file)
    test = _SELF_TEST.format(type=type_name) if is_proved else ""
    plan.write("Package.swift", render("ios/Package.swift", values | {"test": test}))
    words = {
        "swift": swift_example(functions[0]),
        "text": _TEXT.format(type=type_name) if writes else "",
        "test": "\n- `try model.prove()` says whether this device computes rightly; so does "
        f"`swift run {type_name}SelfTest` on a Mac."
        if is_proved
        else "",
    }
    plan.write("README.md", render("ios/README.md", values | words))


def _library(variant: BuiltVariant) -> Path:
    if variant.library is None:
        raise CompileError(f"{variant.target.name} has no library of kernels")
    return variant.library


def _system(variant: BuiltVariant) -> str:
    triple = variant.target.cpu.triple if variant.target.cpu else ""
    for system in _SYSTEMS:
        if f"-apple-{system}" in triple:
            return system
    raise CompileError(
        f"{variant.target.name} is not for an Apple system",
        hint="use cpu:ios-arm64 and cpu:apple-arm64",
    )
