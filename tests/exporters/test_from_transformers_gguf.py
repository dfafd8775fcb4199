"""GGUF files: read through transformers, damaged ones refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.exporters import export_source
from edgec.exporters.from_transformers.opening import open_model
from edgec.runtime.errors import FileError, SourceError, UnsupportedOp
from tests.exporters import language_models as tiny

gguf = pytest.importorskip("gguf")
pytest.importorskip("accelerate")

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def _tensor_name(name: str) -> str:
    name = name.replace("model.layers.", "blk.")
    for ours, theirs in _NAMES.items():
        name = name.replace(ours, theirs)
    return name


def _permuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows as Llama's GGUF files order them: the halves of each head's rotations interleaved."""
    rows = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return rows.swapaxes(1, 2).reshape(weight.shape)


def write(path: Path, architecture: str = "llama") -> Any:
    """A tiny Llama of 8-bit blocks as a GGUF file; the model that it was made of."""
    model = tiny.model("llama", hidden_size=64, intermediate_size=96)
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    vocabulary = tiny.tokenizer().get_vocab()
    words = sorted(vocabulary, key=lambda word: vocabulary[word])
    words += ["ab", *(f"<unused{n}>" for n in range(config.vocab_size - len(words) - 1))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(words)
    writer.add_token_types([3 if word.startswith("<|") else 1 for word in words])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_chat_template(tiny.TEMPLATE)
    for name, value in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        array = value.numpy()
        if "q_proj" in name:
            array = _permuted(array, config.num_attention_heads)
        if "k_proj" in name:
            array = _permuted(array, config.num_key_value_heads)
        if array.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            blocks = gguf.quants.quantize(array, kind)
            writer.add_tensor(_tensor_name(name), blocks, raw_dtype=kind)
        else:
            writer.add_tensor(_tensor_name(name), array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write(path)
    return path


def test_blocks_become_floats_under_the_models_own_names(file: Path) -> None:
    opened = open_model(str(file))
    original = tiny.model("llama").state_dict()
    for name, value in opened.model.state_dict().items():
        assert np.abs(value.numpy() - original[name].numpy()).max() < 0.01, name
    assert opened.tensors["model.layers.1.self_attn.q_proj.weight"] == "blk.1.attn_q.weight"
    assert opened.tensors["model.embed_tokens.weight"] == "token_embd.weight"


def test_a_file_becomes_a_program_that_knows_where_its_weights_came_from(file: Path) -> None:
    program = export_source(str(file), context=96, prefill=(16,))
    assert program.info.provenance.tensors["model.norm.weight"] == "output_norm.weight"
    assert program.info.text is not None
    assert program.info.text.template == tiny.TEMPLATE
    assert program.golden is not None
    assert len(program.golden.calls) > 100


@pytest.mark.parametrize("part", [0.0, 0.0001, 0.01, 0.2, 0.9, 0.999])
def test_a_file_that_is_cut_short_is_refused(file: Path, tmp_path: Path, part: float) -> None:
    data = file.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(SourceError, match=r"cut\.gguf .*(damaged or cut short|is cut short)"):
        open_model(str(cut))


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        open_model(str(tmp_path / "none.gguf"))
    other = tmp_path / "other.gguf"
    write(other, "martian")
    with pytest.raises(UnsupportedOp, match="architecture martian"):
        open_model(str(other))
