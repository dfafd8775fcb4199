"""Numbers in SPIR-V to names: the operations, extended instructions and enumerants that are read.

The numbers are those of the SPIR-V specification 1.6 and of its extended set GLSL.std.450.
"""

from enum import IntEnum

__all__ = ["BuiltIn", "Decoration", "Extended", "Mode", "Op", "Storage", "name_of"]


class Op(IntEnum):
    """Operations that kernels of the compiler's and of edgec's own are made of."""

    UNDEF = 1
    SOURCE_CONTINUED = 2
    SOURCE = 3
    SOURCE_EXTENSION = 4
    NAME = 5
    MEMBER_NAME = 6
    STRING = 7
    LINE = 8
    EXTENSION = 10
    EXT_INST_IMPORT = 11
    EXT_INST = 12
    MEMORY_MODEL = 14
    ENTRY_POINT = 15
    EXECUTION_MODE = 16
    CAPABILITY = 17
    TYPE_VOID = 19
    TYPE_BOOL = 20
    TYPE_INT = 21
    TYPE_FLOAT = 22
    TYPE_VECTOR = 23
    TYPE_ARRAY = 28
    TYPE_RUNTIME_ARRAY = 29
    TYPE_STRUCT = 30
    TYPE_POINTER = 32
    TYPE_FUNCTION = 33
    CONSTANT_TRUE = 41
    CONSTANT_FALSE = 42
    CONSTANT = 43
    CONSTANT_COMPOSITE = 44
    CONSTANT_NULL = 46
    FUNCTION = 54
    FUNCTION_END = 56
    VARIABLE = 59
    LOAD = 61
    STORE = 62
    ACCESS_CHAIN = 65
    IN_BOUNDS_ACCESS_CHAIN = 66
    DECORATE = 71
    MEMBER_DECORATE = 72
    VECTOR_EXTRACT_DYNAMIC = 77
    VECTOR_INSERT_DYNAMIC = 78
    VECTOR_SHUFFLE = 79
    COMPOSITE_CONSTRUCT = 80
    COMPOSITE_EXTRACT = 81
    COMPOSITE_INSERT = 82
    COPY_OBJECT = 83
    CONVERT_F_TO_U = 109
    CONVERT_F_TO_S = 110
    CONVERT_S_TO_F = 111
    CONVERT_U_TO_F = 112
    U_CONVERT = 113
    S_CONVERT = 114
    F_CONVERT = 115
    QUANTIZE_TO_F16 = 116
    BITCAST = 124
    S_NEGATE = 126
    F_NEGATE = 127
    I_ADD = 128
    F_ADD = 129
    I_SUB = 130
    F_SUB = 131
    I_MUL = 132
    F_MUL = 133
    U_DIV = 134
    S_DIV = 135
    F_DIV = 136
    U_MOD = 137
    S_REM = 138
    S_MOD = 139
    F_REM = 140
    F_MOD = 141
    VECTOR_TIMES_SCALAR = 142
    DOT = 148
    I_ADD_CARRY = 149
    I_SUB_BORROW = 150
    U_MUL_EXTENDED = 151
    S_MUL_EXTENDED = 152
    ANY = 154
    ALL = 155
    IS_NAN = 156
    IS_INF = 157
    LOGICAL_EQUAL = 164
    LOGICAL_NOT_EQUAL = 165
    LOGICAL_OR = 166
    LOGICAL_AND = 167
    LOGICAL_NOT = 168
    SELECT = 169
    I_EQUAL = 170
    I_NOT_EQUAL = 171
    U_GREATER_THAN = 172
    S_GREATER_THAN = 173
    U_GREATER_THAN_EQUAL = 174
    S_GREATER_THAN_EQUAL = 175
    U_LESS_THAN = 176
    S_LESS_THAN = 177
    U_LESS_THAN_EQUAL = 178
    S_LESS_THAN_EQUAL = 179
    F_ORD_EQUAL = 180
    F_UNORD_EQUAL = 181
    F_ORD_NOT_EQUAL = 182
    F_UNORD_NOT_EQUAL = 183
    F_ORD_LESS_THAN = 184
    F_UNORD_LESS_THAN = 185
    F_ORD_GREATER_THAN = 186
    F_UNORD_GREATER_THAN = 187
    F_ORD_LESS_THAN_EQUAL = 188
    F_UNORD_LESS_THAN_EQUAL = 189
    F_ORD_GREATER_THAN_EQUAL = 190
    F_UNORD_GREATER_THAN_EQUAL = 191
    SHIFT_RIGHT_LOGICAL = 194
    SHIFT_RIGHT_ARITHMETIC = 195
    SHIFT_LEFT_LOGICAL = 196
    BITWISE_OR = 197
    BITWISE_XOR = 198
    BITWISE_AND = 199
    NOT = 200
    BIT_FIELD_INSERT = 201
    BIT_FIELD_S_EXTRACT = 202
    BIT_FIELD_U_EXTRACT = 203
    BIT_REVERSE = 204
    BIT_COUNT = 205
    CONTROL_BARRIER = 224
    MEMORY_BARRIER = 225
    ATOMIC_I_ADD = 234
    ATOMIC_S_MIN = 236
    ATOMIC_U_MIN = 237
    ATOMIC_S_MAX = 238
    ATOMIC_U_MAX = 239
    ATOMIC_AND = 240
    ATOMIC_OR = 241
    ATOMIC_XOR = 242
    PHI = 245
    LOOP_MERGE = 246
    SELECTION_MERGE = 247
    LABEL = 248
    BRANCH = 249
    BRANCH_CONDITIONAL = 250
    SWITCH = 251
    KILL = 252
    RETURN = 253
    RETURN_VALUE = 254
    UNREACHABLE = 255
    NO_LINE = 317
    MODULE_PROCESSED = 330


