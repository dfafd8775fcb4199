"""The listen sample: features are transformers' own, and real speech becomes its words."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest


def test_features_are_those_of_transformers(root: Path) -> None:
    transformers = pytest.importorskip("transformers")
    log_mel = runpy.run_path(str(root / "samples" / "listen" / "features.py"))["log_mel"]
    samples = np.random.default_rng(0).standard_normal(3 * 16_000).astype(np.float32) / 10
    reader = transformers.WhisperFeatureExtractor()
    wanted = reader(samples, sampling_rate=16_000, return_tensors="np")["input_features"][0]
    np.testing.assert_allclose(log_mel(samples), wanted, atol=1e-5)


@pytest.mark.slow
def test_sentences_that_were_read_aloud_become_their_words(command, root: Path, tmp_path) -> None:
    sample = root / "samples" / "listen"
    command("python", sample / "fetch.py")
    command("edgec", "export", "hf:whisper-base", "-o", "w.mlirbc", "--context=128", "--prefill=4")
    command("edgec", "compile", "w.mlirbc", "-o", "w.vmfb")
    sounds = sorted(tmp_path.glob("speech/*.wav"))
    said = command("python", sample / "run.py", "w.vmfb", *sounds).stdout.splitlines()
    words = (tmp_path / "speech" / "transcription").read_text().splitlines()
    wrong = total = 0
    for line, wanted in zip(said, words, strict=True):
        heard = re.findall(r"[a-z]+", line.lower().replace("mr.", "mister"))
        spoken = re.findall(r"[a-z]+", wanted.partition("</s>")[0].replace("<s>", ""))
        wrong += len(set(heard) ^ set(spoken))
        total += len(spoken)
    assert wrong <= total // 10
