"""The table of engines that write text: rates, and the part of memory's speed that they reach."""

import argparse
from pathlib import Path

from benchmarks.text.__main__ import Row, table


def test_a_token_reads_the_whole_file_once(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(bytes(2_000_000))
    chosen = argparse.Namespace(file=file, prompt=64, count=16)
    row = Row(engine="edgec", threads=1, load=0.25, prompt=0.5, token=0.001, peak=150_000_000)
    lines = list(table([row], {1: 8e9}, chosen))
    assert lines[2] == "| edgec | 1 | 128 | 1000 | 25% | 0.25 | 150 |"
    assert "8.0 GB/s | 1 | | 4000 at most" in lines[3]
