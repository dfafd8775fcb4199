"""Golden text against transformers' own, one question at a time."""

import pytest
import torch

from edgec.exporters.from_transformers import golden_text as module
from edgec.exporters.from_transformers.export import facts_of
from edgec.runtime.text.facts import DECODE, RESET
from tests.exporters import language_models as tiny

CONTEXT = 160


def answers(golden) -> list[list[int]]:
    """The tokens that each text's calls of `decode` choose."""
    found: list[list[int]] = []
    for call in golden.calls:
        if call.signature == RESET:
            found.append([])
        elif call.signature == DECODE:
            found[-1].append(int(call.outputs[0]))
    return found


def alone(model, tokenizer, facts) -> list[list[int]]:
    """What transformers writes of each question, after the first token."""
    found = []
    for question in module.QUESTIONS:
        prompt = module._tokens(tokenizer, facts, question)[: CONTEXT - module.LENGTH]
        count = min(module.LENGTH, CONTEXT - len(prompt))
        with torch.no_grad():
            whole = model.generate(
                torch.tensor([prompt]),
                max_new_tokens=count,
                do_sample=False,
                eos_token_id=list(facts.stop),
                pad_token_id=facts.stop[0],
            )
        found.append(whole[0, len(prompt) + 1 :].tolist())
    return found


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_answers_are_those_that_transformers_writes_of_each_question_alone(family, monkeypatch):
    model, tokenizer = tiny.model(family), tiny.tokenizer()
    facts = facts_of(model, tokenizer, context=CONTEXT, prefill=(16,))
    right = alone(model, tokenizer, facts)
    found = answers(module.golden_text(model, tokenizer, facts))
    assert [each[: len(one)] for each, one in zip(found, right, strict=True)] == right

    own, prompts = module._generated, []

    def spoiled(model, facts, given):
        """As if what stands beside the second text had moved it."""
        prompts.append(len(given))
        written = own(model, facts, given)
        if len(given) > 1:
            written[1][-3] = (written[1][-3] + 1) % facts.vocabulary
        return written

    monkeypatch.setattr(module, "_generated", spoiled)
    assert answers(module.golden_text(model, tokenizer, facts)) == found
    assert prompts == [3, 1]
