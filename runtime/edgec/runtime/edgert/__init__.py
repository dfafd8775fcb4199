"""edgert, the C runtime, from Python: a module file to functions on tensors, arrays and numbers.

Objects here are edgert's own, one class for each kind in its header; `edgec.runtime.load` with the
device `edgert://cpu` is the same with edgec's signatures and checks. Nothing of IREE is needed.
"""

from edgec.runtime.edgert.call import EdgertCall
from edgec.runtime.edgert.device import EdgertDevice, Ran, device_names
from edgec.runtime.edgert.module import EdgertModule, EdgertWeights
from edgec.runtime.edgert.native import open_library
from edgec.runtime.edgert.session import EdgertSession
from edgec.runtime.edgert.tensor import EdgertTensor

__all__ = [
    "EdgertCall",
    "EdgertDevice",
    "EdgertModule",
    "EdgertSession",
    "EdgertTensor",
    "EdgertWeights",
    "Ran",
    "device_names",
    "open_library",
]
