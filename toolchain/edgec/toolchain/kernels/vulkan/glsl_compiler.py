"""A variant of a GLSL kernel to SPIR-V, by glslang and without a GPU."""

import functools
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgec.toolchain.cache import Cache, key_of
from edgec.toolchain.kernels.gpu.dispatches import Binary
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.kernels.vulkan.variants import SOURCES, Variant, sources_digest

__all__ = ["GlslCompiler", "Refused", "Tools", "compile_variant", "run_tool", "tools"]

_TIMEOUT = 60.0


class Refused(Exception):
    """The compiler does not take a kernel; says why."""


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The programs that make SPIR-V.

    Attributes:
        compiler: glslang's.
        optimiser: that of SPIRV-Tools.
        environment: what they need to run.
        version: of both, in words.
    """

    compiler: str
    optimiser: str
    environment: Mapping[str, str]
    version: str


@functools.cache
def tools() -> Tools | None:
    """The programs of `edgec[vulkan]`, or those on the path; None where there are none."""
    folder, environment = _packaged()
    path = os.pathsep.join(filter(None, [folder, os.environ.get("PATH", os.defpath)]))
    compiler = shutil.which("glslangValidator", path=path)
    optimiser = shutil.which("spirv-opt", path=path)
    if compiler is None or optimiser is None:
        return None
    version = ""
    for program in (compiler, optimiser):
        done = subprocess.run(
            (program, "--version"), env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            return None
        version += done.stdout
    return Tools(compiler=compiler, optimiser=optimiser, environment=environment, version=version)


def _packaged() -> tuple[str, dict[str, str]]:
    """The folder of programs of the Python packages, and what they need to find their libraries."""
    environment = dict(os.environ)
    found = importlib.util.find_spec("cmeel")
    if found is None or found.origin is None:
        return "", environment
    prefix = Path(found.origin).parents[1] / "cmeel.prefix"
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        known = environment.get(name)
        environment[name] = os.pathsep.join(filter(None, [str(prefix / "lib"), known]))
    return str(prefix / "bin"), environment


class GlslCompiler:
    """Where kernels come from when glslang is here: edgec's cache, or its compiler.

    Attributes:
        folds: numbers may become constants, since any variant can be made.
    """

    folds = True

    def __init__(self, found: Tools, cache: Cache | None = None) -> None:
        self._tools = found
        self._cache = cache or Cache.default()

    def find(self, variant: Variant) -> Binary | Declined:
        """The kernel, compiled if it is new."""
        key = key_of("glslang", self._tools.version, sources_digest(), variant.key)
        entry = self._cache.get(key)
        if entry is not None:
            return _binary(variant, entry.payload.read_bytes())
        try:
            data = compile_variant(variant, self._tools)
        except Refused as refused:
            return Declined(reason=f"glslang refused {variant.name}: {refused}")
        self._cache.put(key, data, {})
        return _binary(variant, data)


def _binary(variant: Variant, data: bytes) -> Binary:
    return Binary(name=variant.symbol, data=data, threads=variant.threads, shared=variant.shared)


def compile_variant(variant: Variant, found: Tools) -> bytes:
    """The SPIR-V of a variant.

    Raises:
        Refused: a program does not take it.
    """
    version = variant.environment
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.spv"
        run_tool(
            found,
            found.compiler,
            *("-V", "--target-env", version, "-S", "comp", "--quiet"),
            *(f"-D{each}" for each in variant.definitions),
            *("-e", f"edgec_{variant.symbol}", "--source-entrypoint", "main"),
            *("-o", str(path), str(SOURCES / f"{variant.source}.comp")),
        )
        options = (f"--target-env={version}", "-O", "--strip-debug", "--compact-ids")
        run_tool(found, found.optimiser, *options, str(path), "-o", str(path))
        return path.read_bytes()


def run_tool(found: Tools, *command: str) -> None:
    """Run one of the programs.

    Raises:
        Refused: it fails; says what it says of that.
    """
    try:
        done = subprocess.run(
            command,
            env=found.environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(str(error)) from error
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines() or [f"code {done.returncode}"]
        raise Refused(next((line for line in lines if "ERROR" in line), lines[-1])[:200])
