"""Element types as C and edgert have them."""

from dataclasses import dataclass

from edgec.runtime import DType

__all__ = ["C_TYPES", "CType"]


@dataclass(frozen=True, kw_only=True)
class CType:
    """How C holds one element.

    Attributes:
        name: the C type.
        edgert: the constant in edgert.h.
        parts: how many of the C type make one element (2 for complex numbers).
    """

    name: str
    edgert: str
    parts: int = 1


C_TYPES: dict[DType, CType] = {
    DType.BOOL: CType(name="uint8_t", edgert="EDGERT_BOOL"),
    DType.I8: CType(name="int8_t", edgert="EDGERT_I8"),
    DType.I16: CType(name="int16_t", edgert="EDGERT_I16"),
    DType.I32: CType(name="int32_t", edgert="EDGERT_I32"),
    DType.I64: CType(name="int64_t", edgert="EDGERT_I64"),
    DType.U8: CType(name="uint8_t", edgert="EDGERT_U8"),
    DType.U16: CType(name="uint16_t", edgert="EDGERT_U16"),
    DType.U32: CType(name="uint32_t", edgert="EDGERT_U32"),
    DType.U64: CType(name="uint64_t", edgert="EDGERT_U64"),
    DType.F16: CType(name="uint16_t", edgert="EDGERT_F16"),
    DType.BF16: CType(name="uint16_t", edgert="EDGERT_BF16"),
    DType.F32: CType(name="float", edgert="EDGERT_F32"),
    DType.F64: CType(name="double", edgert="EDGERT_F64"),
    DType.C64: CType(name="float", edgert="EDGERT_C64", parts=2),
    DType.C128: CType(name="double", edgert="EDGERT_C128", parts=2),
}
"""16-bit floats are their bits, complex numbers two parts after each other."""
