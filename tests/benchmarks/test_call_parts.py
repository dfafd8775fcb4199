"""A call's parts are what a call does: recorded once, submitted once, waited for."""

import json
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from edgec import toolchain
from edgec.exporters import export

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPT = """
import ctypes, json, sys
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
import call_parts
sys.argv[0] = __file__
library = Path(sys.argv[3])
call_parts._begin_again(library)
noting = ctypes.CDLL(str(library))
from edgec import runtime
loaded = runtime.load(sys.argv[2], device="edgert://vulkan")
there = [loaded.device.put(np.ones((300, 64), np.float32))]
call = lambda: loaded.main.call_flat(there)
call()
print(json.dumps(call_parts.parts(noting, call, 3, stamped=False)))
"""


@pytest.mark.vulkan
def test_a_call_with_kernels_is_recorded_once_and_submitted_once(tmp_path: Path) -> None:
    sys.path.insert(0, str(BENCHMARKS / "vulkan"))
    import call_parts

    # Its mean is a kernel of edgec's own, its sine the compiler's.
    program = export(lambda x: jnp.sin(jnp.mean(x, 0)), (np.ones((300, 64), np.float32),))
    options = toolchain.CompileOptions(check=False, output=tmp_path / "m.vmfb")
    made = toolchain.compile_with_report(program, "vulkan:nvidia-ada", options)
    share = made.report.kernels
    assert share is not None
    assert share.own_bytes > 0.9 * share.bytes
    script = tmp_path / "parts.py"
    script.write_text(SCRIPT)
    library = call_parts.compile_library(tmp_path)
    words = (sys.executable, script, BENCHMARKS / "vulkan", tmp_path / "m.vmfb", library)
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["submissions"] == 1
    assert found["recordings"] == 0
    assert found["allocations"] == 0
    assert found["waits"] >= 1
    assert 0 < found["submitting"] < found["call"]
    assert 0 < found["waiting"] < found["call"]
