"""A package's own test, run on this machine: what ran and how it ended, and what did not and why.

The C program is compiled and run here; Java runs on the JVM here; WebAssembly runs in node; modules
for other processors run in qemu.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgec.ondevice import connect, deploy
from edgec.packaging.plan import BuiltVariant, Plan
from edgec.packaging.selftest import FOLDER, proves_itself
from edgec.runtime import Golden
from edgec.runtime.comparison import compare_call
from edgec.runtime.cpu import architecture
from edgec.runtime.errors import DeviceMissing, MissingExtra, ModuleMismatch, WrongAnswer

__all__ = ["Proof", "prove"]

_EMULATORS = {"arm_64": "aarch64", "arm_32": "armv7", "riscv_64": "riscv64", "x86_64": "x86_64"}
_TIMEOUT = 600.0
_PASSED = "passed here"


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One part of a package's test.

    Attributes:
        what: what it is of: `the C program`, a target.
        outcome: `passed …`, or `not run: …`.
    """

    what: str
    outcome: str

    def __str__(self) -> str:
        return f"{self.what}: {self.outcome}"


def prove(plan: Plan) -> tuple[Proof, ...]:
    """Run the test of a package that is all there, but not yet in its place.

    Raises:
        WrongAnswer: an answer is off by more than rounding explains, or a program fails.
    """
    if not proves_itself(plan):
        return (Proof(what="the package", outcome="not run: its modules bring no golden calls"),)
    return tuple(_KINDS[plan.kind.name](plan))


def _prove_c(plan: Plan) -> Iterator[Proof]:
    yield _c_program(plan)
    yield from _emulated(plan)


def _c_program(plan: Plan) -> Proof:
    what = "the C program"
    compiler = shutil.which("cc")
    if compiler is None:
        return Proof(what=what, outcome="not run: there is no cc here")
    here = [v for v in plan.variants if v.entry.needs.isa in ("", architecture())]
    if not here:
        return Proof(what=what, outcome=f"not run: no variant is for {architecture()}")
    kernels = [str(v.library) for v in here if v.library is not None]
    flags = ["-DEDGERT_WITH_ELF=0"] if kernels else []
    if plan.has_gpus:
        flags += ["-DEDGERT_WITH_VULKAN=1", "-ldl"]
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        program = Path(scratch, "selftest")
        name = plan.name
        sources = sorted(f"edgert/{file.name}" for file in (plan.folder / "edgert").glob("*.c"))
        _run(
            *(compiler, "-std=c11", "-O1", "-w", *flags, "-I.", "-Iedgert", f"{name}.c"),
            *(f"{name}_modules.S", *sources, f"{FOLDER}/selftest.c", *kernels),
            *("-lpthread", "-lm", "-o", str(program)),
            folder=plan.folder,
            what=what,
        )
        _run(str(program), folder=plan.folder, what=what)
    return Proof(what=what, outcome=_PASSED)


def _prove_android(plan: Plan) -> Iterator[Proof]:
    yield _java_program(plan)
    yield from _emulated(plan)


def _java_program(plan: Plan) -> Proof:
    what = "the Java library"
    tools = {name: shutil.which(name) for name in ("javac", "java", "cc")}
    missing = [name for name, found in tools.items() if found is None]
    if missing:
        return Proof(what=what, outcome=f"not run: there is no {' and no '.join(missing)} here")
    if all(variant.entry.needs.isa not in ("", architecture()) for variant in plan.variants):
        return Proof(what=what, outcome=f"not run: no variant is for {architecture()}")
    headers = Path(tools["javac"] or "").resolve().parents[1] / "include"
    native = plan.folder / "src/main/cpp"
    java = plan.folder / "src/main/java/dev/edgec"
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        library = Path(scratch, "libedgec_jni.so")
        _run(
            *("cc", "-std=c11", "-O1", "-w", "-shared", "-fPIC", f"-I{headers}"),
            f"-DEDGERT_WITH_VULKAN={int(plan.has_gpus)}",
            *(f"-I{headers / 'linux'}", "-Iedgert", "edgec_jni.c", "edgert/edgert.c"),
            *("-lpthread", "-lm", "-ldl", "-o", str(library)),
            folder=native,
            what=what,
        )
        own = plan.folder / FOLDER / "SelfTest.java"
        sources = [*java.glob("*.java"), *(java / "models").rglob("*.java"), own]
        _run("javac", "-nowarn", "-d", scratch, *map(str, sources), folder=java, what=what)
        _run(
            *("java", f"-Ddev.edgec.library={library}", "-cp", scratch, "SelfTest"),
            str(plan.modules),
            folder=plan.folder,
            what=what,
        )
    return Proof(what=what, outcome=_PASSED)


def _prove_web(plan: Plan) -> Iterator[Proof]:
    for variant in plan.variants:
        name = variant.target.name
        if shutil.which("node") is None:
            yield Proof(what=name, outcome="not run: there is no node here")
            continue
        said = _run("node", f"{FOLDER}/selftest.mjs", name, folder=plan.folder, what=name)
        yield Proof(what=name, outcome=f"{said.strip().partition(': ')[2]} in node")


def _prove_ios(plan: Plan) -> Iterator[Proof]:
    command = f"`swift run` in {plan.destination.name}"
    yield Proof(what="the Swift package", outcome=f"not run: that takes a Mac, and there {command}")


_KINDS: Mapping[str, Callable[[Plan], Iterator[Proof]]] = {
    "c": _prove_c,
    "android": _prove_android,
    "web": _prove_web,
    "ios": _prove_ios,
}


def _emulated(plan: Plan) -> Iterator[Proof]:
    """Variants for other processors than this one, in qemu: the framework's own golden calls."""
    for variant in plan.variants:
        isa = variant.entry.needs.isa
        if isa and isa != architecture() and not variant.library and plan.golden is not None:
            yield Proof(what=variant.target.name, outcome=_in_qemu(plan, variant, plan.golden))


def _in_qemu(plan: Plan, variant: BuiltVariant, golden: Golden) -> str:
    name = f"qemu:{_EMULATORS[variant.entry.needs.isa]}"
    if len({call.signature for call in golden.calls}) > 1:
        return "not run: golden answers are of several functions"
    signature = plan.signatures[golden.calls[0].signature]
    try:
        with deploy(
            variant.compiled.module,
            connect(name),
            weights=None,
            threads=1,
            tell=lambda _: None,
            warn=lambda _: None,
        ) as there:
            called = there.call(signature, [call.inputs for call in golden.calls])
    except (DeviceMissing, MissingExtra, ModuleMismatch) as error:
        return f"not run: {error.what}"
    most = 0.0
    for call, results in zip(golden.calls, called.results, strict=True):
        found = compare_call(call, results, plan.tolerance)
        for spec, result in zip(signature.outputs, found, strict=True):
            if not result.ok:
                raise WrongAnswer(
                    f"the module for {variant.target.name} computes wrong answers in {name}: "
                    f"{spec.name} of {signature.name}: {result.problem}",
                    hint="try another target or -O1; --no-check keeps the package unproved",
                )
            most = max(most, result.max_abs)
    return f"passed, max abs err {most:.1e} in {name}"


def _run(*command: str, folder: Path, what: str) -> str:
    """What a command prints; it has to end well."""
    hint = "--no-check makes the package without running its test"
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise WrongAnswer(
            f"the package's test of {what} took longer than {_TIMEOUT:.0f} seconds", hint=hint
        ) from None
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise WrongAnswer(
            f"the package's test of {what} failed: {'; '.join(said[-4:])[:600]}", hint=hint
        )
    return done.stdout
