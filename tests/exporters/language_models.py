"""Tiny language models with seeded weights, of several families, and a tokenizer of bytes."""

from pathlib import Path
from typing import Any

from benchmarks.byte_words import TEMPLATE, tokenizer

__all__ = [
    "FAMILIES",
    "ONE_BY_ONE",
    "RECURRENT",
    "TEMPLATE",
    "VOCABULARY",
    "model",
    "save",
    "tokenizer",
]

VOCABULARY = 300
_SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
    "pad_token_id": 0,
    "bos_token_id": 256,
    "eos_token_id": 257,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"tie_word_embeddings": True},
    "qwen2": {},
    "qwen3": {},
    # A window shorter than the texts of the tests.
    "mistral": {"sliding_window": 24},
    # Every second layer sees a window; scores are capped.
    "gemma2": {"sliding_window": 24, "query_pre_attn_scalar": 16},
    "phi3": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    # The last layers read the keys and values of others.
    "gemma4_text": {
        **{"num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2},
        **{"num_kv_shared_layers": 2, "sliding_window": 24, "global_head_dim": 32},
        **{"vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 16},
    },
    # It looks for a token's place at the end of the keys; every second layer sees a window.
    "gpt_neo": {
        **{"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]},
        **{"window_size": 24, "max_position_embeddings": 512},
    },
    # An indexer chooses the tokens that are seen, fewer than there are.
    "deepseek_v32": {
        **{"q_lora_rank": 16, "kv_lora_rank": 16, "num_key_value_heads": 4},
        **{"qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16},
        **{"index_topk": 8, "index_head_dim": 16, "index_n_heads": 16},
        **{"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48},
        **{"n_group": 2, "topk_group": 1, "mlp_layer_types": ["dense", "sparse"]},
    },
}
"""Of each family the settings beside those that all share."""

_STATES = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16}
_DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"],
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
RECURRENT: dict[str, dict[str, Any]] = {
    # Both kinds of cache in each layer.
    "falcon_h1": {"mamba_d_ssm": 64, **_STATES, "mamba_n_heads": 4, "mamba_n_groups": 1},
    # Short convolutions alone, beside attention.
    "lfm2": {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False},
    "granitemoehybrid": {
        **_STATES,
        "layer_types": ["mamba", "attention"],
        **{"num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": 96},
    },
    "bamba": {**_STATES, "attn_layer_indices": [1], "mamba_n_groups": 1},
    "nemotron_h": {
        "hybrid_override_pattern": "M*",
        **{"mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 16, "n_groups": 2},
    },
    "mamba2": {"state_size": 16, "num_heads": 8, "head_dim": 16, "n_groups": 2},
    "qwen3_next": {**_DELTA, **_EXPERTS, "shared_expert_intermediate_size": 48},
    "qwen3_5_text": _DELTA,
    "olmo_hybrid": {**_DELTA, "linear_num_key_heads": 4},
    # Their states are in caches of classes of their own.
    "minimax": {
        **{"num_local_experts": 4, "num_experts_per_tok": 2},
        "layer_types": ["linear_attention", "full_attention"],
    },
    "xlstm": {"hidden_size": 128, "num_heads": 4, "num_blocks": 2},
    # These go on from states with one token at a time; the first keeps them in its modules.
    "recurrent_gemma": {
        **{"lru_width": 64, "num_hidden_layers": 3, "num_key_value_heads": 1},
        "attention_window_size": 24,
    },
    "mamba": {"state_size": 8},
    "jamba": {
        **{"num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1},
        **{"mamba_d_state": 8, "mamba_dt_rank": 8},
    },
}
"""The same of families some of whose layers keep what all tokens so far have left."""
ONE_BY_ONE = ("recurrent_gemma", "mamba", "jamba")
"""Those of them that go on with one token at a time."""


def model(family: str, *, seed: int = 7, **settings: Any) -> Any:
    """A model of a family, with seeded weights."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(seed)
    own = {**FAMILIES, **RECURRENT}[family]
    config = AutoConfig.for_model(family, **{**_SMALL, **own, **settings})
    return AutoModelForCausalLM.from_config(config).eval()


def with_encoder(kind: str) -> Any:
    """A model that reads text (`t5`) or sound (`whisper`) before it writes, with seeded weights."""
    import torch
    from transformers import (
        T5Config,
        T5ForConditionalGeneration,
        WhisperConfig,
        WhisperForConditionalGeneration,
    )

    torch.manual_seed(7)
    shared = {"vocab_size": VOCABULARY, "d_model": 64, "pad_token_id": 0, "eos_token_id": 257}
    if kind == "t5":
        settings = {"d_kv": 16, "d_ff": 96, "num_layers": 2, "num_decoder_layers": 3}
        more = {"num_heads": 4, "feed_forward_proj": "gated-gelu", "initializer_factor": 4.0}
        config = T5Config(**shared, **settings, **more, decoder_start_token_id=0)
        return T5ForConditionalGeneration(config).eval()
    layers = {f"{part}_layers": 2 for part in ("encoder", "decoder")}
    layers |= {f"{part}_attention_heads": 4 for part in ("encoder", "decoder")}
    layers |= {f"{part}_ffn_dim": 96 for part in ("encoder", "decoder")}
    config = WhisperConfig(
        **shared,
        **layers,
        num_mel_bins=16,
        max_source_positions=30,
        max_target_positions=60,
        bos_token_id=256,
        decoder_start_token_id=256,
        init_std=0.2,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    return WhisperForConditionalGeneration(config).eval()


def save(family: str, folder: Path, **settings: Any) -> Path:
    """A folder as transformers writes it."""
    model(family, **settings).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder
