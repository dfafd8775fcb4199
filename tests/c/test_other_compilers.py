"""Modules of the three releases of IREE's compiler before ours: they run, or are refused by name.

`foreign/net.mlir` compiled by the wheels of iree-base-compiler 3.10, 3.11 and 3.12:

    iree-compile net.mlir --iree-hal-target-device=local
        --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v2
        --iree-llvmcpu-target-triple=x86_64-linux-gnu --iree-llvmcpu-debug-symbols=false
        --iree-vm-bytecode-module-strip-source-map=true -o iree-VERSION.vmfb
"""

from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import Module
from edgec.runtime.cpu import architecture
from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession
from edgec.runtime.errors import ModuleMismatch

FOREIGN = Path(__file__).with_name("foreign")
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)

only_x86 = pytest.mark.skipif(architecture() != "x86_64", reason="they hold code of x86-64")


@only_x86
def test_a_module_of_3_12_runs() -> None:
    session = EdgertSession(EdgertModule(FOREIGN / "iree-3.12.vmfb"), EdgertDevice("cpu"))
    (found,) = session.call("main", (X,))
    np.testing.assert_allclose(found, np.tanh(X.sum(1, keepdims=True) / 4 + np.zeros(16)), 1e-5)
    (found,) = session.call("dynamic", (X.ravel(),))
    np.testing.assert_allclose(found, X.ravel() ** 2)


@only_x86
def test_one_of_3_11_dispatches_in_another_way_and_is_refused() -> None:
    module = EdgertModule(FOREIGN / "iree-3.11.vmfb")
    with pytest.raises(ModuleMismatch, match=r"hal\.command_buffer\.dispatch as another version"):
        EdgertSession(module, EdgertDevice("cpu"))


def test_one_of_3_10_has_other_byte_code_and_is_refused() -> None:
    with pytest.raises(ModuleMismatch, match=r"byte code 16\.0, and this runtime runs 17\.0"):
        EdgertModule(FOREIGN / "iree-3.10.vmfb")


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12"])
def test_what_is_in_it_can_be_read_all_the_same(version: str) -> None:
    read = Module.read(FOREIGN / f"iree-{version}.vmfb")
    assert set(read.signatures) == {"main", "dynamic"}
