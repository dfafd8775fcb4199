"""Tokenizer, chat template and sizes of a language model to one attribute of its module.

`runtime/c/text/reading.c` reads it. Where something cannot be written, the attribute says why, so
that an app can; a template alone that cannot leaves the tokenizer.
"""

import base64
import importlib.util
import json
from collections.abc import Callable
from typing import Any

from edgec.runtime.text.facts import TextFacts
from edgec.toolchain.text.characters import Ranges, characters, trimmed
from edgec.toolchain.text.conversation import Conversation, read_template
from edgec.toolchain.text.normal_forms import write_tables
from edgec.toolchain.text.refusal import NotForApps
from edgec.toolchain.text.steps import read_steps
from edgec.toolchain.text.vocabulary import (
    write_added,
    write_decoder,
    write_merges,
    write_model,
    write_tokens,
)
from edgec.toolchain.text.writing import Writer

__all__ = ["REFUSED", "text_form"]

REFUSED = "!"
"""What an attribute begins with that says why there is no form."""

_MAGIC = b"edgectx1"
_RECURRENT = b"edgectx2"
"""The same of a recurrent model, which an older library refuses."""


def text_form(facts: TextFacts, tell: Callable[[str], None] = lambda _: None) -> str:
    """The attribute `edgec.text.form`.

    Args:
        facts: what the module says of its text.
        tell: is told what apps in C and JavaScript cannot do with it, and why.
    """
    try:
        return base64.b64encode(_form(facts, tell)).decode()
    except NotForApps as error:
        reason = f"the model's tokenizer is not for apps: {error}"
    except (KeyError, TypeError, ValueError, IndexError) as error:
        reason = f"the model's tokenizer.json is of a version that is not known: {error!r}"
    tell(f"apps in C and JavaScript get no text from this module: {reason}")
    return f"{REFUSED}{reason}"


def _form(facts: TextFacts, tell: Callable[[str], None]) -> bytes:
    for package in ("tokenizers", "jinja2"):
        if importlib.util.find_spec(package) is None:
            raise NotForApps(f"the module is compiled without the package {package}")
    from tokenizers import Tokenizer

    if facts.source:
        raise NotForApps("the model reads a source first, which only Python gives it")
    native: Any = Tokenizer.from_str(facts.tokenizer)
    tokenizer = json.loads(native.to_str())  # as the package that is here writes it
    steps = read_steps(tokenizer)
    template, refusal = _template(facts)
    if refusal and facts.template:
        tell(
            f"apps in C and JavaScript get no chat from this module, only plain prompts: {refusal}"
        )
    classes = list(steps.classes)

    def number_of(wanted: Ranges) -> int:
        if wanted not in classes:
            classes.append(wanted)
        return classes.index(wanted)

    strips = any(t["lstrip"] or t["rstrip"] for t in tokenizer.get("added_tokens") or ())
    space = number_of(characters(r"\s")) if strips else None
    ends = number_of(trimmed()) if template is not None and any(template.trimmed) else None

    writer = Writer()
    writer.raw(_RECURRENT if facts.recurrent else _MAGIC)
    writer.number(facts.context)
    writer.number(facts.vocabulary)
    writer.numbers(facts.prefill)
    writer.numbers(facts.stop)
    writer.number(sum(map(len, classes)))
    writer.number(len(classes))
    for ranges in classes:
        writer.number(len(ranges))
        writer.ranges(ranges)
    steps.write_patterns(writer)
    write_tables(writer, steps.form)
    steps.write(writer)
    vocabulary = write_tokens(writer, tokenizer, native, by_bytes=steps.by_bytes)
    write_merges(writer, tokenizer["model"], vocabulary, by_bytes=steps.by_bytes)
    write_model(writer, tokenizer["model"], vocabulary, by_bytes=steps.by_bytes)
    write_added(writer, tokenizer, native, space=space)
    write_decoder(writer, tokenizer.get("decoder"), by_bytes=steps.by_bytes)
    writer.text(refusal)
    writer.number(0 if ends is None else ends + 1)
    _write_template(writer, template)
    return writer.data


def _template(facts: TextFacts) -> tuple[Conversation | None, str]:
    """The template, or why there is none."""
    try:
        return read_template(facts.template, facts.special), ""
    except NotForApps as error:
        return None, str(error)


def _write_template(writer: Writer, template: Conversation | None) -> None:
    roles = template.roles if template is not None else ()
    writer.number(len(roles))
    if template is None:
        return
    for role, is_trimmed in zip(roles, template.trimmed, strict=True):
        writer.text(role)
        writer.byte(is_trimmed)
    for before in (None, *range(len(roles))):
        for after in range(len(roles) + 1):
            between = template.glue.get((before, after))
            writer.byte(between is not None)
            if between is not None:
                writer.text(between)
