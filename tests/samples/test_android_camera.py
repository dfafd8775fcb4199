"""The camera's app: frames beside Pillow's, all its Java compiled, one named on the JVM."""

import re
import shutil
import sys
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.c.conftest import run
from tests.packaging.conftest import need

HERE = Path(__file__).parent
STUBS = (HERE / "camera", HERE / "android" / "android", HERE.parent / "packaging/java/android")
APP = Path("samples/android_camera/app")
_run = partial(run, timeout=300)


def _noise(width: int, height: int, row: int) -> np.ndarray:
    """Rows of bytes as a camera's memory has them, u8[height, row], with more behind each."""
    return np.random.default_rng(width).integers(0, 256, (height, row), np.uint8)


def _seen(rows: np.ndarray, width: int, degrees: int, side: int) -> np.ndarray:
    """What Pillow makes of it: upright, the middle square, of means; f32[side, side, 3]."""
    image = pytest.importorskip("PIL.Image")
    pixels = rows[:, : 4 * width].reshape(len(rows), width, 4)[..., :3]
    square = min(width, len(rows))
    top, left = (len(rows) - square) // 2, (width - square) // 2
    upright = np.rot90(pixels[top : top + square, left : left + square], -degrees // 90)
    planes = [
        image.fromarray(np.ascontiguousarray(upright[..., c]).astype(np.float32)).resize(
            (side, side), image.Resampling.BOX
        )
        for c in range(3)
    ]
    return np.stack([np.asarray(plane) for plane in planes], -1)


@pytest.fixture(scope="module")
def classes(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the app does without Android, compiled."""
    need("javac", "java")
    folder = tmp_path_factory.mktemp("classes")
    home = root / APP / "src/main/java/dev/edgec/samples/camera"
    sources = [home / "Frame.java", home / "Classifier.java"]
    sources += (root / "runtime/java/src/main/java/dev/edgec").glob("*.java")
    sources.append(HERE / "camera/dev/edgec/samples/camera/Look.java")
    _run("javac", "--release", "9", "-d", folder, *sources)
    return folder


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize(
    ("width", "height", "row", "side"),
    [(64, 48, 256, 16), (48, 65, 208, 10), (640, 480, 2560, 224), (9, 7, 40, 16)],
)
def test_a_frame_is_what_pillow_makes_of_it(
    width: int, height: int, row: int, side: int, classes: Path, tmp_path: Path
) -> None:
    """In all four ways that a phone is held."""
    rows = _noise(width, height, row)
    rows.tofile(tmp_path / "frame")
    _run(
        *("java", "-cp", classes, "dev.edgec.samples.camera.Look", "frame", tmp_path / "frame"),
        *map(str, (width, height, row, side)),
        tmp_path / "out",
    )
    found = np.fromfile(tmp_path / "out", "<f4").reshape(4, side, side, 3)
    for turn in range(4):
        expected = _seen(rows, width, 90 * turn, side)
        np.testing.assert_allclose(found[turn], expected, atol=1e-3)


def test_the_project_asks_for_what_the_app_uses(root: Path) -> None:
    """Without Gradle: its files name the modules and libraries that the Java imports."""
    folder = root / "samples/android_camera"
    java = "".join(file.read_text() for file in (folder / "app").rglob("*.java"))
    gradle = (folder / "app/build.gradle.kts").read_text()
    settings = (folder / "settings.gradle.kts").read_text()
    assert set(re.findall(r"import androidx\.(\w+)", java)) == set(
        re.findall(r'implementation\("androidx\.(\w+)[.:]', gradle)
    )
    modules = re.findall(r'":(\w+)"', settings)
    assert modules == ["app", "photos"]
    assert 'implementation(project(":photos"))' in gradle
    assert "import dev.edgec.models.photos.Photos;" in java
    assert "android.useAndroidX=true" in (folder / "gradle.properties").read_text()
    manifest = ET.parse(folder / "app/src/main/AndroidManifest.xml").getroot()
    space = "{http://schemas.android.com/apk/res/android}"
    permissions = [each.get(f"{space}name") for each in manifest.iter("uses-permission")]
    assert permissions == ["android.permission.CAMERA"]
    assert "Manifest.permission.CAMERA" in java


@pytest.mark.slow  # compiles MobileNetV3
def test_the_app_compiles_and_names_a_frame(
    command, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very name and share that Keras gives to what Pillow makes of the frame."""
    need("javac", "java", "cc")
    monkeypatch.setenv("WEB_PHOTOS_WEIGHTS", "none")
    project = tmp_path / "project"
    options = ("--target=cpu:x86-64", "--no-check")
    command("python", root / "samples/android_camera/build.py", project, *options)
    sources = [*(project / "app").rglob("*.java"), *(project / "photos/src").rglob("*.java")]
    sources += [file for folder in STUBS for file in folder.rglob("*.java")]
    classes, library = tmp_path / "classes", tmp_path / "libedgec_jni.so"
    _run("javac", "-Xlint:all", "-Werror", "--release", "9", "-d", classes, *sources)
    headers = Path(shutil.which("javac") or "").resolve().parents[1] / "include"
    _run(
        *("cc", "-std=c11", "-O1", "-w", "-shared", "-fPIC", f"-I{headers}", f"-I{headers}/linux"),
        *("-Iedgert", "edgec_jni.c", "edgert/edgert.c", "-lpthread", "-lm", "-o", library),
        cwd=project / "photos/src/main/cpp",
    )
    rows = _noise(320, 240, 1280)
    rows.tofile(tmp_path / "frame")
    first, second, device = _run(
        *("java", f"-Ddev.edgec.library={library}", "-cp", classes),
        *("dev.edgec.samples.camera.Look", "name", project / "photos/src/main/assets/photos"),
        *(project / "app/src/main/assets/names.txt", tmp_path / "frame"),
        *("320", "240", "1280", "90"),
    ).splitlines()
    assert first == second
    assert device == "cpu"
    np.save(tmp_path / "photo.npy", _seen(rows, 320, 90, 224))
    share, kind = _run(
        *(sys.executable, "-c", _KERAS, root / "samples/web_photos", tmp_path / "photo.npy")
    ).split()
    assert first.split(" ", 1)[1] == f"kind {kind}"
    assert float(first.split()[0]) == pytest.approx(float(share), rel=1e-3)


_KERAS = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import network
call, _ = network.classifier()
shares = np.asarray(call(np.load(sys.argv[2]))["shares"])
print(shares.max(), shares.argmax())
"""
