"""Small modules to run, compiled once a session straight by `iree-compile`, and the devices."""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from edgec.runtime import Device, DType, Signature
from edgec.runtime.errors import DeviceMissing
from edgec.toolchain.process import compiler_path

CPU = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)
FLAGS: Mapping[str, tuple[str, ...]] = {
    "local-sync": CPU,
    "local-task": CPU,
    "vulkan": ("--iree-hal-target-device=vulkan", "--iree-vulkan-target=vp_android_baseline_2022"),
    "cuda": ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"),
    "edgert": CPU,
}
DTYPES = [dtype for dtype in DType if dtype is not DType.C128]
# Element types whose arithmetic the compiler gets right on the driver; all types can be moved.
# Vulkan's baseline target has no f64, and emulates 8-bit and f16 values wrongly.
COMPUTED: Mapping[str, list[DType]] = {
    "local-sync": DTYPES,
    "local-task": DTYPES,
    "vulkan": [
        d for d in DTYPES if d not in (DType.BOOL, DType.I8, DType.U8, DType.F16, DType.F64)
    ],
    "cuda": DTYPES,
    "edgert": DTYPES,
}

Compile = Callable[..., Path]


@pytest.fixture(scope="session")
def compile_mlir(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """`compile_mlir(text, driver, *flags)` → a `.vmfb`; the same call gives the same file."""
    made: dict[tuple[str, ...], Path] = {}
    folder = tmp_path_factory.mktemp("modules")

    def run(text: str, driver: str = "local-task", *flags: str) -> Path:
        key = (text, *FLAGS[driver], *flags)
        if key not in made:
            source = folder / f"{len(made)}.mlir"
            source.write_text(text)
            output = source.with_suffix(".vmfb")
            tool = compiler_path()
            command = [str(tool), str(source), *FLAGS[driver], *flags, "-o", str(output)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr[:2000]
            made[key] = output
        return made[key]

    return run


def reflect(entries: Mapping[str, object]) -> str:
    """An `iree.reflection` attribute, as it is written on a function."""
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in entries.items()}
    inside = ", ".join(f'"{key}" = {json.dumps(text)}' for key, text in texts.items())
    return f"attributes {{iree.reflection = {{{inside}}}}}"


@pytest.fixture(scope="session")
def reflection() -> Callable[[Mapping[str, object]], str]:
    """`reflection({key: value})` → the attribute text for a function."""
    return reflect


# edgert's own device by Vulkan runs modules for the driver `vulkan`.
DEVICES = (*FLAGS, "edgert://vulkan")


@pytest.fixture(params=DEVICES, scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    """Every device that is here, one after the other."""
    try:
        return Device.open(request.param)
    except DeviceMissing as error:
        pytest.skip(error.what)


FACTS = {
    "target": "cpu:host",
    "driver": "local-task",
    "edgec": "0.1.0",
    "compiler": "3.13.0",
    "cpu_features": [],
    "weights": None,
    "states": [
        {"name": "counter", "shape": [], "dtype": "i32"},
        {"name": "memory", "shape": [4], "dtype": "f32"},
    ],
}

STATEFUL = """
module @stateful {{
  util.global private mutable @counter = dense<0> : tensor<i32>
  util.global private mutable @memory = dense<1.0> : tensor<4xf32>
  func.func @step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>) {step} {{
    %m = util.global.load @memory : tensor<4xf32>
    %c = util.global.load @counter : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %m1 = stablehlo.add %m, %x : tensor<4xf32>
    %c1 = stablehlo.add %c, %one : tensor<i32>
    util.global.store %m1, @memory : tensor<4xf32>
    util.global.store %c1, @counter : tensor<i32>
    return %m1, %c1 : tensor<4xf32>, tensor<i32>
  }}
  func.func @scale(%x: tensor<4xf32>) -> tensor<4xf32> {scale} {{
    %m = util.global.load @memory : tensor<4xf32>
    %r = stablehlo.multiply %m, %x : tensor<4xf32>
    return %r : tensor<4xf32>
  }}
  func.func @edgec_get_state() -> (tensor<i32>, tensor<4xf32>) {{
    %c = util.global.load @counter : tensor<i32>
    %m = util.global.load @memory : tensor<4xf32>
    return %c, %m : tensor<i32>, tensor<4xf32>
  }}
  func.func @edgec_set_state(%c: tensor<i32>, %m: tensor<4xf32>) {{
    util.global.store %c, @counter : tensor<i32>
    util.global.store %m, @memory : tensor<4xf32>
    return
  }}
}}
"""

_X = {"name": "x", "shape": [4], "dtype": "f32"}
STEP = {
    "name": "step",
    "inputs": [_X],
    "outputs": [
        {"name": "memory", "shape": [4], "dtype": "f32"},
        {"name": "counter", "shape": [], "dtype": "i32"},
    ],
    "arguments": [{"name": "x", "tree": 0}],
    "result": {"dict": {"memory": 0, "counter": 1}},
}
SCALE = {
    "name": "scale",
    "inputs": [_X],
    "outputs": [{"name": "scaled", "shape": [4], "dtype": "f32"}],
    "arguments": [{"name": "x", "tree": 0}],
    "result": 0,
}


def stateful_text(driver: str, **facts: object) -> str:
    """The stateful module with edgec's reflection, as the toolchain writes it."""
    module = FACTS | {"driver": driver, "target": f"{driver}:test"} | facts
    step = {
        "edgec.signature": Signature.from_json(STEP).to_json(),
        "edgec.module": module,
        "edgec.check": "unchecked".ljust(64),
    }
    scale = {"edgec.signature": Signature.from_json(SCALE).to_json()}
    return STATEFUL.format(step=reflect(step), scale=reflect(scale))


@pytest.fixture(scope="session")
def stateful_module(compile_mlir: Compile) -> Callable[..., Path]:
    """`stateful_module(driver, facts…)` → an edgec module with two functions and two states."""

    def make(driver: str = "local-task", **facts: object) -> Path:
        return compile_mlir(stateful_text(driver, **facts), driver)

    return make


def dtype_text(dtypes: list[DType]) -> str:
    """A function that returns its argument and one that doubles (inverts) it, for each type."""
    parts = []
    for dtype in DTYPES:
        tensor = f"tensor<?x3x{dtype.mlir}>"
        parts.append(
            f"func.func @echo_{dtype.value}(%x: {tensor}) -> {tensor} {{ return %x : {tensor} }}"
        )
        if dtype in dtypes:
            op = "stablehlo.not %x" if dtype is DType.BOOL else "stablehlo.add %x, %x"
            parts.append(
                f"func.func @twice_{dtype.value}(%x: {tensor}) -> {tensor} {{\n"
                f"  %r = {op} : {tensor}\n  return %r : {tensor} }}"
            )
    return "\n".join(parts)


@pytest.fixture(scope="session")
def dtype_module(compile_mlir: Compile) -> Callable[[str], Path]:
    """`dtype_module(driver)` → echo and twice functions of every element type."""

    def make(driver: str) -> Path:
        return compile_mlir(
            dtype_text(COMPUTED[driver]), driver, "--iree-input-demote-f64-to-f32=false"
        )

    return make


MIXED = """
module @mixed {
  util.global private mutable @held = dense<0.0> : tensor<16xf32>
  func.func @keep(%x: tensor<16xf32>) {
    util.global.store %x, @held : tensor<16xf32>
    return
  }
  func.func @kept() -> tensor<16xf32> {
    %r = util.global.load @held : tensor<16xf32>
    return %r : tensor<16xf32>
  }
  func.func @same(%x: tensor<16xf32>) -> tensor<16xf32> { return %x : tensor<16xf32> }
  func.func @pair(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
    %r = stablehlo.negate %x : tensor<16xf32>
    return %r, %r : tensor<16xf32>, tensor<16xf32>
  }
  func.func @scalar(%x: tensor<f32>, %n: tensor<i32>) -> tensor<f32> {
    %f = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
    %r = stablehlo.multiply %x, %f : tensor<f32>
    return %r : tensor<f32>
  }
  func.func @nothing() -> tensor<16xf32> {
    %r = stablehlo.constant dense<2.5> : tensor<16xf32>
    return %r : tensor<16xf32>
  }
  func.func @product(%a: tensor<?x8xf32>, %b: tensor<8x5xf32>) -> tensor<?x5xf32> {
    %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<?x8xf32>, tensor<8x5xf32>) -> tensor<?x5xf32>
    return %r : tensor<?x5xf32>
  }
}
"""


@pytest.fixture(scope="session")
def mixed_module(compile_mlir: Compile) -> Callable[[str], Path]:
    """`mixed_module(driver)` → a foreign module (no edgec facts) of several small functions."""
    return lambda driver="local-task": compile_mlir(MIXED, driver)
