"""What is known of a device, read from one TOML file: driver, instruction set, GPU, limits."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, TypeVar

from edgec.runtime.cpu import architecture
from edgec.runtime.errors import TargetError

__all__ = [
    "Backend",
    "ByteProducts",
    "Cache",
    "Cpu",
    "Gpu",
    "Limits",
    "Note",
    "Target",
    "Vectors",
]

T = TypeVar("T")

_ISAS = {
    "x86_64": "x86_64",
    "aarch64": "arm_64",
    "arm64": "arm_64",
    "armv7a": "arm_32",
    "riscv64": "riscv_64",
    "wasm32": "wasm_32",
}
"""The first word of a triple to an instruction set."""


class Backend(Enum):
    """The code generator in the compiler; the value is its name there.

    WebGPU's is edgec's own, behind the compiler's for Vulkan.
    """

    CPU = "llvm-cpu"
    VULKAN = "vulkan-spirv"
    CUDA = "cuda"
    ROCM = "rocm"
    METAL = "metal-spirv"
    WEBGPU = "webgpu-wgsl"


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """The vector registers that code for a processor uses.

    Attributes:
        machines: the architectures that it is said of, as the system names them; any if empty.
        features: what such a processor must have, as Linux names it (for the machine that compiles;
            other targets say what they have).
        lanes: f32 values in one register.
        registers: how many registers there are.
        fused: whether multiply and add are one instruction.
        broadcasts: whether an arithmetic instruction can take one f32 in memory for all lanes.
        by_lane: whether a multiplication can take one lane of a register for all lanes.
        halves: whether an instruction widens f16 to f32, a register of them at a time.
    """

    machines: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    lanes: int
    registers: int
    fused: bool = True
    broadcasts: bool = False
    by_lane: bool = False
    halves: bool = False

    def __post_init__(self) -> None:
        if self.lanes < 2 or self.registers < 2:
            raise TargetError(f"vectors have more than {self.lanes} lanes and {self.registers}")


@dataclass(frozen=True, kw_only=True)
class ByteProducts:
    """An instruction that multiplies bytes four by four and sums them in i32.

    Attributes:
        machines, features: as for `Vectors`.
        signed: whether the values are bytes from -128 to 127; otherwise from 0 to 255. Weights are
            always signed.
    """

    machines: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    signed: bool


@dataclass(frozen=True, kw_only=True)
class Cache:
    """The second cache of a core; without a word of a target's own, 1 MiB as servers have it.

    Attributes:
        line: bytes of a line.
        sets: how many sets of lines there are.
        ways: lines of a set.
    """

    line: int = 64
    sets: int = 1024
    ways: int = 16

    def __post_init__(self) -> None:
        if min(self.line, self.sets, self.ways) < 1:
            raise TargetError(f"a cache has no {self.sets} sets of {self.ways} lines")

    @property
    def size(self) -> int:
        """Bytes in all."""
        return self.line * self.sets * self.ways


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """A processor as LLVM names it.

    Attributes:
        triple: the LLVM target triple; empty for the machine that compiles.
        cpu: the LLVM processor name; `host` for the machine that compiles.
        features: LLVM features on top of the processor's own (`+dotprod`).
        abi: the value of `-mabi`, where the triple alone is ambiguous.
        requires: the features a machine must have to run the code, in LLVM's spelling; what the
            triple itself guarantees (SSE2, NEON on arm64) is left out.
        vectors: its vector registers; of several, the first whose processor it is.
        byte_products: its instruction for products of bytes, likewise.
        cache: the second cache of its cores.
    """

    triple: str = ""
    cpu: str = "generic"
    features: tuple[str, ...] = ()
    abi: str = ""
    requires: tuple[str, ...] = ()
    vectors: tuple[Vectors, ...] = ()
    byte_products: tuple[ByteProducts, ...] = ()
    cache: Cache = field(default_factory=Cache)


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU as the compiler names it.

    Attributes:
        target: the compiler's name for it; empty for the compiler's own default.
        features: what replaces the default features of that name.
        capability: NVIDIA's compute capability (90); 0 for other GPUs.
        devices: words of which one is in a device's name where the code runs right (in lower
            case); empty where any device of the driver will do.
        subgroup: how many lanes a subgroup has that kernels count on (Vulkan), which modules ask
            drivers for; 0 where they count on none.
        kernels: which of edgec's own kernels it takes (`sm_80`, `sm_90a`); empty for none.
        multiprocessors: how many cores with registers and shared memory of their own.
        shared_memory: bytes that one program may share on such a core.
        registers: numbers that a thread may hold without spilling them; 0 where that is no limit.
        clock: MHz that it reaches.
        tensor: 10^12 operations a second of its matrix units, with f16 summed in f32.
        vector: the same of its other units, in f32.
        bandwidth: 10^9 bytes a second of its memory.
        words: whether kernels with bytes in their buffers are made once more with words, for
            devices without 8-bit storage.
    """

    target: str = ""
    features: tuple[str, ...] = ()
    capability: int = 0
    devices: tuple[str, ...] = ()
    subgroup: int = 0
    kernels: str = ""
    multiprocessors: int = 0
    shared_memory: int = 0
    registers: int = 0
    clock: int = 0
    tensor: float = 0.0
    vector: float = 0.0
    bandwidth: float = 0.0
    words: bool = False

    def __post_init__(self) -> None:
        if self.kernels and not (self.multiprocessors and self.shared_memory and self.clock):
            raise TargetError(f"{self.target} takes kernels, but its size is not known")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the device cannot do or hold.

    Attributes:
        f64: whether 64-bit floats exist on the device at all.
        i64: whether it computes in 64-bit integers; where not, the compiler emulates them.
        f16: whether what the compiler makes of 16-bit floats runs at all.
        stack: bytes of stack that one kernel may use (CPU only).
        buffers: memory that one kernel may be given, in pieces; 0 where that is no limit.
        invocations: of one workgroup, likewise.
        shared: bytes that a workgroup may share, likewise.
        binding: bytes that one piece of memory given to a kernel may have, likewise.
    """

    f64: bool = True
    i64: bool = True
    f16: bool = True
    stack: int = 0
    buffers: int = 0
    invocations: int = 0
    shared: int = 0
    binding: int = 0


@dataclass(frozen=True, kw_only=True)
class Note:
    """One fact worth knowing, and where it was learned."""

    text: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Target:
    """One device profile, `driver:profile`.

    Attributes:
        name: what `--target` takes; `aliases` are other spellings.
        summary: one line for the catalogue.
        driver: the runtime's HAL driver that runs such a module.
        backend: the code generator.
        cpu: the processor, for `llvm-cpu`.
        gpu: the GPU, for the others.
        data_tiling: whether matrix products are worth re-laying in memory.
        flags: compiler flags that only this device needs.
        notes: facts with their sources.
    """

    name: str
    summary: str
    driver: str
    backend: Backend
    aliases: tuple[str, ...] = ()
    cpu: Cpu | None = None
    gpu: Gpu | None = None
    limits: Limits = field(default_factory=Limits)
    data_tiling: bool = False
    flags: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        if (self.backend is Backend.CPU) != (self.cpu is not None):
            raise TargetError(f"the target {self.name} needs [cpu] exactly with llvm-cpu")

    @property
    def isa(self) -> str:
        """The instruction set as module formats spell it: of its CPU, or of this machine's."""
        triple = self.cpu.triple if self.cpu else ""
        return _ISAS.get(triple.partition("-")[0], "") if triple else architecture()

    @property
    def is_spirv(self) -> bool:
        """Whether its kernels are SPIR-V, whose code generator has faults of its own."""
        return self.backend in (Backend.VULKAN, Backend.METAL, Backend.WEBGPU)

    @property
    def is_llvm_gpu(self) -> bool:
        """Whether its kernels come from iree-compile's LLVMGPU code generator, with its faults."""
        return self.backend in (Backend.CUDA, Backend.ROCM)

    @property
    def computes_on_host(self) -> bool:
        """Whether kernels run on the processor that calls them.

        It reads what they computed from its own memory; from another device each number that
        decides what comes next costs a round trip, through the device's queue and back.
        """
        return self.backend is Backend.CPU

    @property
    def required_features(self) -> tuple[str, ...]:
        """CPU features that a machine must have to run a module for this target."""
        return self.cpu.requires if self.cpu else ()

    @property
    def file_name(self) -> str:
        """The name in a form fit for file names: `cpu-arm64-v8.2`."""
        return self.name.replace(":", "-")

    def to_json(self) -> dict[str, Any]:
        """Everything, in plain JSON types, for `edgec targets --json`."""

        def plain(value: Any) -> Any:
            if isinstance(value, Enum):
                return value.value
            if isinstance(value, tuple):
                return [plain(item) for item in value]
            if hasattr(value, "__dataclass_fields__"):
                return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
            return value

        result: dict[str, Any] = plain(self)
        return result

    @classmethod
    def from_toml(cls, text: str) -> "Target":
        """Read a target file.

        Raises:
            TargetError: the text is no TOML, or a key is missing, unknown or of a wrong type.
        """
        try:
            return cls.from_json(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise TargetError(f"damaged target file: {error}") from error

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Target":
        """The inverse of `to_json`; what is left out has its default.

        Raises:
            TargetError: a key is missing, unknown or of a wrong type.
        """
        table = {key: item for key, item in value.items() if item is not None}
        try:
            nested: dict[str, Any] = {
                "backend": Backend(table.pop("backend")),
                "cpu": _cpu(table.pop("cpu")) if "cpu" in table else None,
                "gpu": _table(Gpu, table.pop("gpu")) if "gpu" in table else None,
                "limits": _table(Limits, table.pop("limits", {})),
                "notes": tuple(_table(Note, note) for note in table.pop("notes", ())),
            }
            return cls(**_tuples(table), **nested)
        except (KeyError, TypeError, ValueError) as error:
            raise TargetError(f"damaged target file: {error}") from error


def _tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}


def _cpu(table: Mapping[str, Any]) -> Cpu:
    known = dict(table)
    vectors = tuple(_table(Vectors, each) for each in known.pop("vectors", ()))
    products = tuple(_table(ByteProducts, each) for each in known.pop("byte_products", ()))
    cache = _table(Cache, known.pop("cache", {}))
    return replace(_table(Cpu, known), vectors=vectors, byte_products=products, cache=cache)


def _table(kind: type[T], table: Mapping[str, Any]) -> T:
    return kind(**_tuples(table))
