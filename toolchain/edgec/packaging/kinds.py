"""The kinds of packages, each with the devices it is for and the builder that writes it."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from edgec.packaging.plan import Plan

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of package.

    Attributes:
        name: what the command's flag is called, and the manifest says.
        summary: what the package is, for `--help`.
        targets: what it is compiled for where no `--target` is given, best first.
        drivers: the drivers that the package's runtime has.
        modules: the folder in the package that modules go into, with `/`; `{name}` is the model's
            name, `{type}` the same as a type's.
        builder: `module:function` that writes the rest of the package; called with the `Plan`.
        isas: the instruction sets that its variants for processors can be for, as IREE spells them;
            empty for any.
        system: what the target's triple has to name (`-apple-`); empty for any system.
        links: whether kernels are compiled into object files that the app links (no code is loaded
            at run time); where `--static` may be given, that decides.
    """

    name: str
    summary: str
    targets: tuple[str, ...]
    drivers: tuple[str, ...]
    modules: str
    builder: str
    isas: tuple[str, ...] = ()
    system: str = ""
    links: bool = False

    def build(self, plan: "Plan") -> None:
        """Write everything but the modules and the manifest into `plan.folder`."""
        home, _, name = self.builder.partition(":")
        build = cast("Callable[[Plan], None]", getattr(importlib.import_module(home), name))
        build(plan)


KINDS: Mapping[str, Kind] = {
    "c": Kind(
        name="c",
        summary="C sources and a CMakeLists: the model behind a typed header, and a main",
        targets=("cpu:x86-64-v3", "cpu:x86-64", "cpu:arm64-v8.2", "cpu:arm64"),
        drivers=("local-task", "vulkan"),
        modules="modules",
        builder="edgec.packaging.c:build",
        isas=("x86_64", "arm_64", "arm_32", "riscv_64"),
    ),
    "android": Kind(
        name="android",
        summary="a Gradle library: Java and typed Kotlin, the model in its assets",
        targets=("vulkan:android", "cpu:arm64-v8.2", "cpu:arm64", "cpu:armv7", "cpu:x86-64"),
        drivers=("vulkan", "local-task"),
        modules="src/main/assets/{name}",
        builder="edgec.packaging.android:build",
        isas=("x86_64", "arm_64", "arm_32"),
    ),
    "ios": Kind(
        name="ios",
        summary="a Swift package: the model's kernels as a static library, typed Swift",
        targets=("cpu:ios-arm64", "cpu:apple-arm64"),
        drivers=("local-task",),
        modules="Sources/{type}/Modules",
        builder="edgec.packaging.ios:build",
        isas=("arm_64",),
        system="-apple-",
        links=True,
    ),
    "web": Kind(
        name="web",
        summary="an ES module with TypeScript types, and a page that runs it",
        targets=("webgpu", "wasm", "wasm:plain"),
        drivers=("webgpu", "wasm"),
        modules=".",
        builder="edgec.packaging.web:build",
    ),
}
"""Every kind, by the name of its flag."""
