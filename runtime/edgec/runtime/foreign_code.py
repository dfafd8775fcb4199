"""GPUs' drivers are foreign code: asked in a child process, kept from what they clash with."""

import json
import subprocess
import sys
from typing import Any

from edgec.runtime.errors import DeviceError

__all__ = ["probe_in_child", "refuse_clash"]

_PROBE_SECONDS = 60.0


def refuse_clash(device: str) -> None:
    """Mesa's software Vulkan and TensorFlow carry two LLVMs; together they end in a crash."""
    if "llvmpipe" in device and "tensorflow" in sys.modules:
        raise DeviceError(
            f"{device} and TensorFlow cannot work in one process",
            hint="run the module in a process that does not import tensorflow",
        )


def probe_in_child(driver: str) -> tuple[list[dict[str, Any]], str]:
    """The findings that a child printed, and how it failed if it did."""
    command = [sys.executable, "-m", "edgec.runtime.probe", driver]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
        output, failure = done.stdout, ""
        if done.returncode < 0:
            failure = f"the {driver} driver crashed while it was asked (signal {-done.returncode})"
        elif done.returncode > 0:
            last = (done.stderr.strip().splitlines() or [""])[-1]
            failure = f"the {driver} driver could not be asked: {last}"
    except subprocess.TimeoutExpired as error:
        partial = error.stdout or b""
        output = partial.decode() if isinstance(partial, bytes) else partial
        failure = f"the {driver} driver did not answer within {_PROBE_SECONDS:.0f} s"
    except OSError as error:
        output, failure = "", f"no process could be started: {error}"
    findings = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return findings, failure if not any(f["usable"] for f in findings) else ""
