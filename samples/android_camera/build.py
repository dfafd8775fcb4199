"""Build the app's project: export and package the network, and put the app's own files to it.

python samples/android_camera/build.py [FOLDER [OPTION ...]]     # default: build/android_camera

Options are passed on to `edgec package`. The network and the names are those of
`samples/web_photos`, and so is `WEB_PHOTOS_WEIGHTS`.
"""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PHOTOS = HERE.with_name("web_photos")


def build(folder: Path, *options: str) -> None:
    """Make `folder`, a Gradle project; the app and the package in it are made anew."""
    sys.path.insert(0, str(PHOTOS))
    import network

    folder.mkdir(parents=True, exist_ok=True)
    _edgec("package", f"{PHOTOS / 'network.py'}:classifier", "--android", "--name=photos",
           "--force", "-o", folder / "photos", *options)  # fmt: skip
    shutil.copytree(HERE / "app", folder / "app", dirs_exist_ok=True)
    for name in ("settings.gradle.kts", "build.gradle.kts", "gradle.properties"):
        shutil.copyfile(HERE / name, folder / name)
    names = folder / "app" / "src" / "main" / "assets" / "names.txt"
    names.parent.mkdir(exist_ok=True)
    names.write_text("".join(f"{name}\n" for name in network.names()), encoding="utf-8")


def _edgec(*words: str | Path) -> None:
    command = [str(Path(sys.executable).with_name("edgec")), *map(str, words)]
    print("$", shlex.join(["edgec", *command[1:]]), flush=True)
    subprocess.run(command, check=True)


if __name__ == "__main__":
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "android_camera"
    build(destination, *sys.argv[2:])
    print(f"\nopen {destination} in Android Studio")
