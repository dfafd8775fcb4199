package dev.edgec;

/** Types of elements; 16-bit floats are their bits, complex numbers two parts. */
public enum EdgeType {
  BOOL(0x13000008),
  I8(0x11000008),
  I16(0x11000010),
  I32(0x11000020),
  I64(0x11000040),
  U8(0x12000008),
  U16(0x12000010),
  U32(0x12000020),
  U64(0x12000040),
  F16(0x21000010),
  BF16(0x22000010),
  F32(0x21000020),
  F64(0x21000040),
  C64(0x23000040),
  C128(0x23000080);

  final int code;

  EdgeType(int code) {
    this.code = code;
  }

  /** Bytes of one element. */
  public int bytes() {
    return (code & 0xFF) / 8;
  }

  static EdgeType of(int code) {
    // Integers without a sign of their own are signed.
    int wanted = code >>> 24 == 0x10 ? (code & 0xFFFFFF) | 0x11000000 : code;
    for (EdgeType type : values()) {
      if (type.code == wanted) return type;
    }
    throw new EdgeException(EdgeException.UNSUPPORTED, "an unknown type of elements: " + code);
  }
}
