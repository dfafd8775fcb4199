"""Example inputs as arrays: by name or by place, for any framework."""

from pathlib import Path

import numpy as np
import pytest

from edgec.exporters import export_source
from edgec.runtime.errors import UsageError

SOURCE = """
import torch
import jax.numpy as jnp

class Sub(torch.nn.Module):
    def forward(self, a, b):
        return a - b

model = Sub()

def difference(a, b):
    return jnp.subtract(a, b)
"""


@pytest.mark.parametrize("name", ["model", "difference"])
@pytest.mark.parametrize("keys", [("a", "b"), ("arr_0", "arr_1")])
def test_inputs_by_name_and_by_place(name: str, keys: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / f"given_{name}.py").write_text(SOURCE)
    arrays = [np.arange(3, dtype=np.float32), np.ones(3, np.float32)]
    # In an archive's order, which is not the parameters'.
    given = dict(reversed(list(zip(keys, arrays, strict=True))))
    program = export_source(f"{tmp_path}/given_{name}.py:{name}", inputs=given)
    assert program.golden is not None
    (call,) = program.golden.calls
    np.testing.assert_array_equal(call.outputs[0], arrays[0] - arrays[1])


def test_names_that_are_neither_are_refused(tmp_path: Path) -> None:
    (tmp_path / "given_bad.py").write_text(SOURCE)
    with pytest.raises(UsageError, match="neither by place nor by parameter"):
        export_source(
            f"{tmp_path}/given_bad.py:model", inputs={"arr_0": np.ones(3), "b": np.ones(3)}
        )
