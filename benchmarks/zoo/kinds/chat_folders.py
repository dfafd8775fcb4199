"""Every language model of `transformers` that writes by itself, small and seeded, as a folder.

What a user of `edgec export hf:FOLDER` has: `config.json`, weights and a tokenizer as
`save_pretrained` writes them. The golden answers are three texts of 64 tokens that transformers
writes greedily with its own cache. Encoders, and decoders that stand behind one, are no such
models, though the library's list of causal ones has them.
"""

import copy
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.byte_words import tokenizer
from benchmarks.zoo.kinds import hugging_face
from benchmarks.zoo.kinds.fitted import fitted
from benchmarks.zoo.kinds.telling import telling
from benchmarks.zoo.kinds.torch_models import declare_torchvision
from benchmarks.zoo.subject import Built, Left

__all__ = ["build", "names"]

_WORDS = 300  # of the tokenizer 258: a token for each byte, and two that begin and end a text
_BEGIN, _END = 256, 257
_MOST = 8_000_000
"""Parameters of one that is fitted."""
_SPREAD = 0.2
"""Of weights, where a configuration says how far they lie apart: scores differ clearly then, and
so do the tokens of a text."""


def names() -> list[str]:
    declare_torchvision()
    from transformers.models.auto import modeling_auto as auto

    causal = set(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    encoders = {*auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES}
    pairs = {*auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES}
    pairs |= {*auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES}
    return sorted(causal - encoders - pairs)


def build(name: str) -> Built:
    """The folder of one; left out where transformers itself does not write with it."""
    declare_torchvision()
    problems = []
    for made in (*(partial(_made, cuts=cuts) for cuts in hugging_face.CUTS), _fitted):
        try:
            config = made(name)
            _writes(_seeded(config))
            model = telling(partial(_seeded, config), spread=_SPREAD)
            folder = Path("folder").resolve()
            model.save_pretrained(folder)
        except Exception as error:  # noqa: BLE001 - a cut that does not fit; another may
            problems.append(hugging_face.shortly(error))
            continue
        tokenizer().save_pretrained(folder)
        return Built(model=f"hf:{folder}")
    raise Left(f"no small {name} that writes: {'; '.join(dict.fromkeys(problems))}")


def _made(name: str, cuts: hugging_face.Cuts) -> Any:
    from transformers import AutoModelForCausalLM

    config = hugging_face.small(name, cuts, AutoModelForCausalLM)
    for part in {id(part): part for part in (config, config.get_text_config())}.values():
        part.vocab_size = _WORDS
        if hasattr(part, "initializer_range"):
            part.initializer_range = _SPREAD
        part.pad_token_id, part.bos_token_id, part.eos_token_id = 0, _BEGIN, _END
    return config


def _fitted(name: str) -> Any:
    """One whose sizes are fitted until it writes, of a family that no cut of names suits."""
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    return fitted(
        CONFIG_MAPPING[name],
        {
            **{"vocab_size": _WORDS, "initializer_range": _SPREAD},
            **{"pad_token_id": 0, "bos_token_id": _BEGIN, "eos_token_id": _END},
        },
        partial(hugging_face.parameters, auto=AutoModelForCausalLM),
        lambda config: _writes(_seeded(config)),
        most=_MOST,
    )


def _seeded(config: Any) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(copy.deepcopy(config)).eval()


def _writes(model: Any) -> None:
    import torch

    given = torch.arange(3, 11)[None]
    model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=4, do_sample=False)
