"""edgert's Vulkan on another driver than Mesa's: what every device has to do, on SwiftShader."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.vulkan.software import drivers

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.vulkan
def test_the_conformance_suite_holds_on_swiftshader() -> None:
    driver = drivers().get("SwiftShader")
    if driver is None:
        pytest.skip("there is no SwiftShader: run scripts/setup, which installs Chromium")
    words = ("-m", "pytest", "-q", "tests/runtime/conformance", "-k", "edgert and vulkan")
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=os.environ | {"VK_DRIVER_FILES": str(driver), "VK_ICD_FILENAMES": str(driver)},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.strip().splitlines()[-1]
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in last and "skipped" not in last
