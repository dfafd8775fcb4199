"""edgec.runtime.text: a module that holds a language model to text, token by token.

    from edgec.runtime.text import TextModel

    with TextModel("smol.vmfb") as model:
        for piece in model.chat("What is the capital of France?"):
            print(piece, end="", flush=True)

It needs the packages `tokenizers` and `jinja2` (`pip install "edgec-runtime[text]"`). Names are
loaded when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgec.runtime.text.answer import Answer, Finish, Stats
    from edgec.runtime.text.constraint import Constraint
    from edgec.runtime.text.facts import TextFacts
    from edgec.runtime.text.model import TextModel
    from edgec.runtime.text.sampling import Sampling
    from edgec.runtime.text.sliding import WhenFull

__all__ = [
    "Answer",
    "Constraint",
    "Finish",
    "Sampling",
    "Stats",
    "TextFacts",
    "TextModel",
    "WhenFull",
]

_HOMES = {
    "Answer": "answer",
    "Constraint": "constraint",
    "Finish": "answer",
    "Sampling": "sampling",
    "Stats": "answer",
    "TextFacts": "facts",
    "TextModel": "model",
    "WhenFull": "sliding",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return list(__all__)
