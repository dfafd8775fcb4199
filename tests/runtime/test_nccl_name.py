"""A library that is loaded under another name: by a process that does what IREE's driver does."""

import subprocess
import sys
from pathlib import Path

import pytest

from edgec.runtime.errors import DeviceError
from edgec.runtime.mesh.nccl_name import offer

ASK = """
import ctypes, sys
from edgec.runtime.mesh.nccl_name import offer
try:
    ctypes.CDLL("libnccl.so")
    sys.exit("there is one already")
except OSError:
    offer(sys.argv[1])
number = ctypes.c_int()
ctypes.CDLL("libnccl.so").ncclGetVersion(ctypes.byref(number))
print(number.value)
"""


def test_the_linker_finds_it_by_the_name_that_the_driver_asks_for(tmp_path):
    built = tmp_path / "other_name.so"
    source = Path(__file__).with_name("host_nccl.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-pthread", "-o", built, source], check=True)
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(built)], capture_output=True, text=True, check=False
    )
    if "already" in done.stderr:
        pytest.skip("this machine has NCCL where the linker looks")
    assert done.stdout.strip() == "22707", done.stderr


def test_one_that_cannot_be_loaded_is_an_error(tmp_path):
    with pytest.raises(DeviceError, match="cannot be loaded"):
        offer(str(tmp_path / "libnccl.so.2"))
