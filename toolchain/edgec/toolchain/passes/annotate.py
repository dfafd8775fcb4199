"""What edgec knows of a module is written on its functions, as reflection attributes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgec.runtime.module import (
    CHECK_ATTRIBUTE,
    CHECK_WIDTH,
    GET_STATE,
    GOLDEN_ATTRIBUTE,
    IDENTITY_ATTRIBUTE,
    MODULE_ATTRIBUTE,
    SET_STATE,
    SIGNATURE_ATTRIBUTE,
    TEXT_ATTRIBUTE,
    TEXT_FORM_ATTRIBUTE,
)
from edgec.runtime.signature import Signature
from edgec.toolchain.ir.functions import find_function, functions
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation
from edgec.toolchain.precision import Precision
from edgec.toolchain.text import text_form

__all__ = ["Annotate"]

_UNCHECKED = "unchecked"
_MOST_LEFT = 6
"""Kinds of operations left to the compiler that a module tells of; about 150 bytes each."""


@dataclass(frozen=True, kw_only=True)
class Annotate:
    """Signatures and facts become `iree.reflection`; only the signatures' functions stay public.

    A module file holds tensors without names, nesting, unsigned types or bounds, and nothing on
    the target or the CPU features its code needs. The compiler copies the reflection dictionary of
    each public function into the file, where any reader finds it, so the facts cannot get lost as
    a file beside it would. `edgec.check` has a fixed width because the answer is known only after
    the file is written. Golden calls (`edgec.golden`) ride along where they are asked for, and
    with a language model its tokenizer and chat template, for Python (`edgec.text`) and in a small
    form for apps (`edgec.text.form`), and which model it is (`edgec.text.identity`), without which
    what one has read would be taken by another of the same shapes.

    Measured: reflection attributes of `func.func` survive on every target, and on the torch road
    with `--iree-torch-emit-async-entry-points=false`; about 500 bytes a signature.
    """

    signatures: tuple[Signature, ...]
    facts: Mapping[str, Any]
    internal: tuple[str, ...] = ()
    golden: str = ""
    text: str = ""
    text_form: str = ""
    identity: str = ""

    name = "annotate"
    purpose = Purpose.MODULE

    @classmethod
    def plan(cls, situation: Situation) -> "Annotate | None":
        """For every program."""
        text = situation.info.text
        halves = "f16" if situation.precision is Precision.F16 else ""
        return cls(
            golden=situation.golden.get(situation.declared_precision or halves, ""),
            signatures=tuple(function.signature for function in situation.info.functions),
            facts={
                **situation.facts,
                "kernels": None
                if situation.kernels is None
                else situation.kernels.shortened(_MOST_LEFT).to_json(),
            },
            text="" if text is None else json.dumps(text.to_json()),
            text_form="" if text is None else text_form(text, situation.remarks.append),
            identity=situation.identity,
            internal=(GET_STATE, SET_STATE) if situation.info.states else (),
        )

    def run(self, module: Any) -> int:
        """Annotate `module` (an `ir.Module`) in place; how many functions say what they are.

        Raises:
            ProgramError: a signature has no function.
        """
        from iree.compiler import ir

        public = {signature.name for signature in self.signatures} | set(self.internal)
        with module.context:
            for name, function in functions(module).items():
                if name not in public:
                    function.attributes["sym_visibility"] = ir.StringAttr.get("private")
                elif "sym_visibility" in function.attributes:
                    del function.attributes["sym_visibility"]
            for index, signature in enumerate(self.signatures):
                entries = {SIGNATURE_ATTRIBUTE: json.dumps(signature.to_json())}
                if index == 0:
                    entries[MODULE_ATTRIBUTE] = json.dumps(self.facts)
                    entries[CHECK_ATTRIBUTE] = _UNCHECKED.ljust(CHECK_WIDTH)
                    if self.golden:
                        entries[GOLDEN_ATTRIBUTE] = self.golden
                    if self.text:
                        entries[TEXT_ATTRIBUTE] = self.text
                        entries[TEXT_FORM_ATTRIBUTE] = self.text_form
                    if self.identity:
                        entries[IDENTITY_ATTRIBUTE] = self.identity
                function = find_function(module, signature.name)
                function.attributes["iree.reflection"] = ir.DictAttr.get(
                    {key: ir.StringAttr.get(text) for key, text in entries.items()}
                )
        return len(self.signatures)
