"""A text encoder with an open length: in buckets, open, and ONNX Runtime, by how long the text is.

    python -m benchmarks.lengths [FOLDER] [--threads N]

Prints a table in Markdown: milliseconds of a call, the least of many. The network is a
BERT of six layers and a width of 384 (MiniLM's sizes) with seeded weights, as transformers writes
it and PyTorch exports it. The folder keeps what was compiled, so that a second run measures alone.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mesh import least
from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile

LENGTHS = (7, 20, 32, 57, 100, 128, 200, 256)
WORDS, LONGEST = 3000, 256


def _network() -> Any:
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12}
    config = BertConfig(vocab_size=WORDS, intermediate_size=1536, **sizes)

    class Sentence(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = BertModel(config, add_pooling_layer=False)

        def forward(self, ids: Any, mask: Any) -> Any:
            words = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            said = mask.unsqueeze(-1).float()
            return (words * said).sum(1) / said.sum(1).clamp(min=1e-9)

    return Sentence().eval()


def _text(length: int) -> tuple[np.ndarray, np.ndarray]:
    ids = np.random.default_rng(length).integers(0, WORDS, (1, length))
    return ids, np.ones((1, length), np.int64)


def _make(folder: Path) -> None:
    """Export and compile what is not there yet."""
    import torch

    network = _network()
    inputs = tuple(torch.from_numpy(array) for array in _text(32))
    dynamic = {name: {1: f"length=1..{LONGEST}"} for name in ("ids", "mask")}
    for name, buckets in (("buckets", None), ("open", (0,))):
        if not (folder / f"{name}.vmfb").exists():
            program = export(network, inputs, dynamic=dynamic, buckets=buckets)
            compile(program, "cpu", CompileOptions(output=folder / f"{name}.vmfb"))
    if not (folder / "net.onnx").exists():
        axes = {name: {1: "length"} for name in ("ids", "mask")}
        torch.onnx.export(
            network,
            inputs,
            str(folder / "net.onnx"),
            input_names=["ids", "mask"],
            dynamic_axes=axes,
            dynamo=False,
        )


def _call(module: Any, *inputs: np.ndarray) -> np.ndarray:
    return np.asarray(module.main(*inputs))


def measure(folder: Path, threads: int) -> None:
    """Print a row for each length.

    Raises:
        AssertionError: the answers differ from ONNX Runtime's.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(folder / "net.onnx"), options)
    modules = {name: load(folder / f"{name}.vmfb") for name in ("buckets", "open")}
    print(f"ONNX Runtime {onnxruntime.__version__}, threads: {threads}\n")
    print("| tokens | ONNX Runtime, ms | edgec, ms | open (`--buckets=0`), ms | ORT / edgec |")
    print("|--:|--:|--:|--:|--:|")
    for length in LENGTHS:
        ids, mask = _text(length)
        (wanted,) = session.run(None, {"ids": ids, "mask": mask})
        calls: dict[str, Callable[[], object]] = {
            "ort": partial(session.run, None, {"ids": ids, "mask": mask})
        }
        for name, module in modules.items():
            call = partial(_call, module, ids, mask)
            np.testing.assert_allclose(call(), wanted, atol=1e-4)
            calls[name] = call
        # One after the other: ONNX Runtime's threads keep a core busy for a while after a call.
        took: dict[str, float] = {}
        for name, timed in calls.items():
            took |= least({name: timed}, seconds=0.5)
        ratio = took["ort"] / took["buckets"]
        print(
            f"| {length} | {took['ort']:.2f} | {took['buckets']:.2f} | {took['open']:.2f} "
            f"| {ratio:.2f} |"
        )


def main() -> None:
    """Make what is missing, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.threads])
    folder = given.folder or Path(tempfile.mkdtemp(prefix="edgec-lengths-"))
    folder.mkdir(parents=True, exist_ok=True)
    _make(folder)
    measure(folder, given.threads)


if __name__ == "__main__":
    main()
