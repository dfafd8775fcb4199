"""A compile within one process gives what one of several processes gives, errors too."""

from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import load
from edgec.runtime.errors import CompileError, ProgramError
from edgec.toolchain import CompileOptions, compile, fork_server, process
from edgec.toolchain.inside import working_here
from edgec.toolchain.isolated import answered

PROGRAM = """
module @sums {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = stablehlo.add %x, %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
"""


def test_nothing_is_started_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, output = tmp_path / "sums.mlir", tmp_path / "sums.vmfb"
    source.write_text(PROGRAM)
    monkeypatch.setattr(process.subprocess, "Popen", None)
    monkeypatch.setattr(fork_server, "run", None)
    with working_here(answered):
        compile(source, "cpu", CompileOptions(output=output, cache=False))
    with load(output) as module:
        np.testing.assert_array_equal(module.main(np.arange(4, dtype=np.float32)), [0, 2, 4, 6])


def test_refusals_are_the_same_errors(tmp_path: Path) -> None:
    unread, refused = tmp_path / "unread.mlir", tmp_path / "refused.mlir"
    unread.write_text("module {")
    refused.write_text(
        PROGRAM.replace("stablehlo.add %x, %x :", "stablehlo.custom_call @theirs(%x) :").replace(
            ": tensor<4xf32>\n    return", ": (tensor<4xf32>) -> tensor<4xf32>\n    return"
        )
    )
    with working_here(answered):
        with pytest.raises(ProgramError, match="no MLIR"):
            compile(unread)
        with pytest.raises(CompileError, match="theirs"):
            compile(refused)
