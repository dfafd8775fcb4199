"""The engines by name, in the table's order."""

from benchmarks.peers.engines.edgec_engine import Edgec
from benchmarks.peers.engines.edgert_engine import EdgecOnEdgert
from benchmarks.peers.engines.engine import Engine
from benchmarks.peers.engines.litert import LiteRt
from benchmarks.peers.engines.onnx_runtime import OnnxRuntime
from benchmarks.peers.engines.openvino_engine import OpenVino
from benchmarks.peers.engines.plain_iree import PlainIree
from benchmarks.peers.engines.torch_eager import TorchEager
from benchmarks.peers.engines.xla import Xla

__all__ = ["ENGINES", "KIN", "OURS"]

OURS = Edgec.name
KIN = (Edgec.name, EdgecOnEdgert.name)
"""The engines that are edgec's own, and so no peers."""

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (
        Edgec,
        EdgecOnEdgert,
        PlainIree,
        OnnxRuntime,
        OpenVino,
        Xla,
        LiteRt,
        TorchEager,
    )
}
