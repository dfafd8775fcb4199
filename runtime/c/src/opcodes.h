/* Every opcode, once: code, name, spelling, operands. The enumerations and the verifier's decoding
 * come from these lists; the interpreter's switches are checked against them by the compiler.
 *
 * No set has a gap among its codes. Operands, in their order in the byte code:
 *
 *     i I f F r        a register that is read: 32 and 64 bits, floats, reference
 *     >i >I >f >F >r   a register that is written
 *     =4 =8            an immediate of so many bytes
 *     g4 g8 gr         a global: the byte offset of a number, or the index of a reference
 *     t d c            an index: type, constant, function (bit 31: import)
 *     b p              a jump's target; what its block takes, as pairs of registers
 *     h T              a count of cases; for each a target and its pairs
 *     s                a text
 *     Li LI Lf LF Lr   a list of registers of one kind; L* of any kind
 *     S A R Z          of a call: sizes of spans, arguments, results; of a return: results
 */
#ifndef EDGERT_OPCODES_H
#define EDGERT_OPCODES_H

/* The sets beyond the core are reached through a prefix. */
#define EDGERT_PREFIX_F32 0xE0
#define EDGERT_PREFIX_F64 0xE1

#define EDGERT_CORE_OPCODES(X) \
  X(0x00, GLOBAL_LOAD_I32, "global.load.i32", "g4>i")                    \
  X(0x01, GLOBAL_STORE_I32, "global.store.i32", "g4i")                   \
  X(0x02, GLOBAL_LOAD_INDIRECT_I32, "global.load.indirect.i32", "i>i")   \
  X(0x03, GLOBAL_STORE_INDIRECT_I32, "global.store.indirect.i32", "ii")  \
  X(0x04, GLOBAL_LOAD_I64, "global.load.i64", "g8>I")                    \
  X(0x05, GLOBAL_STORE_I64, "global.store.i64", "g8I")                   \
  X(0x06, GLOBAL_LOAD_INDIRECT_I64, "global.load.indirect.i64", "i>I")   \
  X(0x07, GLOBAL_STORE_INDIRECT_I64, "global.store.indirect.i64", "iI")  \
  X(0x08, GLOBAL_LOAD_REF, "global.load.ref", "grt>r")                   \
  X(0x09, GLOBAL_STORE_REF, "global.store.ref", "grtr")                  \
  X(0x0A, GLOBAL_LOAD_INDIRECT_REF, "global.load.indirect.ref", "it>r")  \
  X(0x0B, GLOBAL_STORE_INDIRECT_REF, "global.store.indirect.ref", "itr") \
  X(0x0C, CONST_I32_ZERO, "const.i32.zero", ">i")                        \
  X(0x0D, CONST_I32, "const.i32", "=4>i")                                \
  X(0x0E, CONST_I64_ZERO, "const.i64.zero", ">I")                        \
  X(0x0F, CONST_I64, "const.i64", "=8>I")                                \
  X(0x10, CONST_REF_ZERO, "const.ref.zero", ">r")                        \
  X(0x11, CONST_REF_RODATA, "const.ref.rodata", "d>r")                   \
  X(0x12, LIST_ALLOC, "list.alloc", "ti>r")                              \
  X(0x13, LIST_RESERVE, "list.reserve", "ri")                            \
  X(0x14, LIST_SIZE, "list.size", "r>i")                                 \
  X(0x15, LIST_RESIZE, "list.resize", "ri")                              \
  X(0x16, LIST_GET_I32, "list.get.i32", "ri>i")                          \
  X(0x17, LIST_SET_I32, "list.set.i32", "rii")                           \
  X(0x18, LIST_GET_I64, "list.get.i64", "ri>I")                          \
  X(0x19, LIST_SET_I64, "list.set.i64", "riI")                           \
  X(0x1A, LIST_GET_REF, "list.get.ref", "rit>r")                         \
  X(0x1B, LIST_SET_REF, "list.set.ref", "rir")                           \
  X(0x1C, SELECT_I32, "select.i32", "iii>i")                             \
  X(0x1D, SELECT_I64, "select.i64", "iII>I")                             \
  X(0x1E, SELECT_REF, "select.ref", "itrr>r")                            \
  X(0x1F, SWITCH_I32, "switch.i32", "iiLi>i")                            \
  X(0x20, SWITCH_I64, "switch.i64", "iILI>I")                            \
  X(0x21, SWITCH_REF, "switch.ref", "itrLr>r")                           \
  X(0x22, ADD_I32, "add.i32", "ii>i")                                    \
  X(0x23, SUB_I32, "sub.i32", "ii>i")                                    \
  X(0x24, MUL_I32, "mul.i32", "ii>i")                                    \
  X(0x25, DIV_I32_S, "div.i32.s", "ii>i")                                \
  X(0x26, DIV_I32_U, "div.i32.u", "ii>i")                                \
  X(0x27, REM_I32_S, "rem.i32.s", "ii>i")                                \
  X(0x28, REM_I32_U, "rem.i32.u", "ii>i")                                \
  X(0x29, FMA_I32, "fma.i32", "iii>i")                                   \
  X(0x2A, ADD_I64, "add.i64", "II>I")                                    \
  X(0x2B, SUB_I64, "sub.i64", "II>I")                                    \
  X(0x2C, MUL_I64, "mul.i64", "II>I")                                    \
  X(0x2D, DIV_I64_S, "div.i64.s", "II>I")                                \
  X(0x2E, DIV_I64_U, "div.i64.u", "II>I")                                \
  X(0x2F, REM_I64_S, "rem.i64.s", "II>I")                                \
  X(0x30, REM_I64_U, "rem.i64.u", "II>I")                                \
  X(0x31, FMA_I64, "fma.i64", "III>I")                                   \
  X(0x32, NOT_I32, "not.i32", "i>i")                                     \
  X(0x33, AND_I32, "and.i32", "ii>i")                                    \
  X(0x34, OR_I32, "or.i32", "ii>i")                                      \
  X(0x35, XOR_I32, "xor.i32", "ii>i")                                    \
  X(0x36, NOT_I64, "not.i64", "I>I")                                     \
  X(0x37, AND_I64, "and.i64", "II>I")                                    \
  X(0x38, OR_I64, "or.i64", "II>I")                                      \
  X(0x39, XOR_I64, "xor.i64", "II>I")                                    \
  X(0x3A, SHL_I32, "shl.i32", "ii>i")                                    \
  X(0x3B, SHR_I32_S, "shr.i32.s", "ii>i")                                \
  X(0x3C, SHR_I32_U, "shr.i32.u", "ii>i")                                \
  X(0x3D, SHL_I64, "shl.i64", "Ii>I")                                    \
  X(0x3E, SHR_I64_S, "shr.i64.s", "Ii>I")                                \
  X(0x3F, SHR_I64_U, "shr.i64.u", "Ii>I")                                \
  X(0x40, TRUNC_I32_I8, "trunc.i32.i8", "i>i")                           \
  X(0x41, TRUNC_I32_I16, "trunc.i32.i16", "i>i")                         \
  X(0x42, TRUNC_I64_I32, "trunc.i64.i32", "I>i")                         \
  X(0x43, EXT_I8_I32_S, "ext.i8.i32.s", "i>i")                           \
  X(0x44, EXT_I8_I32_U, "ext.i8.i32.u", "i>i")                           \
  X(0x45, EXT_I16_I32_S, "ext.i16.i32.s", "i>i")                         \
  X(0x46, EXT_I16_I32_U, "ext.i16.i32.u", "i>i")                         \
  X(0x47, EXT_I32_I64_S, "ext.i32.i64.s", "i>I")                         \
  X(0x48, EXT_I32_I64_U, "ext.i32.i64.u", "i>I")                         \
  X(0x49, CMP_EQ_I32, "cmp.eq.i32", "ii>i")                              \
  X(0x4A, CMP_NE_I32, "cmp.ne.i32", "ii>i")                              \
  X(0x4B, CMP_LT_I32_S, "cmp.lt.i32.s", "ii>i")                          \
  X(0x4C, CMP_LT_I32_U, "cmp.lt.i32.u", "ii>i")                          \
  X(0x4D, CMP_NZ_I32, "cmp.nz.i32", "i>i")                               \
  X(0x4E, CMP_EQ_I64, "cmp.eq.i64", "II>i")                              \
  X(0x4F, CMP_NE_I64, "cmp.ne.i64", "II>i")                              \
  X(0x50, CMP_LT_I64_S, "cmp.lt.i64.s", "II>i")                          \
  X(0x51, CMP_LT_I64_U, "cmp.lt.i64.u", "II>i")                          \
  X(0x52, CMP_NZ_I64, "cmp.nz.i64", "I>i")                               \
  X(0x53, CMP_EQ_REF, "cmp.eq.ref", "rr>i")                              \
  X(0x54, CMP_NE_REF, "cmp.ne.ref", "rr>i")                              \
  X(0x55, CMP_NZ_REF, "cmp.nz.ref", "r>i")                               \
  X(0x56, BR, "br", "bp")                                                \
  X(0x57, COND_BR, "cond_br", "ibpbp")                                   \
  X(0x58, CALL, "call", "cAR")                                           \
  X(0x59, CALL_VARIADIC, "call.variadic", "cSAR")                        \
  X(0x5A, RETURN, "return", "Z")                                         \
  X(0x5B, FAIL, "fail", "is")                                            \
  X(0x5C, IMPORT_RESOLVED, "import.resolved", "c>i")                     \
  X(0x5D, YIELD, "yield", "bp")                                          \
  X(0x5E, TRACE, "trace", "sL*")                                         \
  X(0x5F, PRINT, "print", "sL*")                                         \
  X(0x60, COND_BREAK, "cond_break", "ibp")                               \
  X(0x61, BREAK, "break", "bp")                                          \
  X(0x62, BUFFER_LOAD_I8_U, "buffer.load.i8.u", "rI>i")                  \
  X(0x63, BUFFER_LOAD_I8_S, "buffer.load.i8.s", "rI>i")                  \
  X(0x64, BUFFER_LOAD_I16_U, "buffer.load.i16.u", "rI>i")                \
  X(0x65, BUFFER_LOAD_I16_S, "buffer.load.i16.s", "rI>i")                \
  X(0x66, BUFFER_LOAD_I32, "buffer.load.i32", "rI>i")                    \
  X(0x67, BUFFER_LOAD_I64, "buffer.load.i64", "rI>I")                    \
  X(0x68, BUFFER_STORE_I8, "buffer.store.i8", "rIi")                     \
  X(0x69, BUFFER_STORE_I16, "buffer.store.i16", "rIi")                   \
  X(0x6A, BUFFER_STORE_I32, "buffer.store.i32", "rIi")                   \
  X(0x6B, BUFFER_STORE_I64, "buffer.store.i64", "rII")                   \
  X(0x6C, BUFFER_ALLOC, "buffer.alloc", "Ii>r")                          \
  X(0x6D, BUFFER_CLONE, "buffer.clone", "rIIi>r")                        \
  X(0x6E, BUFFER_LENGTH, "buffer.length", "r>I")                         \
  X(0x6F, BUFFER_COPY, "buffer.copy", "rIrII")                           \
  X(0x70, BUFFER_COMPARE, "buffer.compare", "rIrII>i")                   \
  X(0x71, BUFFER_FILL_I8, "buffer.fill.i8", "rIIi")                      \
  X(0x72, BUFFER_FILL_I16, "buffer.fill.i16", "rIIi")                    \
  X(0x73, BUFFER_FILL_I32, "buffer.fill.i32", "rIIi")                    \
  X(0x74, BUFFER_FILL_I64, "buffer.fill.i64", "rIII")                    \
  X(0x75, CTLZ_I32, "ctlz.i32", "i>i")                                   \
  X(0x76, CTLZ_I64, "ctlz.i64", "I>I")                                   \
  X(0x77, ABS_I32, "abs.i32", "i>i")                                     \
  X(0x78, ABS_I64, "abs.i64", "I>I")                                     \
  X(0x79, BLOCK, "block", "")                                            \
  X(0x7A, MIN_I32_S, "min.i32.s", "ii>i")                                \
  X(0x7B, MIN_I32_U, "min.i32.u", "ii>i")                                \
  X(0x7C, MAX_I32_S, "max.i32.s", "ii>i")                                \
  X(0x7D, MAX_I32_U, "max.i32.u", "ii>i")                                \
  X(0x7E, MIN_I64_S, "min.i64.s", "II>I")                                \
  X(0x7F, MIN_I64_U, "min.i64.u", "II>I")                                \
  X(0x80, MAX_I64_S, "max.i64.s", "II>I")                                \
  X(0x81, MAX_I64_U, "max.i64.u", "II>I")                                \
  X(0x82, CAST_ANY_REF, "cast.any.ref", "rt>r")                          \
  X(0x83, BR_TABLE, "br_table", "ibphT")                                 \
  X(0x84, BUFFER_HASH, "buffer.hash", "rII>I")                           \
  X(0x85, DISCARD_REFS, "discard.refs", "Lr")                            \
  X(0x86, ASSIGN_REF, "assign.ref", "r>r")                               \
  X(0x87, CALL_YIELDABLE, "call.yieldable", "cAbR")                      \
  X(0x88, CALL_VARIADIC_YIELDABLE, "call.variadic.yieldable", "cSAbR")

