"""What `edgec doctor` looks at: each check is a function from nothing to findings."""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import Any

from edgec.cli.amounts import bytes_text

__all__ = ["CHECKS", "Finding", "Verdict"]

_LITTLE_SPACE = 2 << 30
_OLDEST_PYTHON = (3, 11)
_LARGEST = 4


class Verdict(Enum):
    """How a finding counts: only a fault in the core makes the doctor's exit code 1."""

    OK = "ok"
    MISSING = "missing"
    FAULT = "fault"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing looked at.

    Attributes:
        name: what it is.
        verdict: fine; not there, and not needed unless one wants it; or broken.
        detail: what was found.
        mend: the command or step that mends it.
    """

    name: str
    verdict: Verdict
    detail: str
    mend: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "name": self.name,
            "verdict": self.verdict.value,
            "detail": self.detail,
            "mend": self.mend,
        }


def python_version() -> Iterator[Finding]:
    """The interpreter and the machine."""
    found = platform.python_version()
    machine = f"{platform.system()} {platform.machine()}"
    sound = sys.version_info[:2] >= _OLDEST_PYTHON
    yield Finding(
        name="python",
        verdict=Verdict.OK if sound else Verdict.FAULT,
        detail=f"{found} on {machine}",
        mend="" if sound else "install Python 3.11 or later",
    )


def core_packages() -> Iterator[Finding]:
    """What edgec cannot do without, in the versions it names."""
    found = list(_requirements(""))
    yield from (_package(requirement, Verdict.FAULT) for requirement in found)
    versions = {_version(name) for name in ("iree-base-compiler", "iree-base-runtime")}
    if len(versions) > 1 and None not in versions:
        compiler, runtime = _version("iree-base-compiler"), _version("iree-base-runtime")
        yield Finding(
            name="iree",
            verdict=Verdict.FAULT,
            detail=f"compiler {compiler} and runtime {runtime} do not go together",
            mend=f"pip install iree-base-compiler=={compiler} iree-base-runtime=={compiler}",
        )


def installed() -> Iterator[Finding]:
    """How large edgec is, with all that it needs to compile and to run."""
    from edgec.cli.installed_size import installed_sizes

    sizes = installed_sizes("edgec")
    largest = sorted(sizes, key=lambda name: -sizes[name])[:_LARGEST]
    named = ", ".join(f"{name} {bytes_text(sizes[name])}" for name in largest)
    yield Finding(
        name="size",
        verdict=Verdict.OK,
        detail=f"{bytes_text(sum(sizes.values()))} installed, without extras: {named}, …",
    )


def frameworks() -> Iterator[Finding]:
    """The extras: each needs all of its packages; each package is a finding where one is amiss."""
    for extra in metadata.metadata("edgec").get_all("Provides-Extra") or ():
        findings = [_package(r, Verdict.MISSING) for r in _requirements(extra)]
        amiss = [f for f in findings if f.verdict is not Verdict.OK]
        yield Finding(
            name=f"edgec[{extra}]",
            verdict=Verdict.MISSING if amiss else Verdict.OK,
            detail="; ".join(f"{f.name}: {f.detail}" for f in amiss or findings),
            mend=f'pip install "edgec[{extra}]"' if amiss else "",
        )


def compile_and_run() -> Iterator[Finding]:
    """A small program through the compiler and the runtime on this CPU, its answer checked."""
    import numpy as np

    from edgec.runtime import load
    from edgec.runtime.errors import EdgecError
    from edgec.toolchain import CompileOptions, compile

    text = (
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = stablehlo.add %x, %x : tensor<4xf32>\n"
        "  return %0 : tensor<4xf32>\n}\n"
    )
    values = np.arange(4, dtype=np.float32)
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        source = Path(folder, "doctor.mlir")
        source.write_text(text)
        options = CompileOptions(output=source.with_suffix(".vmfb"), cache=False)
        try:
            with load(compile(source, "cpu", options)) as module:
                answer = module.main(values)
        except EdgecError as error:
            yield Finding(
                name="compile and run",
                verdict=Verdict.FAULT,
                detail=error.what,
                mend=error.hint or "pip install --force-reinstall edgec",
            )
            return
    sound = np.array_equal(answer, values + values)
    yield Finding(
        name="compile and run",
        verdict=Verdict.OK if sound else Verdict.FAULT,
        detail="a program compiles for this CPU and answers right"
        if sound
        else f"the answer is {answer} and should be {values + values}",
        mend="" if sound else "report this with the output of `edgec doctor --json`",
    )


def devices() -> Iterator[Finding]:
    """What runs here: the CPU is core, the rest is what the machine has."""
    from edgec.runtime import devices as find

    for status in find():
        cpu = status.driver in ("edgert", "local-task", "local-sync")
        absent = Verdict.FAULT if cpu else Verdict.MISSING
        yield Finding(
            name=f"device {status.uri}",
            verdict=Verdict.OK if status.usable else absent,
            detail=status.name if status.usable else f"{status.name} {status.reason}".strip(),
            mend="" if status.usable else status.hint,
        )


def emulator() -> Iterator[Finding]:
    """qemu-user, with which modules for arm64 can be tried on another machine."""
    path = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    yield Finding(
        name="qemu-aarch64",
        verdict=Verdict.OK if path else Verdict.MISSING,
        detail=path or "not installed; only needed to try arm64 modules here",
        mend="" if path else "apt install qemu-user",
    )


def cache_folder() -> Iterator[Finding]:
    """The cache can be written and its disk has room; without either compiles are slower."""
    from edgec.toolchain import Cache

    folder = Cache.default().folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
        free = shutil.disk_usage(folder).free
    except OSError as error:
        yield Finding(
            name="cache",
            verdict=Verdict.MISSING,
            detail=f"{folder} cannot be written: {error.strerror}",
            mend="make it writable, or name another folder in EDGEC_CACHE_DIR",
        )
        return
    roomy = free >= _LITTLE_SPACE
    yield Finding(
        name="cache",
        verdict=Verdict.OK if roomy else Verdict.MISSING,
        detail=f"{folder}, {bytes_text(free)} free",
        mend="" if roomy else "edgec cache --clear, or free some space",
    )


def scratch_folder() -> Iterator[Finding]:
    """Compiles write gigabytes to the temporary folder; it must have room."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    roomy = free >= _LITTLE_SPACE and os.access(folder, os.W_OK)
    yield Finding(
        name="temporary folder",
        verdict=Verdict.OK if roomy else Verdict.FAULT,
        detail=f"{folder}, {bytes_text(free)} free",
        mend="" if roomy else "free some space, or set TMPDIR to a folder with room",
    )


