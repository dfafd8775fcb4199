"""A target, a level and what the program needs, to the flags of `iree-compile`. Pure."""

from collections.abc import Sequence
from pathlib import Path

from edgec.runtime.errors import UsageError
from edgec.targets import Backend, Target
from edgec.toolchain.program import Dialect

__all__ = [
    "LEVELS",
    "command_line",
    "compile_flags",
    "without_evaluation",
    "without_tiling",
    "without_verification",
]

LEVELS: dict[int, str] = {
    0: "the compiler's plainest pipeline, for finding faults",
    1: "plain optimisation, matrices left as they lie in memory",
    2: "good code for the device: matrices re-laid where that pays (the default)",
    3: "every optimisation the compiler has; sometimes faster, sometimes slower",
}
"""What each `-O` level means."""

_TILING = "--iree-opt-data-tiling"
_MOST_FILLED = 1 << 24
"""Bytes by which what is computed at load may be larger than the weights that it is made of."""
_DEVICES: dict[Backend, tuple[str, ...]] = {
    Backend.CPU: (
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
    ),
    Backend.VULKAN: ("--iree-hal-target-device=vulkan",),
    Backend.CUDA: ("--iree-hal-target-device=cuda",),
    Backend.ROCM: ("--iree-hal-target-device=hip",),
    Backend.METAL: ("--iree-hal-target-device=metal",),
    # WebGPU forbids a buffer to be read by one binding and written by another in one dispatch, and
    # binds only from multiples of 256 bytes on.
    Backend.WEBGPU: (
        "--iree-hal-target-device=vulkan",
        "--iree-stream-resource-alias-mutable-bindings",
        "--iree-stream-resource-min-offset-alignment=256",
    ),
}
_GPU_FLAGS: dict[Backend, str] = {
    Backend.VULKAN: "--iree-vulkan-target",
    Backend.WEBGPU: "--iree-vulkan-target",
    Backend.CUDA: "--iree-cuda-target",
    Backend.ROCM: "--iree-rocm-target",
}
_INPUT_TYPES: dict[Dialect, tuple[str, ...]] = {
    Dialect.STABLEHLO: ("--iree-input-type=stablehlo",),
    Dialect.TORCH: ("--iree-input-type=torch", "--iree-torch-emit-async-entry-points=false"),
    Dialect.ONNX: ("--iree-input-type=onnx", "--iree-torch-emit-async-entry-points=false"),
    Dialect.LINALG: ("--iree-input-type=none",),
}


def compile_flags(
    target: Target,
    *,
    level: int = 2,
    dialect: Dialect = Dialect.STABLEHLO,
    doubles: bool = True,
) -> list[str]:
    """The flags, in a fixed order.

    Demotion of 64-bit types is off, so that signatures come back as declared. Floats are computed
    in 32 bits where the program does not mean them wider (`doubles`, MiniLM on CUDA: refused with
    them, right without), and on a device without 64-bit floats; a program that takes or gives one
    is refused there before this is asked.

    Raises:
        UsageError: there is no such level.
    """
    if level not in LEVELS:
        raise UsageError(f"there is no level -O{level}", hint="use -O0, -O1, -O2 or -O3")
    return [
        *_INPUT_TYPES[dialect],
        *_DEVICES[target.backend],
        *_cpu_flags(target),
        *_gpu_flags(target),
        *_spirv_flags(target),
        *_turned_weights_flags(target),
        *_level_flags(target, level),
        "--iree-input-demote-i64-to-i32=false",
        f"--iree-input-demote-f64-to-f32={'false' if doubles and target.limits.f64 else 'true'}",
        "--iree-vm-bytecode-module-strip-source-map",
        *target.flags,
    ]


def command_line(
    compiler: Path, source: Path, output: Path, flags: Sequence[str], extra: Sequence[str] = ()
) -> list[str]:
    """The whole command; `extra` comes last, so that the user's own flags win."""
    return [str(compiler), str(source), "-o", str(output), *flags, *extra]


def without_tiling(command: Sequence[str]) -> list[str] | None:
    """The command without data tiling; None where it has none.

    The compiler dies in it on some programs (iree-compile 3.13, a matrix product to whose result
    a truth made f32 is added: MaterializeDeviceEncoding) that it compiles well without.
    """
    plain = [word for word in command if word != _TILING]
    return plain if len(plain) < len(command) else None


