"""The Android package: a Gradle library with edgert behind JNI, the model in its assets."""

import shutil

from edgec.packaging.bindings import bind
from edgec.packaging.edgert_sources import write_edgert
from edgec.packaging.java import java_binding, kotlin_binding, kotlin_example
from edgec.packaging.names import pascal
from edgec.packaging.plan import Plan
from edgec.packaging.selftest import FOLDER, proves_itself
from edgec.packaging.templates import render
from edgec.runtime.manifest import MANIFEST
from edgec.toolchain.sources import runtime_sources

__all__ = ["ABIS", "build"]

ABIS = {"arm_64": "arm64-v8a", "arm_32": "armeabi-v7a", "x86_64": "x86_64"}
"""An instruction set to Android's name for it."""


def build(plan: Plan) -> None:
    """Write the package around the modules."""
    isas = [variant.entry.needs.isa for variant in plan.variants]
    # A package for GPUs alone runs on whatever they are in.
    abis = list(dict.fromkeys(ABIS[isa] for isa in isas if isa)) or list(ABIS.values())
    functions = bind(plan.signatures.values())
    values = {
        "name": plan.name,
        "Type": pascal(plan.name),
        "title": plan.title.replace("*/", ""),
        "edgec": plan.manifest.edgec,
        "module": plan.destination.name,
        "abis": ", ".join(f'"{abi}"' for abi in abis),
        "abi_names": ", ".join(abis),
        "targets": ", ".join(v.target.name for v in plan.variants),
        "kotlin": kotlin_example(functions[0]),
    }
    java = runtime_sources("java")
    shutil.copytree(java / "src", plan.folder / "src", dirs_exist_ok=True)
    writes = bool(plan.variants[0].compiled.module.text)
    write_edgert(plan.folder / "src/main/cpp/edgert", text=writes)
    for template, path in (
        ("build.gradle.kts", "build.gradle.kts"),
        ("consumer-rules.pro", "consumer-rules.pro"),
        ("README.md", "README.md"),
        ("AndroidManifest.xml", "src/main/AndroidManifest.xml"),
        ("EdgeAssets.java", "src/main/java/dev/edgec/android/EdgeAssets.java"),
    ):
        plan.write(path, render(f"android/{template}", values))
    if proves_itself(plan):
        plan.write(f"{FOLDER}/SelfTest.java", render("android/SelfTest.java", values))
    home = f"src/main/java/dev/edgec/models/{plan.name}"
    plan.write(f"{home}/{values['Type']}.java", java_binding(values, functions))
    plan.write(
        f"{home.replace('/java/', '/kotlin/')}/{values['Type']}Android.kt",
        kotlin_binding(values, functions),
    )
    plan.write(f"src/main/assets/{plan.name}/{MANIFEST}", plan.manifest_beside_modules())
