"""Build the app's folder: package the digits for iOS, and put the app beside it.

python samples/ios_digits/build.py [FOLDER [OPTION ...]]     # default: build/ios_digits

Options are passed on to `edgec package`.
"""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
READER = ROOT / "samples" / "web_digits" / "reader.py"
APP = "app.swiftpm"


def build(folder: Path, *options: str) -> None:
    """Make `folder`; the app and the package in it are made anew."""
    folder.mkdir(parents=True, exist_ok=True)
    _edgec("package", f"{READER}:reader", "--ios", "--name=digits", "--force",
           "-o", folder / "digits", *options)  # fmt: skip
    shutil.copytree(HERE / APP, folder / APP, dirs_exist_ok=True)


def _edgec(*words: str | Path) -> None:
    command = [str(Path(sys.executable).with_name("edgec")), *map(str, words)]
    print("$", shlex.join(["edgec", *command[1:]]), flush=True)
    subprocess.run(command, check=True)


if __name__ == "__main__":
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "ios_digits"
    build(destination, *sys.argv[2:])
    print(f"\nopen {destination / APP} in Xcode on a Mac")
