"""Small programs to tune, and a pool that measures nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.runtime.golden import Golden, GoldenCall
from edgec.targets import find
from edgec.toolchain import Program, load_program
from edgec.toolchain.kernels.gpu.tiles import Tile
from edgec.toolchain.settings import Settings
from edgec.toolchain.tuning.evaluate import Subject
from edgec.toolchain.tuning.measure import Measured
from edgec.toolchain.tuning.outlook import KernelTimes
from edgec.toolchain.tuning.profile import Outcome, Trial

PRODUCT = """
func.func public @main(%x: tensor<12x64xf32>) -> tensor<12x96xf32> {
  %w = stablehlo.constant dense<WEIGHTS> : tensor<64x96xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<12x64xf32>, tensor<64x96xf32>) -> tensor<12x96xf32>
  return %0 : tensor<12x96xf32>
}
"""
KEY = "edgec_product_1x1_1x12x64x96"
"""The kernel that the product becomes."""


@dataclass(frozen=True, kw_only=True)
class Product:
    """A program file, its weights, and an input with the answer by NumPy."""

    path: Path
    x: np.ndarray
    answer: np.ndarray

    @property
    def program(self) -> Program:
        return load_program(self.path)


@pytest.fixture
def product(tmp_path: Path) -> Product:
    """`x @ w` with its golden answers beside it."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((64, 96)).astype(np.float32)
    x = random.standard_normal((12, 64)).astype(np.float32)
    path = tmp_path / "product.mlir"
    path.write_text(PRODUCT.replace("WEIGHTS", f'"0x{weights.tobytes().hex().upper()}"'))
    answer = x @ weights
    call = GoldenCall(signature="main", inputs=(x,), outputs=(answer,))
    Golden(calls=(call,)).save(Golden.path_for(path))
    return Product(path=path, x=x, answer=answer)


@pytest.fixture
def subject(product: Product) -> Subject:
    return Subject(program=product.program, target=find("cpu"))


Verdict = Callable[[str, Settings], tuple[Outcome, float | None]]


@dataclass(kw_only=True)
class FakePool:
    """A device on which `verdict` says how a candidate fares, and `kernel` how long a cut takes.

    `keys` are the kernels of a GPU, and `tile` says how long one takes.
    """

    verdict: Verdict
    keys: dict[str, int] = field(default_factory=dict)
    tile: Callable[[str, Tile | None], float | None] = lambda key, tile: 1.0
    kernel: Callable[[Settings], dict[str, float] | None] = lambda settings: {}
    final: float = 0.9
    width: int = 1
    names: list[str] = field(default_factory=list)
    rounds: int = 0
    stands_alone: bool = False
    rate: float = 0.0
    alone: int = 0
    beside: float = 1.1
    compiling: float = 0.0

    def run(self, works: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        return [getattr(self, f"_{name}")(*arguments) for name, arguments in works]

    def close(self) -> None:
        pass

    def _find_device(self) -> str:
        return "a fake device"

    def _prepare(self) -> float:
        return self.compiling

    def _effective_passes(self) -> list[str]:
        return ["cpu-kernels", "annotate"]

    def _measure(self, base: Settings, candidate: Settings, seconds: float) -> Measured:
        ratio = 1.0 if base.key == candidate.key else self.final
        return Measured(ratio=ratio, agreeing=1.0, base=1.0, candidate=ratio, turns=20)

    def _trial(
        self, name: str, base: Settings, settings: Settings, seconds: float, left: float
    ) -> Trial | None:
        self.names.append(name)
        outcome, ratio = self.verdict(name, settings)
        return Trial(name=name, settings=settings, outcome=outcome, ratio=ratio, seconds=ratio)

    def _tiled(self) -> dict[str, int]:
        return self.keys

    def _tile_time(self, key: str, tile: Tile | None, left: float) -> float | None:
        return self.tile(key, tile)

    def _alone_times(
        self, keys: Sequence[str], cuts: dict[str, Any], left: float
    ) -> KernelTimes | None:
        if not self.stands_alone:
            return KernelTimes(own={}, call=0.0)
        times = self.kernel(Settings(cuts=cuts))
        self.alone += 1
        if times is None:
            return None
        return KernelTimes(own=times, call=sum(times.values()), rate=self.rate)

    def _kernel_times(self, settings: Settings, calls: int, left: float) -> KernelTimes | None:
        self.rounds += 1
        times = self.kernel(settings)
        return (
            None
            if times is None
            else KernelTimes(own=times, call=self.beside * sum(times.values()))
        )


@pytest.fixture
def fake() -> type[FakePool]:
    return FakePool
