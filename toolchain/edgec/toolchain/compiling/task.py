"""One program for one target: what it is called, what its module says, and its key in the cache."""

import json
import os
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from edgec.runtime import Module, Tolerance
from edgec.runtime.cpu import architecture
from edgec.runtime.dtypes import DType
from edgec.runtime.golden import Golden
from edgec.targets import Backend, Target
from edgec.toolchain.cache import key_of
from edgec.toolchain.compiling.command_lines import flags_for
from edgec.toolchain.compiling.identity import identity_of
from edgec.toolchain.compiling.options import CompileOptions
from edgec.toolchain.compiling.progress import Clock
from edgec.toolchain.early_refusals import TEXT
from edgec.toolchain.fingerprint import fingerprint
from edgec.toolchain.precision import F32, Precision
from edgec.toolchain.process import compiler_version
from edgec.toolchain.program import Program

__all__ = ["Task", "versions"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One program for one target."""

    program: Program
    target: Target
    options: CompileOptions
    clock: Clock

    @property
    def name(self) -> str:
        """The program's name."""
        return self.program.name

    @property
    def rounds_f32(self) -> bool:
        """Whether products of f32 are rounded to TF32."""
        return self.options.f32 is F32.TF32 and self.target.backend is Backend.CUDA

    @property
    def golden_to_meet(self) -> Golden | None:
        """The golden calls that the module is to be proved by; None without any, or unasked."""
        golden = self.program.golden
        return golden if self.options.check and golden is not None and golden.calls else None

    @property
    def may_be_proved(self) -> bool:
        """Whether the module will be proved by its golden calls, as far as is known before."""
        target = self.target
        if self.golden_to_meet is None:
            return False
        if target.backend is Backend.CPU:
            return target.isa == architecture()
        gpu = target.gpu if target.backend is Backend.VULKAN else None
        return gpu is not None and not gpu.devices

    @property
    def keeps_halves(self) -> bool:
        """Whether weights lie in the module as f16, and are computed with in f32."""
        on_cpu = self.target.backend is Backend.CPU
        return on_cpu and self.options.precision is Precision.F16

    @property
    def parts_weights(self) -> bool:
        """Whether weights may be more than a kernel reaches into, if the compiler joins them.

        As large again is what it may make of them, turned, padded or widened. Of a weights file
        that is not at hand anything may be.
        """
        most, path = self.target.limits.binding, self.program.weights_path
        size = len(self.program.bytecode)
        if path is not None:
            size += path.stat().st_size if path.exists() else most
        return 0 < most < 2 * size

    @property
    def key(self) -> str:
        """What the module depends on, as one word for the cache."""
        options, outside = self.options, self.options.outside
        return key_of(
            "module",
            self.program.bytecode,
            self.program.info.to_json(),
            json.dumps(flags_for(self.target, options.settings.level, self.program.info)),
            options.settings.key,
            json.dumps(self.facts, sort_keys=True),
            json.dumps(self.target.to_json(), sort_keys=True),
            json.dumps([fingerprint(), options.validate]),
            options.f32.value,
            options.precision.value,
            json.dumps(self.golden),
            self.identity,
            *(("taps", str(options.tap_loops)) if options.taps else ()),
            *(("weighed",) if options.weighed else ()),
            *(() if not options.donated else ("donated", str(sorted(options.donated.items())))),
            *(() if outside is None else (outside.file, *sorted(outside.keys))),
        )

    @property
    def facts(self) -> dict[str, Any]:
        """What the module says of itself; see `edgec.runtime.ModuleFacts`."""
        weights = self.program.info.weights
        return {
            "target": self.target.name,
            "driver": self.target.driver,
            "edgec": metadata.version("edgec"),
            "compiler": compiler_version(),
            "cpu_features": list(self.target.required_features),
            "weights": None
            if weights is None
            else {
                "scope": weights.scope,
                "file": self._weights_reference(),
                "names": list(weights.names),
            },
            "states": [state.to_json() for state in self.program.info.states],
            "program": self.program.digest,
        }

    @cached_property
    def identity(self) -> str:
        """Which language model it is; empty of other programs. Its weights are read for it."""
        return identity_of(self.program, self.program.weights_path)

    @cached_property
    def golden(self) -> dict[str, str]:
        """The golden calls that the module brings, by what its products are computed in."""
        seeded = self.options.seeded
        if seeded is None:
            return {}
        return {halves: seeded.text(self.tolerance(halves)) for halves in ("", "f16", "bf16")}

    def place(self, where: str | None) -> str | None:
        """A place with the user's file where it is in the program's text."""
        if where and where.startswith(f"{TEXT}:") and self.program.path:
            return f"{self.program.path}{where.removeprefix(TEXT)}"
        return where

    def tolerance(self, halves: str) -> Tolerance | None:
        """How far answers may be off; None for each type's default.

        A program that multiplies in 16-bit floats (`halves` is their type) is no more precise than
        they are, whatever the type of its results.
        """
        if self.options.tolerance is not None:
            return self.options.tolerance
        if self.rounds_f32 and not halves:
            halves = "f16"  # TF32 has as many bits after the point.
        return Tolerance.of(DType(halves)) if halves else None

    def weights_of(self, module: Path) -> Path | None:
        """The weights file of the module as it is before it has its place."""
        outside = self.options.outside
        if outside is not None and Module.read(module).facts.weights is not None:
            return outside.path
        return self.program.weights_path

    def _weights_reference(self) -> str:
        """How the module names its weights file: relative to the module where it can be."""
        path = self.program.weights_path
        output = self.options.output
        if path is None or output is None:
            return str(path)
        return os.path.relpath(path, Path(output).parent.resolve())


def versions() -> dict[str, str]:
    """What a module depends on besides its program and settings."""
    return {
        "edgec": metadata.version("edgec"),
        "compiler": compiler_version(),
        "passes": fingerprint(),
    }
