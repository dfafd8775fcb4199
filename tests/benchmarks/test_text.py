"""The table of engines that write text: rates, and the part of memory's speed that they reach."""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.text.__main__ import Row, table
from benchmarks.text.quality import alike, perplexity


def test_a_token_reads_the_whole_file_once(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(bytes(2_000_000))
    chosen = argparse.Namespace(file=file, prompt=64, count=16)
    measured = {"load": 0.25, "prompt": 0.5, "token": 0.001, "peak": 150_000_000}
    row = Row(engine="edgec", threads=1, size=2_000_000, **measured)
    lines = list(table([row], {1: 8e9}, chosen))
    assert lines[2] == "| edgec | 1 | 128 | 1000 | 25% | 0.25 | 150 |"
    assert "8.0 GB/s | 1 | | 4000 at most" in lines[3]


def test_perplexity_is_how_many_equal_choices_there_seem_to_be() -> None:
    even = [np.zeros(7)] * 3
    assert np.isclose(perplexity(even, [1, 2, 3, 4]), 7)
    sure = np.where(np.arange(7) == 2, 50.0, 0.0)
    assert np.isclose(perplexity([sure], [0, 2]), 1)
    assert np.isclose(perplexity([sure, np.zeros(7)], [0, 2, 5]), np.sqrt(7))


def test_answers_are_alike_up_to_the_first_other_token() -> None:
    assert alike([4, 5, 6], [4, 5, 6]) == 3
    assert alike([4, 5, 6], [4, 9, 6]) == 1
    assert alike([4, 5], [4, 5, 6]) == 2
