"""The check runs where users run the module: on edgert for Vulkan, and says where it could not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.exporters import export
from edgec.toolchain import CompileOptions, compile_with_report
from edgec.toolchain.check import run_check

pytestmark = pytest.mark.vulkan


@pytest.fixture(scope="module")
def request_(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the child is asked."""
    import jax.numpy as jnp

    folder = tmp_path_factory.mktemp("check")
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    program = export(lambda x: jnp.tanh(x) * 2, (x,))
    options = CompileOptions(output=folder / "module.vmfb", check=False, cache=False)
    compile_with_report(program, "vulkan", options)
    assert program.golden is not None
    program.golden.save(folder / "golden.npz")
    return {
        "module": str(folder / "module.vmfb"),
        "golden": str(folder / "golden.npz"),
        "weights": None,
        "device": "gpu",
        "devices": [],
        "only_look": False,
        "tolerance": None,
    }


def test_a_module_for_vulkan_is_checked_on_edgert(request_: dict[str, Any]) -> None:
    reply = run_check(request_)
    assert reply["problem"] == ""
    assert reply["note"] == ""


def test_where_edgert_does_not_take_it_another_runtime_does_and_that_is_said(
    request_: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    choices = ("edgert://vulkan/99", "vulkan://0")
    monkeypatch.setattr("edgec.runtime.loaded.device_choices", lambda uri: choices)
    reply = run_check(request_)
    assert reply["problem"] == ""
    assert "not edgert" in reply["note"]
    assert Path(request_["module"]).name not in reply["note"]
