"""A conversation to one prompt, by the Jinja template that came with the model.

Templates come with models from anywhere, so they run in Jinja's sandbox. What Hugging Face's
`apply_chat_template` gives them beside Jinja's own is here, too.
"""

import datetime
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from edgec.runtime.errors import InputError, ModuleError
from edgec.runtime.text.tokenizer import missing

__all__ = ["render"]

Message = Mapping[str, Any]


def render(
    template: str, messages: Sequence[Message], special: Mapping[str, str], *, answer: bool = True
) -> str:
    """The prompt of a conversation.

    Args:
        template: the model's own.
        messages: `{"role": "user", "content": "…"}`, the oldest first.
        special: what the template calls some tokens, and their text.
        answer: end it where an answer of the model begins.

    Raises:
        MissingExtra: Jinja is not installed.
        ModuleError: the template cannot be read.
        InputError: it does not take these messages.
    """
    compiled = _compiled(template)
    from jinja2 import TemplateError

    try:
        return str(
            compiled.render(messages=list(messages), add_generation_prompt=answer, **special)
        )
    except (TemplateError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"the model's chat template does not take this conversation: {error}",
            hint="let messages of `user` and `assistant` take turns, after at most one of `system`",
        ) from error


@functools.lru_cache(maxsize=4)
def _compiled(template: str) -> Any:
    environment = _environment()
    from jinja2 import TemplateError

    try:
        return environment.from_string(template)
    except TemplateError as error:
        raise ModuleError(
            f"the model's chat template cannot be read: {error}",
            hint="export the model again with a newer tokenizer_config.json, or give whole "
            "prompts instead of messages",
        ) from error


def _environment() -> Any:
    try:
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise missing("jinja2", "making a prompt of a conversation") from None
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _generation()]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _now
    return environment


def _generation() -> type[Any]:
    """`{% generation %}` … `{% endgeneration %}` marks what the model said; it is only said."""
    from jinja2 import nodes
    from jinja2.ext import Extension

    class Generation(Extension):  # type: ignore[misc]
        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    return Generation


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def _refuse(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _now(pattern: str) -> str:
    return datetime.datetime.now().strftime(pattern)