CHECKS: dict[str, Callable[[], Iterator[Finding]]] = {
    "python": python_version,
    "packages": core_packages,
    "size": installed,
    "frameworks": frameworks,
    "compile and run": compile_and_run,
    "devices": devices,
    "emulator": emulator,
    "cache": cache_folder,
    "temporary folder": scratch_folder,
}
"""Every check, in the order they are reported."""


def _requirements(extra: str) -> Iterator[Any]:
    """What edgec's own metadata requires for an extra; the core for an empty one."""
    from packaging.requirements import Requirement

    for text in metadata.requires("edgec") or ():
        requirement = Requirement(text)
        marker = requirement.marker
        core = marker is None or marker.evaluate({"extra": ""})
        own = marker is not None and not core and marker.evaluate({"extra": extra})
        if own if extra else core:
            yield requirement


def _package(requirement: Any, absent: Verdict) -> Finding:
    found = _version(requirement.name)
    name = requirement.name
    if found is None:
        return Finding(
            name=name,
            verdict=absent,
            detail="not installed",
            mend=f'pip install "{_pin(requirement)}"',
        )
    if not requirement.specifier.contains(found, prereleases=True):
        return Finding(
            name=name,
            verdict=absent,
            detail=f"{found} is installed, and edgec is made for {requirement.specifier}",
            mend=f'pip install "{_pin(requirement)}"',
        )
    return Finding(name=name, verdict=Verdict.OK, detail=found)


def _pin(requirement: Any) -> str:
    return f"{requirement.name}{requirement.specifier}"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
