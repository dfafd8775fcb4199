"""PyTorch's sparse weights: products with them are NumPy's, and the model keeps them sparse."""

import logging

import numpy as np
import pytest
import torch

from edgec.exporters import Bundle, Entry, export
from edgec.runtime import load
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain import compile_with_report

pytestmark = pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta state")

RANDOM = np.random.default_rng(0)
DENSE = (RANDOM.standard_normal((130, 150)) * (RANDOM.random((130, 150)) < 0.1)).astype(np.float32)
X = RANDOM.standard_normal((150, 5)).astype(np.float32)


class Pruned(torch.nn.Module):
    """A product by a sparse weight, by an operator and by a function of torch.sparse."""

    def __init__(self, how: str):
        super().__init__()
        weight = torch.tensor(DENSE)
        self.register_buffer("weight", getattr(weight, f"to_sparse_{how}")())
        self.bias = torch.nn.Parameter(torch.ones(130, 1))

    def forward(self, x):
        return torch.tanh(self.weight @ x + self.bias)

    def added(self, x):
        return torch.sparse.mm(self.weight, x)


@pytest.mark.parametrize("how", ["csr", pytest.param("coo", marks=pytest.mark.slow)])
def test_products_by_sparse_weights_are_numpys(how, caplog):
    model = Pruned(how)
    entries = (
        Entry(model, (torch.tensor(X),), name="plain"),
        Entry(model.added, (torch.tensor(X),), name="mm"),
    )
    with caplog.at_level(logging.WARNING, logger="edgec.exporters"):
        program = export(Bundle(entries))
    assert f"the weight weight is sparse (sparse_{how}, 10 % not zero)" in caplog.text
    assert model.weight.layout is not torch.strided
    made = compile_with_report(program, "cpu")
    assert made.report.check.startswith("checked")
    with load(made.module.path) as loaded:
        np.testing.assert_allclose(loaded.plain(X), np.tanh(DENSE @ X + 1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(loaded.mm(X), DENSE @ X, rtol=1e-4, atol=1e-5)


def test_a_sparse_tensor_that_is_no_weight_is_refused_with_what_to_do():
    sparse = torch.tensor(DENSE).to_sparse_csr()
    with pytest.raises(UnsupportedOp, match="sparse tensor that is no weight") as caught:
        export(lambda x: sparse @ x, (torch.tensor(X),))
    assert "register_buffer" in caught.value.hint
