"""Products of two computed matrices on the CPU against NumPy in 64 bits."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.targets import Target
from edgec.toolchain import CompileOptions, Program, compile, run_passes
from edgec.toolchain.kernels.cpu.source import VectorUnit
from edgec.toolchain.kernels.cpu.source.product import Matrices, ProductKernel
from edgec.toolchain.match.indices import Index
from edgec.toolchain.match.validation import validating
from edgec.toolchain.passes.place.cpu_kernels import CpuKernels
from edgec.toolchain.passes.simplify.canonicalise import Canonicalise
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.toolchain.by_lane import BY_LANE

AVX512 = VectorUnit(lanes=16, registers=32, broadcasts=True)

PRODUCTS = {
    "mk,kn->mn": ((33, 50), (50, 47)),
    "bmk,bnk->bmn": ((3, 29, 40), (3, 37, 40)),
    "bkm,bkn->bmn": ((2, 21, 19), (2, 21, 64)),
    "mhk,nhk->hmn": ((26, 3, 24), (31, 3, 24)),
    "hmn,nhk->mhk": ((3, 26, 31), (31, 3, 40)),
    "abmk,abkn->abmn": ((2, 3, 18, 20), (2, 3, 20, 21)),
    "bmk,kbn->mbn": ((4, 17, 36), (36, 4, 15)),
    "mk,nk->mn": ((40, 1030), (35, 1030)),
    "m,n->mn": ((300,), (200,)),
}
"""Sizes that are no multiples of a tile or vector, sides and results that lie in all ways."""


def model(*pairs):
    return tuple(
        jnp.einsum(equation, jnp.sin(left), jnp.sin(right))
        for equation, (left, right) in zip(PRODUCTS, pairs, strict=True)
    )


def arrays():
    random = np.random.default_rng(3)
    return [
        tuple(random.standard_normal(size).astype(np.float32) for size in sizes)
        for sizes in PRODUCTS.values()
    ]


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Program:
    return export(model, arrays()).save(tmp_path_factory.mktemp("products") / "all.mlirbc")


@pytest.mark.parametrize(
    "target", ["cpu", pytest.param("cpu:x86-64-v2", marks=pytest.mark.slow), BY_LANE]
)
def test_products_of_all_layouts_are_right(
    target: str | Target, program: Program, tmp_path: Path
) -> None:
    output = tmp_path / "all.vmfb"
    compile(program, target, CompileOptions(output=output, check=False))
    with load(output) as module:
        flat = [each for pair in arrays() for each in pair]
        found = module["main"].call_flat(flat)
    for equation, result, pair in zip(PRODUCTS, found, arrays(), strict=True):
        left, right = (np.sin(each.astype(np.float64)) for each in pair)
        expected = np.einsum(equation, left, right)
        np.testing.assert_allclose(result.numpy(), expected, atol=2e-6 * expected.std() * 40)


def test_each_is_one_kernel_and_nothing_is_moved(program: Program) -> None:
    """Whether rows or columns are neighbours where the result is wanted."""
    with ir.Context() as context, validating():
        module = parse_stablehlo(program.bytecode, context)
        Canonicalise().run(module)
        count = CpuKernels(unit=AVX512).run(module)
        module.operation.verify()
        text = str(module)
    assert count == len(PRODUCTS)
    main = text[text.index("func.func public @main") :]
    assert main.count("flow.dispatch @edgec_matrices") == count
    assert "stablehlo.transpose" not in main


@pytest.mark.parametrize(("own", "inner", "asks"), [(1, 300, True), (40, 1, False)])
def test_rows_that_are_neighbours_are_asked_for_ahead(own: int, inner: int, asks: bool) -> None:
    """Rows that run along what is summed are pieces of memory: a processor guesses those."""
    kernel = ProductKernel(
        batch=(),
        m=300,
        n=64,
        inner=(Index(size=40, steps=(inner, 64)),),
        left=Matrices(size=12000, start=0, batch=(), own=own),
        right=Matrices(size=2560, start=0, batch=(), own=1),
        out=Matrices(size=19200, start=0, batch=(), own=64),
        lanes=16,
        unit=AVX512,
    )
    with ir.Context():
        assert ("memref.prefetch" in kernel.text("NAME")) is asks


class Gated(torch.nn.Module):
    """Attention whose weights are changed before their product: no attention of any kernel."""

    def forward(self, x, gate):
        q, k, v = x.reshape(50, 3, 4, 24).permute(1, 2, 0, 3)
        weights = (q @ k.transpose(-2, -1)).softmax(-1) * gate
        return (weights @ v).transpose(0, 1).reshape(50, 96), weights


def test_a_gated_attention_has_kernels_for_both_products() -> None:
    program = export(Gated(), (torch.randn(50, 288), torch.rand(4, 50, 50)))
    report = run_passes(program, "cpu:x86-64-v4")
    assert report.kernels is not None
    assert not [left for left in report.kernels.left if "product" in left.what]


def test_few_rows_are_declined_with_a_reason() -> None:
    x = np.zeros((8, 2, 256), np.float32), np.zeros((8, 256, 300), np.float32)
    report = run_passes(export(jnp.matmul, x), "cpu:x86-64-v4")
    assert report.kernels is not None
    assert "2 rows and 300 columns" in {left.reason for left in report.kernels.left}


class Tokens(torch.nn.Module):
    """Tokens that a model has learnt, of two kinds, which a layer turns before any input."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        sizes = ((3, 256), (5, 256), (256, 256))
        one, other, weights = (torch.randn(*size, generator=generator) for size in sizes)
        self.one, self.other = torch.nn.Parameter(one), torch.nn.Parameter(other)
        self.weights = torch.nn.Parameter(weights)

    def forward(self, x):
        tokens = torch.tanh(torch.cat([self.one, self.other]) @ self.weights.T)
        return x @ tokens.T + (tokens @ self.weights.T).sum()


def test_a_product_of_what_is_constant_is_worked_out_by_the_compiler(tmp_path: Path) -> None:
    """With a kernel of edgec's own in it, the module by which it does so has too little stack."""
    module, x = Tokens(), torch.randn(16, 256, generator=torch.Generator().manual_seed(1))
    program = export(module, (x,))
    output = tmp_path / "tokens.vmfb"
    compile(program, "cpu", CompileOptions(output=output, check=False))
    with load(output) as made:
        (found,) = made["main"].call_flat([x.numpy()])
    one, other, weights = (value.detach().double() for value in module.parameters())
    tokens = torch.tanh(torch.cat([one, other]) @ weights.T)
    expected = x.double() @ tokens.T + (tokens @ weights.T).sum()
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=2e-3)
