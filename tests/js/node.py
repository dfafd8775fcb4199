"""JavaScript in node: the package `edgec-runtime`, built once a checkout, and scripts with it."""

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.web.chromium import find_chromium
from edgec.packaging.web_runtime import write_runtime

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "js"


def need_node() -> None:
    """Skip where node is missing; fail in CI, where scripts/setup has installed it."""
    _need(shutil.which("node"), "node")


def need_chromium() -> None:
    """The same for Chromium."""
    _need(find_chromium(), "chromium")


def _need(found: str | None, name: str) -> None:
    if found is None and os.environ.get("CI"):
        pytest.fail(f"{name} is missing: scripts/setup installs it")
    if found is None:
        pytest.skip(f"no {name}: run scripts/setup")


def write_runtime_once(folder: Path, *, text: bool = False) -> Path:
    """The package in a folder; only one process at a time compiles edgert."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_runtime(folder, text=text)
    return folder


def run_node(script: str, folder: Path, **values: Any) -> Any:
    """What a script prints as JSON by `print(value)`; it sees `values` as constants.

    The script is a module in `folder`, and `load` and so on are imported from
    `./edgec-runtime/index.js` there.
    """
    constants = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
    file = folder / "script.mjs"
    file.write_text(
        "import * as runtime from './edgec-runtime/index.js';\n"
        "const { EdgeError, features, load, tensor } = runtime;\n"
        "const print = (value) => console.log(JSON.stringify(value, (_, each) =>\n"
        "  typeof each === 'bigint' ? Number(each)\n"
        "    : ArrayBuffer.isView(each) ? Array.from(each, (item) =>\n"
        "      typeof item === 'bigint' ? Number(item) : item) : each));\n"
        "/** The code and message of what a promise fails with. */\n"
        "const failure = (promise) => promise.then(\n"
        "  () => ['none', ''], (error) => [error.code ?? error.name, error.message]);\n"
        f"{constants}{script}\n"
    )
    done = subprocess.run(
        ["node", "--no-warnings", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout) if done.stdout else None
