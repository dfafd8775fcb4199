"""The sample of own kernels: a photograph freed of dust, with kernels and without the same."""

import re
from pathlib import Path

import pytest

from edgec.toolchain.kernels.vulkan.glsl_compiler import tools


@pytest.mark.slow
@pytest.mark.vulkan
def test_kernels_clean_the_photograph_as_plain_jax_does(command, root: Path) -> None:
    targets = "cpu,vulkan" if tools() else "cpu"
    done = command("python", root / "samples/own_kernels/run.py", "--targets", targets)
    rows = re.findall(
        r"(\w+): mean square of the dust ([\d.]+), of what is left ([\d.]+); .* "
        r"the pictures are ([\d.e+-]+) apart",
        done.stdout,
    )
    assert [row[0] for row in rows] == targets.split(",")
    for _, dust, left, apart in rows:
        assert float(left) < float(dust) / 5
        assert float(apart) < 1e-6
