import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgec.cli.images import Layout, image_layout, read_image
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import FileError, InputError
from edgec.runtime.signature import Dim, TensorSpec

COLOURS = np.arange(2 * 5 * 3, dtype=np.uint8).reshape(2, 5, 3) * 8


def spec(*shape: int | Dim, dtype: DType = DType.U8) -> TensorSpec:
    return TensorSpec(name="image", shape=shape, dtype=dtype)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "a.png"
    Image.fromarray(COLOURS).save(path)
    return path


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((28, 28), Layout(height=0, width=1, channels=None)),
        ((1, 28, 28), Layout(height=1, width=2, channels=0)),
        ((3, 28, 28), Layout(height=1, width=2, channels=0)),
        ((28, 28, 3), Layout(height=0, width=1, channels=2)),
        ((1, 224, 224, 3), Layout(height=1, width=2, channels=3)),
        ((1, 3, 224, 224), Layout(height=2, width=3, channels=1)),
        ((Dim(name="n"), 4, 9, 9), Layout(height=2, width=3, channels=1)),
    ],
)
def test_the_layout_follows_the_shape(shape: tuple[int | Dim, ...], layout: Layout) -> None:
    assert image_layout(spec(*shape)) == layout


@pytest.mark.parametrize(
    "shape", [(), (7,), (2, 28, 28, 3), (1, 3, 28, 3), (5, 28, 28), (1, 1, 1, 28, 28)]
)
def test_other_shapes_take_no_picture(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError):
        image_layout(spec(*shape))


def test_bytes_are_the_pixels(picture: Path) -> None:
    np.testing.assert_array_equal(read_image(picture, spec(1, 2, 5, 3)), COLOURS[None])
    first = np.moveaxis(COLOURS, -1, 0)
    np.testing.assert_array_equal(read_image(picture, spec(3, 2, 5)), first)


def test_floats_are_the_pixels_from_nought_to_one(picture: Path) -> None:
    actual = read_image(picture, spec(1, 2, 5, 3, dtype=DType.F32))
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, COLOURS[None] / 255, rtol=1e-6)


def test_grey_is_what_pillow_makes_of_it(picture: Path) -> None:
    grey = np.asarray(Image.open(picture).convert("L"))
    np.testing.assert_array_equal(read_image(picture, spec(2, 5)), grey)
    np.testing.assert_array_equal(read_image(picture, spec(1, 1, 2, 5)), grey[None, None])


def test_a_picture_is_resized_as_pillow_does_it(picture: Path) -> None:
    resized = np.asarray(Image.open(picture).resize((8, 6), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(read_image(picture, spec(1, 6, 8, 3)), resized[None])


def test_dynamic_sizes_are_the_pictures_own_within_bounds(picture: Path) -> None:
    height, width = Dim(name="h", minimum=1, maximum=99), Dim(name="w", minimum=7)
    assert read_image(picture, spec(1, height, width, 3)).shape == (1, 2, 7, 3)


def test_integers_other_than_bytes_are_refused(picture: Path) -> None:
    with pytest.raises(InputError, match="u8 or floats"):
        read_image(picture, spec(2, 5, dtype=DType.I8))


def test_files_that_are_no_pictures_are_refused(tmp_path: Path, picture: Path) -> None:
    (tmp_path / "b.png").write_bytes(b"hello")
    (tmp_path / "c.png").write_bytes(picture.read_bytes()[:40])
    for name in ("b.png", "c.png"):
        with pytest.raises(InputError):
            read_image(tmp_path / name, spec(1, 2, 5, 3))
    with pytest.raises(FileError):
        read_image(tmp_path / "none.png", spec(1, 2, 5, 3))


def test_a_picture_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    size = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    path = tmp_path / "bomb.png"
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    )
    with pytest.raises(InputError):
        read_image(path, spec(1, 2, 5, 3))
