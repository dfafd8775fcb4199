"""Chat templates for apps: as Jinja renders them, or refused by name."""

import pytest

from edgec.runtime.text.template import render
from edgec.toolchain.text import NotForApps
from edgec.toolchain.text.conversation import Conversation, read_template

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
# In the manner of several families.
MARKED = (
    "{% for m in messages %}{% if loop.first and m.role != 'system' %}"
    "<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HEADED = (
    "{{ bos_token }}{% for m in messages %}<|head|>{{ m['role'] }}<|end|>\n\n"
    "{{ m['content'] | trim }}<|eot|>{% endfor %}"
    "{% if add_generation_prompt %}<|head|>assistant<|end|>\n\n{% endif %}"
)
IN_TURNS = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}"
    "{{ raise_exception('no system here') }}{% endif %}{% for m in messages %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}"
    "<turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}</turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<turn>model\n{% endif %}"
)
IN_BRACKETS = (
    "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}"
    "{% set system = messages[0].content %}{% else %}{% set rest = messages %}{% endif %}"
    "{% for m in rest %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('turns') }}{% endif %}"
    "{% if m.role == 'user' %}{{ bos_token }}[INST] "
    "{% if loop.first and system is defined %}<<SYS>>\n{{ system }}\n<</SYS>>\n\n{% endif %}"
    "{{ m.content }} [/INST]{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}"
)


def _messages(*roles: str) -> list[dict[str, str]]:
    return [{"role": role, "content": f" {role} says {at}\n"} for at, role in enumerate(roles)]


@pytest.mark.parametrize("template", [MARKED, HEADED, IN_TURNS, IN_BRACKETS])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_a_conversation_comes_out_as_jinja_renders_it(template: str, count: int) -> None:
    found = read_template(template, SPECIAL)
    messages = _messages(*(("user", "assistant")[at % 2] for at in range(count)))
    assert found.prompt(messages) == render(template, messages, SPECIAL)


@pytest.mark.parametrize("template", [MARKED, HEADED, IN_BRACKETS])
def test_a_system_message_is_first(template: str) -> None:
    found = read_template(template, SPECIAL)
    messages = _messages("system", "user", "assistant", "user")
    assert found.prompt(messages) == render(template, messages, SPECIAL)


def test_what_a_template_refuses_is_refused() -> None:
    found = read_template(IN_TURNS, SPECIAL)
    assert found.prompt(_messages("assistant", "user")) is None
    assert found.prompt(_messages("user", "user")) is None
    assert found.prompt(_messages("system", "user")) is None
    assert found == Conversation(
        roles=("system", "user", "assistant"),
        trimmed=(False, True, True),
        glue={
            (None, 1): "<s><turn>user\n",
            (1, 2): "</turn>\n<turn>model\n",
            (2, 1): "</turn>\n<turn>user\n",
            (1, 3): "</turn>\n<turn>model\n",
        },
    )


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("", "has no chat template"),
        ("{{ raise_exception('no') }}", "takes none of the conversations"),
        (MARKED.replace("{{ m.content }}", "{{ m.content | upper }}"), "more than put texts"),
        (
            MARKED.replace("{{ m.content }}", "{{ m.content.split('</think>') | last }}"),
            r"behind .* Jinja makes",
        ),
        (MARKED.replace("Be kind.", "{{ messages | length }}"), "more than put texts"),
    ],
)
def test_a_template_that_does_more_is_refused_by_name(template: str, why: str) -> None:
    with pytest.raises(NotForApps, match=why):
        read_template(template, SPECIAL)
