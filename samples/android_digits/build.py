"""Build the app's project: package the digits, and put the app's own files to it.

python samples/android_digits/build.py [FOLDER [OPTION ...]]     # default: build/android_digits

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


def build(folder: Path, *options: str) -> None:
    """Make `folder`, a Gradle project; the app and the package in it are made anew."""
    folder.mkdir(parents=True, exist_ok=True)
    _edgec("package", f"{READER}:reader", "--android", "--name=digits", "--force",
           "-o", folder / "digits", *options)  # fmt: skip
    shutil.copytree(HERE / "app", folder / "app", dirs_exist_ok=True)
    for name in ("settings.gradle.kts", "build.gradle.kts"):
        shutil.copyfile(HERE / name, folder / name)


def _edgec(*words: str | Path) -> None:
    command = [str(Path(sys.executable).with_name("edgec")), *map(str, words)]
    print("$", shlex.join(["edgec", *command[1:]]), flush=True)
    subprocess.run(command, check=True)


if __name__ == "__main__":
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "android_digits"
    build(destination, *sys.argv[2:])
    print(f"\nopen {destination} in Android Studio")
