"""A tokenizer that has a token for each byte, and two that begin and end what somebody says."""

from typing import Any

__all__ = ["TEMPLATE", "tokenizer"]

TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
"""Of a chat, as Jinja has it."""


def tokenizer() -> Any:
    """Every byte is a token; two more begin and end what somebody says."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE({letter: at for at, letter in enumerate(alphabet)}, []))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=plain, bos_token="<|start|>", eos_token="<|end|>"
    )
    made.chat_template = TEMPLATE
    return made