#define EDGERT_F32_OPCODES(X) \
  X(0x00, GLOBAL_LOAD_F32, "global.load.f32", "g4>f")                   \
  X(0x01, GLOBAL_STORE_F32, "global.store.f32", "g4f")                  \
  X(0x02, GLOBAL_LOAD_INDIRECT_F32, "global.load.indirect.f32", "i>f")  \
  X(0x03, GLOBAL_STORE_INDIRECT_F32, "global.store.indirect.f32", "if") \
  X(0x04, CONST_F32_ZERO, "const.f32.zero", ">f")                       \
  X(0x05, CONST_F32, "const.f32", "=4>f")                               \
  X(0x06, LIST_GET_F32, "list.get.f32", "ri>f")                         \
  X(0x07, LIST_SET_F32, "list.set.f32", "rif")                          \
  X(0x08, SELECT_F32, "select.f32", "iff>f")                            \
  X(0x09, SWITCH_F32, "switch.f32", "ifLf>f")                           \
  X(0x0A, ADD_F32, "add.f32", "ff>f")                                   \
  X(0x0B, SUB_F32, "sub.f32", "ff>f")                                   \
  X(0x0C, MUL_F32, "mul.f32", "ff>f")                                   \
  X(0x0D, DIV_F32, "div.f32", "ff>f")                                   \
  X(0x0E, REM_F32, "rem.f32", "ff>f")                                   \
  X(0x0F, FMA_F32, "fma.f32", "fff>f")                                  \
  X(0x10, ABS_F32, "abs.f32", "f>f")                                    \
  X(0x11, NEG_F32, "neg.f32", "f>f")                                    \
  X(0x12, CEIL_F32, "ceil.f32", "f>f")                                  \
  X(0x13, FLOOR_F32, "floor.f32", "f>f")                                \
  X(0x14, CAST_SI32_F32, "cast.si32.f32", "i>f")                        \
  X(0x15, CAST_UI32_F32, "cast.ui32.f32", "i>f")                        \
  X(0x16, CAST_F32_SI32, "cast.f32.si32", "f>i")                        \
  X(0x17, CAST_F32_UI32, "cast.f32.ui32", "f>i")                        \
  X(0x18, BITCAST_I32_F32, "bitcast.i32.f32", "i>f")                    \
  X(0x19, BITCAST_F32_I32, "bitcast.f32.i32", "f>i")                    \
  X(0x1A, ATAN_F32, "atan.f32", "f>f")                                  \
  X(0x1B, ATAN2_F32, "atan2.f32", "ff>f")                               \
  X(0x1C, COS_F32, "cos.f32", "f>f")                                    \
  X(0x1D, SIN_F32, "sin.f32", "f>f")                                    \
  X(0x1E, EXP_F32, "exp.f32", "f>f")                                    \
  X(0x1F, EXP2_F32, "exp2.f32", "f>f")                                  \
  X(0x20, EXPM1_F32, "expm1.f32", "f>f")                                \
  X(0x21, LOG_F32, "log.f32", "f>f")                                    \
  X(0x22, LOG10_F32, "log10.f32", "f>f")                                \
  X(0x23, LOG1P_F32, "log1p.f32", "f>f")                                \
  X(0x24, LOG2_F32, "log2.f32", "f>f")                                  \
  X(0x25, POW_F32, "pow.f32", "ff>f")                                   \
  X(0x26, RSQRT_F32, "rsqrt.f32", "f>f")                                \
  X(0x27, SQRT_F32, "sqrt.f32", "f>f")                                  \
  X(0x28, TANH_F32, "tanh.f32", "f>f")                                  \
  X(0x29, ERF_F32, "erf.f32", "f>f")                                    \
  X(0x2A, CMP_EQ_F32_O, "cmp.eq.f32.o", "ff>i")                         \
  X(0x2B, CMP_EQ_F32_U, "cmp.eq.f32.u", "ff>i")                         \
  X(0x2C, CMP_NE_F32_O, "cmp.ne.f32.o", "ff>i")                         \
  X(0x2D, CMP_NE_F32_U, "cmp.ne.f32.u", "ff>i")                         \
  X(0x2E, CMP_LT_F32_O, "cmp.lt.f32.o", "ff>i")                         \
  X(0x2F, CMP_LT_F32_U, "cmp.lt.f32.u", "ff>i")                         \
  X(0x30, CMP_LTE_F32_O, "cmp.lte.f32.o", "ff>i")                       \
  X(0x31, CMP_LTE_F32_U, "cmp.lte.f32.u", "ff>i")                       \
  X(0x32, CMP_NAN_F32, "cmp.nan.f32", "f>i")                            \
  X(0x33, BUFFER_LOAD_F32, "buffer.load.f32", "rI>f")                   \
  X(0x34, BUFFER_STORE_F32, "buffer.store.f32", "rIf")                  \
  X(0x35, BUFFER_FILL_F32, "buffer.fill.f32", "rIIf")                   \
  X(0x36, ROUND_F32, "round.f32", "f>f")                                \
  X(0x37, MIN_F32, "min.f32", "ff>f")                                   \
  X(0x38, MAX_F32, "max.f32", "ff>f")                                   \
  X(0x39, ROUND_F32_EVEN, "round.f32.even", "f>f")                      \
  X(0x3A, CAST_F32_SI64, "cast.f32.si64", "f>I")                        \
  X(0x3B, CAST_F32_UI64, "cast.f32.ui64", "f>I")                        \
  X(0x3C, CAST_SI64_F32, "cast.si64.f32", "I>f")                        \
  X(0x3D, CAST_UI64_F32, "cast.ui64.f32", "I>f")

