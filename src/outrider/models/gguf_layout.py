"""The numbers of the GGUF format: codes of value types and tensor types, block sizes, alignment.

They are stated here, and held equal to the gguf package's by a test, because importing that package costs more time
than reading a whole header.
"""

from __future__ import annotations

from enum import IntEnum

from outrider.models.spec import TensorType

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32


class ValueType(IntEnum):
    """Types of metadata values, by their code in the file."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


# value type -> struct code
VALUE_CODES = {
    ValueType.UINT8: "B",
    ValueType.INT8: "b",
    ValueType.UINT16: "H",
    ValueType.INT16: "h",
    ValueType.UINT32: "I",
    ValueType.INT32: "i",
    ValueType.FLOAT32: "f",
    ValueType.BOOL: "B",
    ValueType.UINT64: "Q",
    ValueType.INT64: "q",
    ValueType.FLOAT64: "d",
}

# code in the file -> type, values a block, bytes a block
TENSOR_TYPES = {
    0: (TensorType.F32, 1, 4),
    1: (TensorType.F16, 1, 2),
    2: (TensorType.Q4_0, 32, 18),
    3: (TensorType.Q4_1, 32, 20),
    8: (TensorType.Q8_0, 32, 34),
    30: (TensorType.BF16, 1, 2),
}
# Names of types that are not read yet, so that a refusal can say what the file holds.
OTHER_TENSOR_TYPES = {
    6: "Q5_0",
    7: "Q5_1",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
}
