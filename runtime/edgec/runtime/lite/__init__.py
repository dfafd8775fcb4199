"""TensorFlow Lite's Python interface over a compiled module: change the import and the file.

    from edgec.runtime.lite import Interpreter

    interpreter = Interpreter(model_path="digits.vmfb")
    interpreter.allocate_tensors()

Names and behaviour are those of `tf.lite.Interpreter` and `ai_edge_litert.interpreter`; what
differs is said at `Interpreter`.
"""

from edgec.runtime.lite.errors import CannotResize, InvalidArgument, NotLoaded, NotReady
from edgec.runtime.lite.interpreter import Interpreter, OpResolverType, load_delegate
from edgec.runtime.lite.signature_runner import SignatureRunner

__all__ = [
    "CannotResize",
    "Interpreter",
    "InvalidArgument",
    "NotLoaded",
    "NotReady",
    "OpResolverType",
    "SignatureRunner",
    "load_delegate",
]
