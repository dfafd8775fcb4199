"""The digits network of the WebGPU page is the sample's."""

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def test_the_pages_digits_are_the_samples_in_jax_and_in_onnx(tmp_path: Path, monkeypatch) -> None:
    import onnxruntime

    monkeypatch.setattr(sys, "path", [str(ROOT), str(ROOT / "samples" / "digits"), *sys.path])
    from model import classifier

    from benchmarks.peers.engines.source_files import jax_function, onnx_file
    from benchmarks.web.digits import DIGITS

    sample, (images,) = classifier()
    wanted = np.asarray(sample(images)["scores"])
    session = onnxruntime.InferenceSession(str(onnx_file(DIGITS, tmp_path)))
    for image, scores in zip(images[:10], wanted, strict=False):
        (ours,) = jax_function(DIGITS)(image[None, :, :, None])
        (theirs,) = session.run(None, {"image": image[None, None]})
        np.testing.assert_allclose(np.asarray(ours)[0], scores, atol=1e-4)
        np.testing.assert_allclose(theirs[0], scores, atol=1e-4)
