"""A source, its types and its constants to the one way to compile it, with its key."""

import ast
import functools
import hashlib
import json
import re
from dataclasses import dataclass
from importlib import resources

__all__ = ["FAMILIES", "Constant", "Family", "Variant", "is_c", "parameters", "sources_digest"]

Constant = int | float | bool | str | tuple[int, ...] | None

SOURCES = resources.files("edgec.toolchain") / "kernels" / "cuda" / "triton"
C_SOURCES = resources.files("edgec.toolchain") / "kernels" / "cuda" / "c"


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family of GPUs that runs the same PTX.

    Attributes:
        capability: as Triton names it.
        ptx: the lowest version of PTX that has what the kernels use.
        descriptors: the same for those that copy whole tiles by descriptor; 0 where none can.
        sums_along_memory: whether matrix units take f32 only where what is summed lies together.
        clusters: whether some programs run together, and write to the memory of one another.
    """

    capability: int
    ptx: int
    descriptors: int = 0
    sums_along_memory: bool = False
    clusters: bool = False


FAMILIES = {
    "sm_80": Family(capability=80, ptx=76),
    # Below 8.6, Triton stores a descriptor's strides as old assemblers want them; newer drivers
    # read these wrongly (all zeros on an H200).
    "sm_90a": Family(capability=90, ptx=80, descriptors=87, sums_along_memory=True, clusters=True),
}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to compile a kernel.

    Attributes:
        name: how profiles call it, without its key (`product_nn_deep_f16`).
        source: the file in `kernels/cuda/triton` or `c`, and the function in it.
        family: of GPUs, a key of `FAMILIES`.
        types: of the parameters that a call gives, by name, in the order of the call: pointers as
            `*f16`, integers as `i32`.
        multiples: what an integer is a known multiple of.
        constants: parameters that are compiled in; None is a pointer that is not there.
        warps: of 32 threads, in one program.
        stages: how many steps ahead a loop copies.
    """

    name: str
    source: str
    family: str
    types: tuple[tuple[str, str], ...]
    multiples: tuple[tuple[str, int], ...]
    constants: tuple[tuple[str, Constant], ...]
    warps: int
    stages: int

    def __post_init__(self) -> None:
        wanted = parameters(self.source)
        given = [name for name, _ in (*self.types, *self.constants)]
        if sorted(wanted) != sorted(given):
            odd = sorted(set(wanted) ^ set(given)) or given
            raise ValueError(f"the kernel {self.source} takes {wanted}; look at {odd}")

    @property
    def is_c(self) -> bool:
        """Whether the source is in C, not in Triton."""
        return is_c(self.source)

    @property
    def ptx_version(self) -> int:
        """The version of PTX that it is written in: the lowest, so that old drivers take it."""
        family = FAMILIES[self.family]
        if self.is_c:
            return family.ptx
        text = (SOURCES / f"{self.source}.py").read_text(encoding="utf-8")
        return family.descriptors if "make_tensor_descriptor" in text else family.ptx

    @property
    def key(self) -> str:
        """What tells this variant from all others of the same sources."""
        facts = (
            # The name is a part of the code: the entry point is called so.
            *(self.name, self.source, self.family, self.types, sorted(self.multiples)),
            *(sorted(self.constants), self.warps, self.stages),
        )
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @property
    def symbol(self) -> str:
        """The name of the binary: readable, and unlike any other variant's."""
        return f"{self.name}_{self.key[:8]}"


@functools.cache
def is_c(source: str) -> bool:
    """Whether a kernel's source is in C."""
    return (C_SOURCES / f"{source}.c").is_file()


@functools.cache
def parameters(source: str) -> tuple[str, ...]:
    """The parameters of a kernel, read from its source: there is no other list of them."""
    if is_c(source):
        text = (C_SOURCES / f"{source}.c").read_text(encoding="utf-8")
        found = re.search(rf"^KERNEL\(\s*{source}\s*,([^)]*)\)", text, re.MULTILINE)
        if found is None:
            raise ValueError(f"{source}.c has no KERNEL({source}, ...)")
        return tuple(name.strip() for name in found[1].split(","))
    tree = ast.parse((SOURCES / f"{source}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == source:
            return tuple(each.arg for each in node.args.args)
    raise ValueError(f"{source}.py has no function {source}")


@functools.cache
def sources_digest() -> str:
    """A digest of all sources, to which compiled kernels are tied."""
    digest = hashlib.sha256()
    files = [*SOURCES.iterdir(), *C_SOURCES.iterdir()]
    for file in sorted(files, key=lambda each: each.name):
        if file.name.endswith((".py", ".c", ".h")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
