"""A cache that an object beside the module holds and the module registers: one state."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from edgec.exporters import export, export_source
from edgec.toolchain.program import Program

Replay = Callable[[Program], float]


class Cache:
    """As Hugging Face's static cache: no module."""

    def __init__(self) -> None:
        self.rows = torch.zeros(4, 3)
        self.length = torch.zeros(1, dtype=torch.int64)

    def update(self, row: torch.Tensor) -> torch.Tensor:
        self.rows.index_copy_(0, self.length, row)
        self.length.add_(1)
        return self.rows


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.register_buffer("rows", self.cache.rows, persistent=False)
        self.register_buffer("length", self.cache.length, persistent=False)

    def forward(self, row: torch.Tensor) -> torch.Tensor:
        return self.cache.update(row).cumsum(0)


def test_a_cache_beside_the_module_is_its_state(replay: Replay) -> None:
    program = export(Remembering(), (torch.randn(1, 3),))
    assert sorted(state.name for state in program.info.states) == ["length", "rows"]
    assert replay(program) < 1e-6


def test_a_cache_in_an_exported_program_is_its_state(replay: Replay, tmp_path: Path) -> None:
    saved = tmp_path / "model.pt2"
    exported = torch.export.export(Remembering(), (torch.randn(1, 3),), strict=False)
    torch.export.save(exported, saved)
    program = export_source(str(saved))
    assert len(program.info.states) == 2
    assert replay(program) < 1e-6
