"""GGUF files: read through transformers, damaged ones refused."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.exporters import export_source
from edgec.exporters.from_transformers.gguf_blocks import blocks_of
from edgec.exporters.from_transformers.opening import open_model
from edgec.runtime.errors import FileError, SourceError, UnsupportedOp, UsageError
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.weights_file import read_weights
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


def _in_blocks(array: np.ndarray, kind: Any) -> np.ndarray:
    if kind is not gguf.GGMLQuantizationType.IQ4_NL:
        return np.asarray(gguf.quants.quantize(array, kind))
    # The package only reads these: any bytes are codes, behind a scale.
    blocks = np.random.default_rng(0).integers(0, 256, (array.size // 32, 18)).astype(np.uint8)
    blocks[:, :2] = np.frombuffer(np.float16(0.002).tobytes(), np.uint8)
    return blocks.reshape(array.shape[0], -1)


_KINDS = {
    "attn_q": "Q4_0",
    "attn_k": "Q4_1",
    "attn_v": "Q5_0",
    "attn_output": "Q5_1",
    "ffn_gate": "F16",
    "ffn_up": "IQ4_NL",
}
"""How matrices are kept; the others are Q8_0."""


def write(path: Path, architecture: str = "llama") -> Any:
    """A tiny Llama in blocks of many kinds as a GGUF file; the model that it was made of."""
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
            spelled = next((k for part, k in _KINDS.items() if part in _tensor_name(name)), "Q8_0")
            kind = gguf.GGMLQuantizationType[spelled]
            writer.add_tensor(_tensor_name(name), _in_blocks(array, kind), raw_dtype=kind)
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


def test_the_models_own_names_know_their_tensors_and_blocks(file: Path) -> None:
    opened = open_model(str(file))
    assert opened.tensors["model.layers.1.self_attn.q_proj.weight"] == "blk.1.attn_q.weight"
    assert opened.tensors["model.embed_tokens.weight"] == "token_embd.weight"
    held = {name: str(blocks) for name, blocks in opened.blocks.items() if "layers.1" not in name}
    assert held == {
        "model.embed_tokens.weight": "int8-g32",
        "lm_head.weight": "int8-g32",  # tied
        "model.layers.0.self_attn.q_proj.weight": "int4-g32",
        "model.layers.0.self_attn.k_proj.weight": "int4-g32",
        "model.layers.0.self_attn.v_proj.weight": "int8-g32",
        "model.layers.0.self_attn.o_proj.weight": "int8-g32",
        "model.layers.0.mlp.down_proj.weight": "int8-g32",
    }
    state = opened.model.state_dict()
    for name, blocks in opened.blocks.items():
        assert np.array_equal(blocks.floats(), state[name].numpy()), name


def test_tensors_of_other_kinds_become_floats_which_is_said(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "edgec.exporters"):
        open_model(str(file))
    assert [record.getMessage() for record in caplog.records] == [
        "weights stay in their blocks: 3 of Q8_0, 2 of Q4_0, 2 of Q4_1, 2 of Q5_0, 2 of Q5_1",
        "2 of IQ4_NL of the file become f32: no kernel reads IQ4_NL (blk.0.ffn_up.weight and "
        "1 more)",
    ]


def test_a_weight_that_holds_other_numbers_than_the_file_is_no_block(file: Path) -> None:
    opened = open_model(str(file))
    name = "model.layers.0.mlp.down_proj.weight"
    opened.model.state_dict()[name][3, 5] += 1
    assert set(opened.blocks) - set(
        blocks_of(gguf.GGUFReader(file), opened.model, opened.tensors)
    ) == {name}


def test_a_module_reads_blocks_and_writes_what_transformers_writes(
    file: Path, tmp_path: Path
) -> None:
    program = export_source(
        str(file),
        context=96,
        prefill=(16,),
        external_weights=tmp_path / "tiny.safetensors",
        folder=tmp_path,
    ).save(tmp_path / "tiny.mlirbc")
    assert program.info.provenance.tensors["model.norm.weight"] == "output_norm.weight"
    assert program.info.text is not None
    assert program.info.text.template == tiny.TEMPLATE
    assert program.golden is not None
    assert len(program.golden.calls) > 100
    weights = read_weights(tmp_path / "tiny.safetensors")
    assert weights["model.layers.0.self_attn.q_proj.weight.codes"].nbytes == 64 * 64 // 2
    assert weights["model.layers.0.self_attn.k_proj.weight.least"].dtype == np.float16
    assert weights["model.layers.0.mlp.up_proj.weight"].dtype == np.float32
    assert "model.layers.0.self_attn.q_proj.weight" not in weights
    module = compile(program, "cpu", CompileOptions(output=tmp_path / "tiny.vmfb"))
    assert module.facts.check.startswith("checked")


def test_blocks_become_floats_where_that_is_asked_for(file: Path, tmp_path: Path) -> None:
    opened = open_model(str(file), floats=True)
    assert not opened.blocks
    assert opened.tensors["model.norm.weight"] == "output_norm.weight"
    with pytest.raises(UsageError, match="no blocks"):
        open_model(f"hf:{tmp_path}", floats=True)


@pytest.mark.parametrize("part", [0.0, 0.0001, 0.01, 0.2, 0.9, 0.999])
def test_a_file_that_is_cut_short_is_refused(file: Path, tmp_path: Path, part: float) -> None:
    data = file.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(SourceError, match=r"cut\.gguf .*(damaged or cut short|is cut short)"):
        open_model(str(cut))


@pytest.mark.parametrize("kind", [99, 2**31])
def test_a_quantisation_that_nobody_knows_is_refused_by_its_number(
    file: Path, tmp_path: Path, kind: int
) -> None:
    data, name = bytearray(file.read_bytes()), b"blk.0.ffn_up.weight"
    at = data.index(name) + len(name)
    (axes,) = struct.unpack_from("<I", data, at)
    struct.pack_into("<I", data, at + 4 + 8 * axes, kind)
    other = tmp_path / "other.gguf"
    other.write_bytes(data)
    with pytest.raises(UnsupportedOp, match=f"weights of the kind {kind}, which gguf .* know"):
        open_model(str(other))


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        open_model(str(tmp_path / "none.gguf"))
    other = tmp_path / "other.gguf"
    write(other, "martian")
    with pytest.raises(UnsupportedOp, match="architecture martian"):
        open_model(str(other))
