"""Build the page: train, export and package the network, and put the page's own files to it.

python samples/web_digits/build.py [FOLDER]        # default: build/web_digits
"""

import hashlib
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NOT_KEPT = {".vmfb", ".safetensors", ".ts", ".md"}
"""Kinds of files that the page does not load, or that edgec-runtime keeps itself."""


def build(folder: Path) -> None:
    """Make `folder`, which any web server can serve; what was there goes."""
    program = folder.with_name(f"{folder.name}.mlirbc")
    words = ("--web", "--name=digits", "--force", "--keep-program", program)
    _edgec("package", HERE / "reader.py:reader", *words, "-o", folder)
    shutil.rmtree(folder / "selftest")
    (folder / "try.js").unlink()
    (folder / "README.md").unlink()
    (folder / "edgec-runtime" / "edgert-threads.wasm").unlink()  # so small a network needs one
    for file in sorted((HERE / "page").iterdir()):
        shutil.copyfile(file, folder / file.name)
    _list_files(folder)


def _list_files(folder: Path) -> None:
    """Tell the service worker what to keep, and a version that changes with any of it."""
    worker = folder / "sw.js"
    files = [
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.suffix not in NOT_KEPT and file != worker
    ]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    names = [".", *(file.relative_to(folder).as_posix() for file in files)]
    text = worker.read_text(encoding="utf-8")
    text = text.replace("@VERSION@", f"web-digits-{digest[:12]}")
    worker.write_text(text.replace("['@FILES@']", json.dumps(names)), encoding="utf-8")


def _edgec(*words: str | Path) -> None:
    command = [str(Path(sys.executable).with_name("edgec")), *map(str, words)]
    print("$", shlex.join(["edgec", *command[1:]]), flush=True)
    subprocess.run(command, check=True)


if __name__ == "__main__":
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "web_digits"
    build(destination)
    print(f"\npython -m http.server --directory {destination}")
