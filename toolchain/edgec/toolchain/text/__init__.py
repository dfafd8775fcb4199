"""What a language model says of its text, to the small form that `edgert_text` reads in apps."""

from edgec.toolchain.text.form import text_form
from edgec.toolchain.text.refusal import NotForApps

__all__ = ["NotForApps", "text_form"]
