"""The engines by name, in the table's order."""

from benchmarks.peers.engines.edgec_engine import Edgec
from benchmarks.peers.engines.engine import Engine
from benchmarks.peers.engines.litert import LiteRt
from benchmarks.peers.engines.onnx_runtime import OnnxRuntime
from benchmarks.peers.engines.openvino_engine import OpenVino
from benchmarks.peers.engines.plain_iree import PlainIree
from benchmarks.peers.engines.torch_eager import TorchEager
from benchmarks.peers.engines.xla import Xla

__all__ = ["ENGINES", "OURS"]

OURS = Edgec.name

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (Edgec, PlainIree, OnnxRuntime, OpenVino, Xla, LiteRt, TorchEager)
}
