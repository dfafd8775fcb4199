"""A phone behind a fake `adb` and a board behind a fake `ssh`, both a folder of this machine.

They answer as the real tools do, run the scripts they are given by this machine's shell with the
phone's paths put into the folder, and 64-bit Arm programs by qemu. What goes wrong is asked for in
`state.json`: see `Phone`.
"""

import json
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_COMMON = r"""
import json, os, subprocess, sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATE = HERE / "state.json"
state = json.loads(STATE.read_text())

def keep(**changes):
    state.update(changes)
    STATE.write_text(json.dumps(state))

def settle():
    # The phone's processor: programs for it become scripts that emulate it.
    for program in HERE.rglob("edgert"):
        if program.read_bytes()[:4] == b"\x7fELF":
            program.rename(program.with_name("edgert.arm"))
            program.with_name("edgert.arm").chmod(0o700)
            program.write_text(
                '#!/bin/sh\nexec qemu-aarch64 "$(dirname "$0")/edgert.arm" "$@"\n'
            )

def sh(script, data=b"", merged=False):
    for path in ("/data/local/tmp", "/sys/"):
        script = script.replace(path, f"{HERE}{path}")
    environment = dict(os.environ, PATH=f"{HERE / 'bin'}:{os.environ['PATH']}",
                       TMPDIR=str(HERE / "tmp"))
    done = subprocess.run(["sh", "-c", script], input=data, capture_output=True,
                          env=environment, check=False)
    out = done.stdout.replace(f"{HERE}/data".encode(), b"/data")
    err = done.stderr
    if merged:
        out, err = (out + err).replace(b"\n", b"\r\n"), b""
    sys.stdout.buffer.write(out)
    sys.stderr.buffer.write(err)
    return done.returncode

def fail(text, code=1):
    print(text, file=sys.stderr)
    sys.exit(code)
"""

_ADB = r"""
words = sys.argv[1:]
if words == ["devices"]:
    print("* daemon not running; starting now at tcp:5037\n* daemon started successfully")
    print("List of devices attached")
    for serial, condition in state["devices"].items():
        print(f"{serial}\t{condition}")
    print()
    sys.exit(0)
assert words[0] == "-s", words
serial, verb, *rest = words[1:]
if state["devices"].get(serial) != "device":
    fail(f"error: device '{serial}' not found")
if verb == "shell":
    (script,) = rest
    if state["gone_at"] and state["gone_at"] in script:
        keep(devices={})
        print("half of what it", end="")
        sys.exit(255)
    code = sh(script, merged=state["old"])
    sys.exit(0 if state["old"] else code)
place = lambda path: Path(path.replace("/data/local/tmp", f"{HERE}/data/local/tmp"))
if verb == "push":
    local, remote = rest
    if state["gone_at"] == os.path.basename(remote):
        place(remote).write_bytes(b"half")
        keep(devices={})
        fail(f"adb: error: failed to copy '{local}' to '{remote}': no response: closed")
    if state["full_at"] == os.path.basename(remote):
        place(remote).write_bytes(b"half")
        fail(f"adb: error: failed to copy '{local}' to '{remote}': remote write failed: "
             "No space left on device")
    place(remote).write_bytes(Path(local).read_bytes())
    if state["results_are_full"]:
        place(remote).with_name("out.npz").unlink(missing_ok=True)
        place(remote).with_name("out.npz").symlink_to("/dev/full")
    settle()
    print(f"{local}: 1 file pushed, 0 skipped. 20.0 MB/s (1 bytes in 0.001s)")
if verb == "pull":
    remote, local = rest
    if state["gone_at"] == "pull":
        keep(devices={})
        fail(f"adb: error: failed to stat remote object '{remote}': closed")
    Path(local).write_bytes(place(remote).read_bytes())
    print(f"{remote}: 1 file pulled, 0 skipped.")
"""

_SSH = r"""
words = sys.argv[1:]
while words[0] == "-o":
    words = words[2:]
host, command = words
keep(hosts=[*state["hosts"], host])
if state["refuses"]:
    fail(state["refuses"], 255)
data = sys.stdin.buffer.read()
if state["gone_at"] and (state["gone_at"] in command or state["gone_at"].encode() in data):
    keep(refuses="ssh: connect to host board port 22: No route to host")
    fail("client_loop: send disconnect: Broken pipe", 255)
if command.startswith("cat >") and state["full_at"] and state["full_at"] in command:
    sh(command, data[:100])
    fail("cat: write error: No space left on device")
code = sh(data.decode()) if command == "sh" else sh(command, data)
settle()
sys.exit(code)
"""

_UNAME = """#!/bin/sh
case "$1" in -s) echo Linux;; -m) echo aarch64;; -n) echo board;; esac
"""
_GETPROP = """#!/bin/sh
case "$1" in
  ro.product.cpu.abilist) echo arm64-v8a,armeabi-v7a,armeabi;;
  ro.product.manufacturer) echo Acme;;
  ro.product.model) echo Brick 7;;
esac
"""


@dataclass(frozen=True, kw_only=True)
class Phone:
    """A folder that is a device.

    What can be set:
        devices: serial → what adb says of it.
        gone_at: the device goes away when a file of this name is pushed, when a script with this
            word runs, or at `pull`.
        full_at: no space for a file of this name.
        results_are_full: none for what programs write.
        old: adb hands on no exit code, and mixes both streams.
        refuses: what ssh says instead of connecting.
    """

    folder: Path

    def set(self, **changes: Any) -> None:
        path = self.folder / "state.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    @property
    def state(self) -> Mapping[str, Any]:
        return json.loads((self.folder / "state.json").read_text())

    @property
    def left(self) -> list[str]:
        """What lies in the folders that programs may write to."""
        folders = (self.folder / "data" / "local" / "tmp", self.folder / "tmp")
        return [file.name for folder in folders for file in folder.iterdir()]

    def tell(self, path: str, text: str) -> None:
        """A file of `/sys`."""
        file = self.folder / "sys" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def make_phone(folder: Path, patch: pytest.MonkeyPatch) -> Phone:
    """A phone with the serial number 0123 that `adb` and `ssh` on the PATH lead to."""
    for name in ("data/local/tmp", "sys", "tmp", "bin"):
        (folder / name).mkdir(parents=True)
    tools = folder / "tools"
    state = {
        **{"devices": {"0123": "device"}, "gone_at": "", "full_at": "", "old": False},
        **{"refuses": "", "hosts": [], "results_are_full": False},
    }
    (folder / "state.json").write_text(json.dumps(state))
    head = f"#!{sys.executable} -SE\n{_COMMON}"
    programs = {
        **{"adb": head + _ADB, "ssh": head + _SSH},
        **{"bin/uname": _UNAME, "bin/getprop": _GETPROP},
    }
    for name, text in programs.items():
        program = folder / name
        program.write_text(text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    tools.mkdir()
    for name in ("adb", "ssh"):
        (tools / name).symlink_to(folder / name)
    patch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return Phone(folder=folder)
