"""A GLSL source, its tile and its constants to the one way to compile it, with its key."""

import functools
import hashlib
import json
from dataclasses import dataclass
from importlib import resources

__all__ = ["SOURCES", "Variant", "sources_digest"]

SOURCES = resources.files("edgec.toolchain") / "kernels" / "vulkan" / "glsl"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to compile a kernel.

    Attributes:
        name: how profiles call it, without its key (`product_nn_deep_f16`).
        source: the file in `kernels/vulkan/glsl`.
        element: `f32` or `f16`.
        words: what is defined (`TURNED`).
        sizes: what is defined as a number.
        numbers: integers that each call gives, in its order.
        constants: integers that are compiled in.
        table: integers that are compiled in as the array `n`; empty where a call gives it.
        threads: of a workgroup.
        shared: bytes that it shares.
    """

    name: str
    source: str
    element: str
    words: tuple[str, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    numbers: tuple[str, ...] = ()
    constants: tuple[tuple[str, int], ...] = ()
    table: tuple[int, ...] = ()
    threads: int
    shared: int = 0

    @property
    def key(self) -> str:
        """What tells this variant from all others of the same sources."""
        facts = (
            *(self.name, self.source, self.element, self.words, sorted(self.sizes)),
            *(self.numbers, sorted(self.constants), self.table, self.threads),
        )
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @property
    def symbol(self) -> str:
        """The name of the binary: readable, and unlike any other variant's."""
        return f"{self.name}_{self.key[:8]}"

    @property
    def environment(self) -> str:
        """The version of Vulkan whose SPIR-V it is: the lowest that has what it uses."""
        return "vulkan1.3" if self.source.startswith("matrix_") else "vulkan1.1"

    @property
    def definitions(self) -> tuple[str, ...]:
        """What the preprocessor is told, as `NAME=TEXT` or `NAME`."""
        found = [f"THREADS={self.threads}", *self.words]
        found += ["HALF"] if self.element == "f16" else []
        found += [f"{name}={value}" for name, value in self.sizes]
        if self.numbers:
            found.append(f"NUMBERS={', '.join(self.numbers)}")
        if self.constants:
            each = (f"const int {name} = {value};" for name, value in self.constants)
            found.append(f"CONSTANTS={' '.join(each)}")
        if self.table:
            found.append(f"TABLE={', '.join(map(str, self.table))}")
        return tuple(found)


@functools.cache
def sources_digest() -> str:
    """A digest of all GLSL sources, to which compiled kernels are tied."""
    digest = hashlib.sha256()
    for file in sorted(SOURCES.iterdir(), key=lambda each: each.name):
        if file.name.endswith((".comp", ".glsl")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