class Extended(IntEnum):
    """Instructions of GLSL.std.450."""

    ROUND = 1
    ROUND_EVEN = 2
    TRUNC = 3
    F_ABS = 4
    S_ABS = 5
    F_SIGN = 6
    S_SIGN = 7
    FLOOR = 8
    CEIL = 9
    FRACT = 10
    SIN = 13
    COS = 14
    TAN = 15
    ASIN = 16
    ACOS = 17
    ATAN = 18
    SINH = 19
    COSH = 20
    TANH = 21
    ASINH = 22
    ACOSH = 23
    ATANH = 24
    ATAN2 = 25
    POW = 26
    EXP = 27
    LOG = 28
    EXP2 = 29
    LOG2 = 30
    SQRT = 31
    INVERSE_SQRT = 32
    F_MIN = 37
    U_MIN = 38
    S_MIN = 39
    F_MAX = 40
    U_MAX = 41
    S_MAX = 42
    F_CLAMP = 43
    U_CLAMP = 44
    S_CLAMP = 45
    F_MIX = 46
    FMA = 50
    LDEXP = 53
    PACK_HALF_2X16 = 58
    UNPACK_HALF_2X16 = 62
    FIND_I_LSB = 73
    FIND_S_MSB = 74
    FIND_U_MSB = 75
    N_MIN = 79
    N_MAX = 80
    N_CLAMP = 81


class Storage(IntEnum):
    """Where a variable lies."""

    INPUT = 1
    WORKGROUP = 4
    PRIVATE = 6
    FUNCTION = 7
    PUSH_CONSTANT = 9
    STORAGE_BUFFER = 12
    UNIFORM = 2


class Decoration(IntEnum):
    """What is said of an identifier."""

    BUFFER_BLOCK = 3
    ARRAY_STRIDE = 6
    BUILT_IN = 11
    NON_WRITABLE = 24
    BINDING = 33
    DESCRIPTOR_SET = 34
    OFFSET = 35


class BuiltIn(IntEnum):
    """Variables that the device fills in."""

    NUM_WORKGROUPS = 24
    WORKGROUP_SIZE = 25
    WORKGROUP_ID = 26
    LOCAL_INVOCATION_ID = 27
    GLOBAL_INVOCATION_ID = 28
    LOCAL_INVOCATION_INDEX = 29


class Mode(IntEnum):
    """Execution modes of an entry point."""

    LOCAL_SIZE = 17


def name_of(number: int) -> str:
    """An operation as the specification spells it, for messages: `OpFAdd`, or `operation 4456`."""
    if number not in Op._value2member_map_:
        return f"operation {number}"
    return "Op" + "".join(part.capitalize() for part in Op(number).name.split("_"))
