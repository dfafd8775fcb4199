"""A GGUF file's own stretching of positions is the one that transformers makes of a folder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgec.exporters.from_transformers.gguf_positions import set_positions
from edgec.runtime.errors import UnsupportedOp
from tests.exporters import language_models as tiny

gguf = pytest.importorskip("gguf")

_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0}
_LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}


def _reader(path: Path, tensors: dict[str, np.ndarray], keys: dict[str, Any]) -> Any:
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in tensors.items():
        writer.add_tensor(name, value)
    for name, value in keys.items():
        add = writer.add_string if isinstance(value, str) else writer.add_float32
        add(f"llama.{name}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return gguf.GGUFReader(path)


def _scores(model: Any) -> np.ndarray:
    tokens = torch.arange(80)[None] % 50
    with torch.no_grad():
        return np.asarray(model(tokens).logits)


def _pair(**wanted: Any) -> tuple[Any, Any]:
    """A model as GGUF gives it, and the same weights with a rule in its own settings."""
    plain = tiny.model("llama")
    other = type(plain)(type(plain.config)(**{**plain.config.to_dict(), **wanted})).eval()
    other.load_state_dict(plain.state_dict())
    return plain, other


def test_factors_of_frequencies_are_llama_3s_rule(tmp_path: Path) -> None:
    model, wanted = _pair(rope_parameters=_LLAMA3)
    base = model.model.rotary_emb.inv_freq.numpy()
    turns = 64 * base / (2 * np.pi)
    smooth = np.clip((turns - 1) / 3, 0, 1)
    factors = (1 / ((1 - smooth) / 8 + smooth)).astype(np.float32)
    assert np.abs(_scores(model) - _scores(wanted)).max() > 1e-3
    reader = _reader(tmp_path / "a.gguf", {"rope_freqs.weight": factors}, {})
    set_positions(tmp_path / "a.gguf", reader, model)
    np.testing.assert_allclose(_scores(model), _scores(wanted), atol=1e-4)


@pytest.mark.parametrize("rule", [_YARN, _LINEAR], ids=["yarn", "linear"])
def test_a_rule_in_keys_is_transformers_own(rule: dict[str, Any], tmp_path: Path) -> None:
    model, wanted = _pair(rope_parameters=rule)
    assert np.abs(_scores(model) - _scores(wanted)).max() > 1e-3
    keys = {"rope.scaling.type": rule["rope_type"], "rope.scaling.factor": rule["factor"]}
    reader = _reader(tmp_path / "a.gguf", {"x": np.ones(1, np.float32)}, keys)
    set_positions(tmp_path / "a.gguf", reader, model)
    np.testing.assert_allclose(_scores(model), _scores(wanted), atol=1e-4)


def test_the_linear_rule_divides_every_frequency(tmp_path: Path) -> None:
    model = tiny.model("llama")
    before = model.model.rotary_emb.inv_freq.numpy().copy()
    keys = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    reader = _reader(tmp_path / "a.gguf", {"x": np.ones(1, np.float32)}, keys)
    set_positions(tmp_path / "a.gguf", reader, model)
    np.testing.assert_allclose(model.model.rotary_emb.inv_freq.numpy(), before / 4, rtol=1e-6)


def test_other_rules_are_refused(tmp_path: Path) -> None:
    keys = {"rope.scaling.type": "longrope"}
    reader = _reader(tmp_path / "a.gguf", {"x": np.ones(1, np.float32)}, keys)
    with pytest.raises(UnsupportedOp, match="positions by longrope"):
        set_positions(tmp_path / "a.gguf", reader, tiny.model("llama"))
    wrong = {"rope_freqs.weight": np.ones(3, np.float32)}
    reader = _reader(tmp_path / "b.gguf", wrong, {})
    with pytest.raises(UnsupportedOp, match="3 factors of positions"):
        set_positions(tmp_path / "b.gguf", reader, tiny.model("llama"))
