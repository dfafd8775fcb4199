"""A model and a page's own files to a folder for any web server, which also works offline."""

import hashlib
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["list_files", "make_site"]

NOT_KEPT = {".vmfb", ".safetensors", ".ts", ".md"}
"""Kinds of files that the page does not load, or that edgec-runtime keeps itself."""
WORKER = Path(__file__).resolve().parent / "page" / "sw.js"
OFFLINE = WORKER.with_name("offline.js")


def make_site(folder: Path, model: str, *, name: str, page: Path) -> None:
    """Package a model for pages into `folder`, with the page's files; what was there goes.

    Args:
        model: as `edgec package` takes it.
        name: of the module's files.
        page: the folder of the page's files.
    """
    program = folder.with_name(f"{folder.name}.mlirbc")
    words: tuple[str | Path, ...] = ("--web", f"--name={name}", "--force")
    if not model.endswith(program.suffix):
        words += ("--keep-program", program)
    _edgec("package", model, *words, "-o", folder)
    shutil.rmtree(folder / "selftest")
    (folder / "try.js").unlink()
    (folder / "README.md").unlink()
    for file in (OFFLINE, *sorted(page.iterdir())):
        shutil.copyfile(file, folder / file.name)


def list_files(folder: Path) -> None:
    """Tell the service worker what to keep, and a version that changes with any of it."""
    worker = folder / WORKER.name
    worker.unlink(missing_ok=True)
    files = [
        file for file in sorted(folder.rglob("*")) if file.is_file() and file.suffix not in NOT_KEPT
    ]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    names = [".", *(file.relative_to(folder).as_posix() for file in files)]
    text = WORKER.read_text(encoding="utf-8")
    text = text.replace("@NAME@", folder.name).replace("@VERSION@", digest[:12])
    worker.write_text(text.replace("['@FILES@']", json.dumps(names)), encoding="utf-8")


def _edgec(*words: str | Path) -> None:
    command = [str(Path(sys.executable).with_name("edgec")), *map(str, words)]
    print("$", shlex.join(["edgec", *command[1:]]), flush=True)
    subprocess.run(command, check=True)
