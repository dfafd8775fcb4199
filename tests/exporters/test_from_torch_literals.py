"""Constants inside a torch graph reach portable bytecode, whatever their element type."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.exporters.from_torch.literals import literals


def test_group_norm_whose_lowering_makes_a_constant_exports_and_is_right() -> None:
    x = torch.randn(1, 8, 6, 6, generator=torch.Generator().manual_seed(0))
    model = torch.nn.GroupNorm(4, 8).eval()
    program = export(model, (x,))
    module = toolchain.compile(program, "cpu", toolchain.CompileOptions(check=False))
    with runtime.load(module) as loaded:
        found = loaded.main(x.numpy())
    np.testing.assert_allclose(found, model(x).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (torch.int64, "dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xsi64>"),
        (torch.uint8, "dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xui8>"),
        (torch.bool, "dense<[[false, true, true], [true, true, true]]> : tensor<2x3xi1>"),
        (torch.float16, "3.000000e+00, 4.000000e+00, 5.000000e+00]]> : tensor<2x3xf16>"),
        (torch.bfloat16, "3.000000e+00, 4.000000e+00, 5.000000e+00]]> : tensor<2x3xbf16>"),
    ],
)
def test_values_of_each_type_are_written_out(dtype: torch.dtype, text: str) -> None:
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect
    from torch_mlir.extras.fx_importer import ContextCache

    context = ir.Context()
    torch_dialect.register_dialect(context)
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    with context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            importer = SimpleNamespace(_cc=ContextCache(context))
            literals().resolve_literal(importer, tensor, None)
        assert text in str(module)
