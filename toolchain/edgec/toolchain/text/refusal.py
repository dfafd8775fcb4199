"""Why a tokenizer or a chat template cannot be written in the form for apps."""

__all__ = ["NotForApps"]


class NotForApps(Exception):
    """Something of a model's text that `edgert_text` does not do; the sentence says what."""
