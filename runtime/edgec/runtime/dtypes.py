"""Element types: edgec's names for them, and their NumPy, MLIR and IREE HAL spellings."""

from enum import Enum

import numpy as np

from edgec.runtime.errors import InputError, MissingExtra

try:
    import ml_dtypes
except ModuleNotFoundError:  # the runtime alone does without
    ml_dtypes = None

__all__ = ["DType"]


class DType(Enum):
    """One element type; the value is edgec's name for it in files and messages."""

    BOOL = "bool"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    C64 = "c64"
    C128 = "c128"

    # Members are equal by identity; the hash of Enum's own is a call of Python's each time.
    __hash__ = object.__hash__

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype.

        Raises:
            MissingExtra: bf16, which comes from ml_dtypes, and that is not installed.
        """
        found = _NUMPY.get(self)
        if found is None:
            raise MissingExtra(
                "NumPy has no bfloat16 of its own", hint="pip install edgec-runtime[bf16]"
            )
        return found

    @property
    def mlir(self) -> str:
        """The MLIR spelling in StableHLO (`ui8`, `i1`, `complex<f32>`)."""
        return _MLIR[self]

    @property
    def hal(self) -> int:
        """The 32-bit HAL element type: numerical kind in bits 24-31, bit count in bits 0-15."""
        return _HAL_KIND[self] << 24 | self.bits

    @property
    def bits(self) -> int:
        """Bits an element takes in memory; bool takes 8."""
        return 16 if self is DType.BF16 else self.numpy.itemsize * 8

    @property
    def is_float(self) -> bool:
        """Whether values are compared with a tolerance (floats and complex) or exactly."""
        return self in _FLOATS

    @classmethod
    def of(cls, dtype: object) -> "DType":
        """The DType of a NumPy dtype or anything `numpy.dtype` takes; a DType is itself.

        Raises:
            InputError: there is no such element type in edgec.
        """
        if isinstance(dtype, cls):
            return dtype
        try:
            return _FROM_NUMPY[np.dtype(dtype)]  # type: ignore[call-overload]
        except (KeyError, TypeError) as error:
            raise InputError(
                f"the element type {dtype} has no edgec counterpart",
                hint=f"use one of {', '.join(d.value for d in cls)}",
            ) from error

    @classmethod
    def from_mlir(cls, text: str) -> "DType":
        """The DType of an MLIR element type; signless integers read as signed.

        Raises:
            InputError: there is no such element type in edgec.
        """
        name = {"si8": "i8", "si16": "i16", "si32": "i32", "si64": "i64"}.get(text, text)
        for dtype, spelling in _MLIR.items():
            if spelling == name:
                return dtype
        raise InputError(
            f"the MLIR element type {text} has no edgec counterpart",
            hint=f"use one of {', '.join(d.value for d in cls)}",
        )


_NUMPY: dict[DType, np.dtype] = {
    DType.BOOL: np.dtype(np.bool_),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.U8: np.dtype(np.uint8),
    DType.U16: np.dtype(np.uint16),
    DType.U32: np.dtype(np.uint32),
    DType.U64: np.dtype(np.uint64),
    DType.F16: np.dtype(np.float16),
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.C64: np.dtype(np.complex64),
    DType.C128: np.dtype(np.complex128),
}
if ml_dtypes is not None:
    _NUMPY[DType.BF16] = np.dtype(ml_dtypes.bfloat16)
_FROM_NUMPY = {numpy: dtype for dtype, numpy in _NUMPY.items()}
_MLIR: dict[DType, str] = {
    DType.BOOL: "i1",
    DType.U8: "ui8",
    DType.U16: "ui16",
    DType.U32: "ui32",
    DType.U64: "ui64",
    DType.C64: "complex<f32>",
    DType.C128: "complex<f64>",
} | {
    d: d.value
    for d in (
        DType.I8,
        DType.I16,
        DType.I32,
        DType.I64,
        DType.F16,
        DType.BF16,
        DType.F32,
        DType.F64,
    )
}
# Numerical kinds as in IREE's HAL buffer view: 0x10 signless integer, 0x13 bool, 0x21 IEEE float,
# 0x22 bfloat, 0x23 complex. Unsigned types cross the ABI as signless.
_HAL_KIND: dict[DType, int] = {
    DType.BOOL: 0x13,
    DType.F16: 0x21,
    DType.F32: 0x21,
    DType.F64: 0x21,
    DType.BF16: 0x22,
    DType.C64: 0x23,
    DType.C128: 0x23,
} | {d: 0x10 for d in DType if d.value[0] in "iu"}
_FLOATS = {DType.F16, DType.BF16, DType.F32, DType.F64, DType.C64, DType.C128}