def without_evaluation(command: Sequence[str], said: str) -> list[str] | None:
    """The command without working out constants; None where that is not what the compiler said.

    iree-compile 3.13 runs what is constant before it compiles the rest, and orders wrongly what it
    runs ("jit global source initialization order invalid": complex Cholesky factorisations for
    Vulkan). Without it the device works them out when the module is loaded.
    """
    return [*command, "--iree-opt-const-eval=false"] if "jit global source" in said else None


def without_verification(command: Sequence[str]) -> list[str]:
    """The command without the compiler's check of the program behind each of its own steps.

    That is a third of its time (SmolLM2 for a CPU: 22 s of a core for 35, and the same module), and
    finds faults of the compiler alone. Of 33 programs that it refuses 3 become modules without, so
    this is for what is proved by its answers afterwards.
    """
    if any(word.startswith("--verify") for word in command):  # the user's own word
        return list(command)
    return [*command[:4], "--verify=false", *command[4:]]


def _cpu_flags(target: Target) -> list[str]:
    cpu = target.cpu
    if cpu is None:
        return []
    flags = []
    if cpu.triple:
        flags.append(f"--iree-llvmcpu-target-triple={cpu.triple}")
    flags.append(f"--iree-llvmcpu-target-cpu={cpu.cpu}")
    if cpu.features:
        flags.append(f"--iree-llvmcpu-target-cpu-features={','.join(cpu.features)}")
    if cpu.abi:
        flags.append(f"--iree-llvmcpu-target-abi={cpu.abi}")
    if target.limits.stack:
        flags.append(f"--iree-llvmcpu-stack-allocation-limit={target.limits.stack}")
    return flags


def _gpu_flags(target: Target) -> list[str]:
    gpu = target.gpu
    if gpu is None or target.backend not in _GPU_FLAGS:
        return []
    name = _GPU_FLAGS[target.backend]
    flags = [f"{name}={gpu.target}"] if gpu.target else []
    if gpu.features:
        flags.append(f"{name}-features={','.join(gpu.features)}")
    return flags


def _spirv_flags(target: Target) -> list[str]:
    """Keep transposes out of kernels that reduce.

    The compiler fuses `transpose(x * rsqrt(sum(x * x)))` into one kernel whose threads hand the
    sum to each other through workgroup memory without a barrier (read from the SPIR-V of a norm
    before PyTorch's multi-head attention: other numbers at each call). Moving transposes is what
    brings them there; leaving them costs nothing measurable (2-layer encoder on llvmpipe).
    """
    if not target.is_spirv:
        return []
    return ["--iree-global-opt-propagate-transposes=false", *_binding_flags(target)]


def _binding_flags(target: Target) -> list[str]:
    """Put weights into several buffers where a kernel may not reach into one that holds all.

    The compiler lays all constants behind each other and gives each kernel the whole with an
    offset (BERT-base: 340 MB); devices promise to take 128 MiB.
    """
    most = target.limits.binding
    return [f"--iree-stream-resource-max-allocation-size={most}"] if most else []


def _turned_weights_flags(target: Target) -> list[str]:
    """Compute once what weights from a file are turned into for kernels.

    The compiler computes at load what is up to a megabyte larger, all else in every call. Weights
    of Winograd's convolution are four times as large; those of a ViT's patches, filled up from
    three channels to eight, two megabytes larger, and took 20 us of each call on an H100.
    """
    most = most_filled(target)
    return [f"--iree-opt-const-expr-max-size-increase-threshold={most}"] if most else []


def most_filled(target: Target) -> int:
    """Bytes by which what is computed at load may be larger than the weights that it is made of.

    0 where that is the compiler's own choice.
    """
    if target.gpu is None or not target.gpu.kernels:
        return 0
    if target.gpu.kernels == "direct":
        return target.limits.binding or 2**31 - 1
    return _MOST_FILLED


def _level_flags(target: Target, level: int) -> list[str]:
    """The compiler's own level and data tiling.

    Its O2 and O3 turn named matrix products into generic ones, which data tiling then passes over
    (a 4-layer encoder on 2 threads: 10.9 ms with O1 and tiling, 16.1 with O2 and tiling, 18.6 with
    neither), so -O2 means its O1 and tiling, and -O3 leaves that one step out.
    """
    tiling = [_TILING] if target.data_tiling else []
    match level:
        case 2:
            return ["--iree-opt-level=O1", *tiling]
        case 3 if tiling:
            return ["--iree-opt-level=O3", *tiling, "--iree-opt-generalize-matmul=false"]
        case _:
            return [f"--iree-opt-level=O{level}"]
