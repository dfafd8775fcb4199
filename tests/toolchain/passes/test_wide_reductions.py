"""Sums of 64 bits over narrower numbers, which the compiler refuses for CUDA in one kernel."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.runtime.errors import CompileError
from edgec.toolchain import CompileOptions
from edgec.toolchain.passes.legalise.wide_reductions import WideReductions
from tests.toolchain.passes.before_after import rewrite


class Count(torch.nn.Module):
    def forward(self, x):
        return (x > 0).sum(1)


def compiled(program, tmp_path: Path, target: str = "cuda:sm_90", **options: object) -> Path:
    chosen = CompileOptions(output=tmp_path / "case.vmfb", cache=False, check=False, **options)
    return toolchain.compile(program, target, chosen).path


def test_counts_of_truths_are_of_32_bits(tmp_path: Path) -> None:
    x = torch.randn(6, 3000, generator=torch.Generator().manual_seed(3))
    program = export(Count(), (x,))
    count, after = rewrite(WideReductions(), program.bytecode)
    assert count == 1
    assert "applies stablehlo.add across dimensions = [1] : (tensor<6x3000xi32>" in after
    (tmp_path / "case.mlir").write_text(after)
    with runtime.load(compiled(tmp_path / "case.mlir", tmp_path, "cpu")) as loaded:
        np.testing.assert_array_equal(loaded.main(x.numpy()), Count()(x).numpy())


@pytest.mark.parametrize(
    ("kind", "size", "narrow"), [(np.int8, 5000, True), (np.int16, 70000, False)]
)
def test_only_sums_that_fit_are_narrow(kind: type, size: int, narrow: bool) -> None:
    with jax.enable_x64(True):
        program = export(lambda x: jnp.sum(x, dtype=np.int64), (np.zeros(size, kind),))
    count, after = rewrite(WideReductions(), program.bytecode)
    assert count == 1
    assert (f"tensor<{size}xi32>" in after) == narrow
    assert ("compute_barrier" in after) != narrow


WIDE = {
    "sum": lambda x: jnp.sum(x, dtype=np.float64),
    "variance": lambda x: jnp.var(x, dtype=np.float64),
    "chosen": lambda x: jnp.sum(jnp.where(x > 0, jnp.arange(4096), 0)),
    "product": lambda x: x.astype(np.float64) @ x.astype(np.float64),
    "softmax": lambda x: jax.nn.softmax(x.astype(np.float64)).astype(np.float32),
}


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize("name", WIDE)
def test_wide_reductions_of_narrow_numbers_compile_for_cuda(name: str, tmp_path: Path) -> None:
    with jax.enable_x64(True):
        program = export(WIDE[name], (np.zeros(4096, np.float32),))
    assert compiled(program, tmp_path).stat().st_size
    with pytest.raises(CompileError, match="failed to distribute"):
        compiled(program, tmp_path, disabled=("wide-reductions",))


def test_what_is_wide_from_the_start_stays_in_one_kernel() -> None:
    with jax.enable_x64(True):
        program = export(lambda x: jnp.sum(x * 2), (np.zeros(4096, np.float64),))
    assert rewrite(WideReductions(), program.bytecode)[0] == 0
