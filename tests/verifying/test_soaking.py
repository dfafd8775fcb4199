import numpy as np
import pytest

from edgec.runtime import Module
from edgec.toolchain import CompileOptions, compile
from edgec.verifying import soak
from edgec.verifying.soaking import changes

TEXT = """
func.func public @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = stablehlo.negate %x : tensor<64xf32>
  return %0 : tensor<64xf32>
}
"""
X = np.arange(64, dtype=np.float32)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Module:
    path = tmp_path_factory.mktemp("soaking") / "net.mlir"
    path.write_text(TEXT)
    return compile(path, "cpu", CompileOptions(output=path.with_suffix(".vmfb"), cache=False))


def test_the_same_bits_in_every_round_are_no_error(module: Module) -> None:
    found = soak(module, [("main", (X,))], device="cpu?threads=2", weights=None, rounds=6)
    assert found.change is None
    assert found.failure("net") is None
    assert found.rounds == {"alone": 6, "from 4 threads": 8, "beside other work": 6}


def test_bits_that_change_are_an_error_that_names_the_output(module: Module) -> None:
    other = -X.copy()
    other[5] = np.nextafter(other[5], np.float32(0))
    found = changes(module, [("main", (X,))], [[-X]], [[other]], "alone", 3)
    assert found is not None
    assert (found.output, found.count, found.at, found.round) == ("out0", 1, 5, 3)
    assert (found.first, found.now) == ("-5.0", "-4.9999995")


def test_a_zero_of_another_sign_is_another_bit(module: Module) -> None:
    assert changes(module, [("main", (X,))], [[-X]], [[np.where(X == 0, 0, -X)]], "alone", 0)
