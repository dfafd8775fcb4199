"""A chat template to what stands between two messages, proved by rendering many conversations.

What stands there depends, in nearly all templates, on who speaks in both alone. So a template is
asked, not read: conversations of marks show what it puts between them. Then conversations drawn
at random, of texts that are hard on templates, have to come out as Jinja renders them; a template
for which they do not is refused.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgec.runtime.errors import EdgecError
from edgec.runtime.text.template import render
from edgec.toolchain.text.refusal import NotForApps

__all__ = ["Conversation", "read_template"]

ROLES = ("system", "user", "assistant")
"""Who may speak: user and assistant in turns, before them perhaps the system once."""

_SYSTEM, _USER, _ASSISTANT, _ANSWER = range(4)
_TRIED = (
    (_USER,),
    (_USER, _ASSISTANT, _USER),
    (_SYSTEM, _USER),
    (_SYSTEM, _USER, _ASSISTANT, _USER),
)
_PROOFS = 150
_MOST_TURNS = 4
_SAID = (
    *("", " ", "Hello", "  two \n lines\n", "\t", "{{ x }}{% if y %}", "<b>&amp;</b>", "é🙂\u3000"),
    *("\n\nno\n", "'quoted' \"twice\"", "a\\nb", "None", "<think>\nhm\n</think>\n\nso", "</think>"),
    *("[INST] x [/INST]", "<<SYS>>\ns\n<</SYS>>\n\nq", "<tool_call>\n{}\n</tool_call>", "\u200b x"),
    *("<tool_response>\n1\n</tool_response>", "/no_think", "\x1f unit \x1f"),
)


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """A template for apps.

    Attributes:
        roles: who may speak.
        trimmed: whether white space around what each says is left out.
        glue: what stands between two speakers, by their places in `roles`; before the first it is
            None, and behind the last, where an answer begins, one more than all. Pairs that the
            template does not take are not there.
    """

    roles: tuple[str, ...]
    trimmed: tuple[bool, ...]
    glue: Mapping[tuple[int | None, int], str]

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> str | None:
        """What an app makes of messages; None where it refuses them."""
        before: int | None = None
        parts = []
        for message in (*messages, None):
            here = _ANSWER if message is None else self.roles.index(message["role"])
            between = self.glue.get((before, here))
            if between is None:
                return None
            parts.append(between)
            if message is not None:
                said = message["content"]
                parts.append(said.strip() if self.trimmed[here] else said)
            before = here
        return "".join(parts)


def read_template(template: str, special: Mapping[str, str]) -> Conversation:
    """A template for apps, proved.

    Raises:
        NotForApps: it does more than put texts between messages.
    """
    if not template:
        raise NotForApps("the model has no chat template")
    found = _asked(template, special)
    if (None, _USER) not in found.glue or (_ASSISTANT, _USER) not in found.glue:
        raise NotForApps("its chat template takes none of the conversations that were tried")
    _prove(found, template, special)
    return found


def _rendered(
    template: str, special: Mapping[str, str], messages: Sequence[Mapping[str, str]]
) -> str | None:
    try:
        return render(template, messages, special)
    except EdgecError:
        return None


def _mark(at: int) -> str:
    return f"\ue000{at}\ue001"


def _asked(template: str, special: Mapping[str, str]) -> Conversation:
    """What conversations of marks have between them."""
    glue: dict[tuple[int | None, int], str] = {}
    trimmed = [False] * len(ROLES)
    for spoken in _TRIED:
        messages = [{"role": ROLES[r], "content": _mark(i)} for i, r in enumerate(spoken)]
        text = _rendered(template, special, messages)
        parts = None if text is None else _between(text, len(spoken))
        if parts is None:
            continue
        pairs = zip((None, *spoken), (*spoken, _ANSWER), strict=True)
        for pair, part in zip(pairs, parts, strict=True):
            glue.setdefault(pair, part)
        for at, role in enumerate(spoken):
            trimmed[role] = _is_trimmed(template, special, messages, at)
    return Conversation(roles=ROLES, trimmed=tuple(trimmed), glue=glue)


def _between(text: str, count: int) -> list[str] | None:
    """What stands around marks that are there once each, in order."""
    parts = []
    for at in range(count):
        before, mark, text = text.partition(_mark(at))
        if not mark:
            return None
        parts.append(before)
    return None if "\ue000" in text or any("\ue000" in part for part in parts) else [*parts, text]


def _is_trimmed(
    template: str, special: Mapping[str, str], messages: Sequence[Mapping[str, str]], at: int
) -> bool:
    spaced = [dict(message) for message in messages]
    spaced[at]["content"] = f"\n {_mark(at)} \n"
    text = _rendered(template, special, spaced)
    return text is not None and f"\n {_mark(at)} \n" not in text


def _prove(found: Conversation, template: str, special: Mapping[str, str]) -> None:
    """Raises `NotForApps` where a conversation comes out otherwise."""
    chance = random.Random(20)
    for number in range(_PROOFS):
        spoken = [("user", "assistant")[at % 2] for at in range(2 * (number % _MOST_TURNS) + 1)]
        if (None, _SYSTEM) in found.glue and number % 3:
            spoken.insert(0, "system")
        messages = [{"role": role, "content": chance.choice(_SAID)} for role in spoken]
        theirs = _rendered(template, special, messages)
        if found.prompt(messages) != theirs:
            said = "refuses it" if theirs is None else f"makes {theirs[-60:]!r} of its end"
            raise NotForApps(
                f"its chat template does more than put texts between messages: of {messages[-1]} "
                f"behind {', '.join(spoken[:-1]) or 'nothing'} Jinja {said}"
            )
