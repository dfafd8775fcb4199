"""A picture to the tensor that a function takes: resized, in its layout and element type.

The layout follows the shape: channels last if the last dimension is 1, 3 or 4, channels first if
the one three from the end is; two dimensions are a grey picture. One channel is grey, three are
RGB, four RGBA. The whole picture is resized (bilinear) to the height and width the function takes;
a dynamic height or width keeps the picture's own. u8 gets 0..255, floats get 0..1. Nothing else is
done: a model that wants another mean and deviation needs an `.npy` file.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import FileError, InputError, MissingExtra
from edgec.runtime.signature import Dim, TensorSpec

__all__ = ["SUFFIXES", "Layout", "image_layout", "read_image"]

SUFFIXES = frozenset({".png", ".jpg", ".jpeg"})
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where a tensor has its height, width and channels; no channel axis is a grey picture."""

    height: int
    width: int
    channels: int | None


def image_layout(spec: TensorSpec) -> Layout:
    """How a picture lies in a tensor.

    Raises:
        InputError: the tensor is no picture, or it could be read both ways.
    """
    shape = spec.shape
    if len(shape) == 2:
        return Layout(height=0, width=1, channels=None)
    if len(shape) not in (3, 4) or (len(shape) == 4 and not _can_be_one(shape[0])):
        raise InputError(f"{spec} takes no picture", hint="give it an .npy file")
    first = len(shape) - 3
    ahead, behind = shape[first] in _MODES, shape[-1] in _MODES
    if ahead and behind:
        raise InputError(
            f"{spec} could have its channels first or last", hint="give it an .npy file"
        )
    if behind:
        return Layout(height=first, width=first + 1, channels=len(shape) - 1)
    if ahead:
        return Layout(height=first + 1, width=first + 2, channels=first)
    if len(shape) == 3 and _can_be_one(shape[0]):
        return Layout(height=1, width=2, channels=None)
    raise InputError(f"{spec} takes no picture of 1, 3 or 4 channels", hint="give it an .npy file")


def read_image(path: Path, spec: TensorSpec) -> np.ndarray:
    """The picture as `spec` takes it.

    Raises:
        FileError: it cannot be read.
        InputError: it is no picture, or the tensor does not take one.
        MissingExtra: Pillow is not installed.
    """
    layout = image_layout(spec)
    if spec.dtype is not DType.U8 and spec.dtype not in (
        DType.F32,
        DType.F16,
        DType.BF16,
        DType.F64,
    ):
        raise InputError(
            f"{spec} takes no picture: pixels become u8 or floats",
            hint="give it an .npy file with the numbers it expects",
        )
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtra(
            f"reading {path} needs Pillow", hint='pip install "edgec[image]"'
        ) from error
    channels = 1 if layout.channels is None else spec.shape[layout.channels]
    mode = _MODES[channels if isinstance(channels, int) else 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(path, formats=("PNG", "JPEG")) as picture:
                width = _extent(spec.shape[layout.width], picture.width)
                height = _extent(spec.shape[layout.height], picture.height)
                pixels = picture.convert(mode)
                if pixels.size != (width, height):
                    pixels = pixels.resize((width, height), Image.Resampling.BILINEAR)
                values = np.asarray(pixels)
        except (Image.UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise InputError(f"{path} is no PNG or JPEG picture: {error}") from error
        except (Image.DecompressionBombWarning, SyntaxError, ValueError) as error:
            raise InputError(f"{path} is no sound picture: {error}") from error
        except OSError as error:
            if error.errno is None:
                raise InputError(f"{path} is no sound picture: {error}") from error
            raise FileError(f"cannot read {path}: {error.strerror}") from error
    if spec.dtype.is_float:
        values = (values.astype(np.float32) / np.float32(255)).astype(spec.dtype.numpy)
    values = values.reshape(height, width, -1)
    if layout.channels is None:
        values = values[..., 0]
    elif layout.channels < layout.height:
        values = np.ascontiguousarray(np.moveaxis(values, -1, 0))
    return values.reshape((1,) * (len(spec.shape) - values.ndim) + values.shape)


def _can_be_one(size: int | Dim) -> bool:
    if isinstance(size, int):
        return size == 1
    return size.minimum <= 1 and (size.maximum is None or size.maximum >= 1)


def _extent(want: int | Dim, own: int) -> int:
    if isinstance(want, int):
        return want
    low = max(own, want.minimum)
    return low if want.maximum is None else min(low, want.maximum)