#define EDGERT_F64_OPCODES(X) \
  X(0x00, GLOBAL_LOAD_F64, "global.load.f64", "g8>F")                   \
  X(0x01, GLOBAL_STORE_F64, "global.store.f64", "g8F")                  \
  X(0x02, GLOBAL_LOAD_INDIRECT_F64, "global.load.indirect.f64", "i>F")  \
  X(0x03, GLOBAL_STORE_INDIRECT_F64, "global.store.indirect.f64", "iF") \
  X(0x04, CONST_F64_ZERO, "const.f64.zero", ">F")                       \
  X(0x05, CONST_F64, "const.f64", "=8>F")                               \
  X(0x06, LIST_GET_F64, "list.get.f64", "ri>F")                         \
  X(0x07, LIST_SET_F64, "list.set.f64", "riF")                          \
  X(0x08, SELECT_F64, "select.f64", "iFF>F")                            \
  X(0x09, SWITCH_F64, "switch.f64", "iFLF>F")                           \
  X(0x0A, ADD_F64, "add.f64", "FF>F")                                   \
  X(0x0B, SUB_F64, "sub.f64", "FF>F")                                   \
  X(0x0C, MUL_F64, "mul.f64", "FF>F")                                   \
  X(0x0D, DIV_F64, "div.f64", "FF>F")                                   \
  X(0x0E, REM_F64, "rem.f64", "FF>F")                                   \
  X(0x0F, FMA_F64, "fma.f64", "FFF>F")                                  \
  X(0x10, ABS_F64, "abs.f64", "F>F")                                    \
  X(0x11, NEG_F64, "neg.f64", "F>F")                                    \
  X(0x12, CEIL_F64, "ceil.f64", "F>F")                                  \
  X(0x13, FLOOR_F64, "floor.f64", "F>F")                                \
  X(0x14, TRUNC_F64_F32, "trunc.f64.f32", "F>f")                        \
  X(0x15, EXT_F32_F64, "ext.f32.f64", "f>F")                            \
  X(0x16, CAST_SI32_F64, "cast.si32.f64", "i>F")                        \
  X(0x17, CAST_UI32_F64, "cast.ui32.f64", "i>F")                        \
  X(0x18, CAST_F64_SI32, "cast.f64.si32", "F>i")                        \
  X(0x19, CAST_F64_UI32, "cast.f64.ui32", "F>i")                        \
  X(0x1A, CAST_SI64_F64, "cast.si64.f64", "I>F")                        \
  X(0x1B, CAST_UI64_F64, "cast.ui64.f64", "I>F")                        \
  X(0x1C, CAST_F64_SI64, "cast.f64.si64", "F>I")                        \
  X(0x1D, CAST_F64_UI64, "cast.f64.ui64", "F>I")                        \
  X(0x1E, BITCAST_I64_F64, "bitcast.i64.f64", "I>F")                    \
  X(0x1F, BITCAST_F64_I64, "bitcast.f64.i64", "F>I")                    \
  X(0x20, ATAN_F64, "atan.f64", "F>F")                                  \
  X(0x21, ATAN2_F64, "atan2.f64", "FF>F")                               \
  X(0x22, COS_F64, "cos.f64", "F>F")                                    \
  X(0x23, SIN_F64, "sin.f64", "F>F")                                    \
  X(0x24, EXP_F64, "exp.f64", "F>F")                                    \
  X(0x25, EXP2_F64, "exp2.f64", "F>F")                                  \
  X(0x26, EXPM1_F64, "expm1.f64", "F>F")                                \
  X(0x27, LOG_F64, "log.f64", "F>F")                                    \
  X(0x28, LOG10_F64, "log10.f64", "F>F")                                \
  X(0x29, LOG1P_F64, "log1p.f64", "F>F")                                \
  X(0x2A, LOG2_F64, "log2.f64", "F>F")                                  \
  X(0x2B, POW_F64, "pow.f64", "FF>F")                                   \
  X(0x2C, RSQRT_F64, "rsqrt.f64", "F>F")                                \
  X(0x2D, SQRT_F64, "sqrt.f64", "F>F")                                  \
  X(0x2E, TANH_F64, "tanh.f64", "F>F")                                  \
  X(0x2F, ERF_F64, "erf.f64", "F>F")                                    \
  X(0x30, CMP_EQ_F64_O, "cmp.eq.f64.o", "FF>i")                         \
  X(0x31, CMP_EQ_F64_U, "cmp.eq.f64.u", "FF>i")                         \
  X(0x32, CMP_NE_F64_O, "cmp.ne.f64.o", "FF>i")                         \
  X(0x33, CMP_NE_F64_U, "cmp.ne.f64.u", "FF>i")                         \
  X(0x34, CMP_LT_F64_O, "cmp.lt.f64.o", "FF>i")                         \
  X(0x35, CMP_LT_F64_U, "cmp.lt.f64.u", "FF>i")                         \
  X(0x36, CMP_LTE_F64_O, "cmp.lte.f64.o", "FF>i")                       \
  X(0x37, CMP_LTE_F64_U, "cmp.lte.f64.u", "FF>i")                       \
  X(0x38, CMP_NAN_F64, "cmp.nan.f64", "F>i")                            \
  X(0x39, BUFFER_LOAD_F64, "buffer.load.f64", "rI>F")                   \
  X(0x3A, BUFFER_STORE_F64, "buffer.store.f64", "rIF")                  \
  X(0x3B, BUFFER_FILL_F64, "buffer.fill.f64", "rIIF")                   \
  X(0x3C, ROUND_F64, "round.f64", "F>F")                                \
  X(0x3D, MIN_F64, "min.f64", "FF>F")                                   \
  X(0x3E, MAX_F64, "max.f64", "FF>F")                                   \
  X(0x3F, ROUND_F64_EVEN, "round.f64.even", "F>F")

#define EDGERT_OPCODE_NAME(code, name, spelling, operands) EDGERT_OP_##name = (code),
typedef enum edgert_core_opcode { EDGERT_CORE_OPCODES(EDGERT_OPCODE_NAME) } edgert_core_opcode;
typedef enum edgert_f32_opcode { EDGERT_F32_OPCODES(EDGERT_OPCODE_NAME) } edgert_f32_opcode;
typedef enum edgert_f64_opcode { EDGERT_F64_OPCODES(EDGERT_OPCODE_NAME) } edgert_f64_opcode;

/* The operands of a code as the lists spell them; NULL where there is no such code. `prefix` is 0
 * for the core set. */
const char *edgert_opcode_operands(unsigned prefix, unsigned code);

#endif
