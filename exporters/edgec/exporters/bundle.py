"""What a user asks to export: one function with example inputs (`Entry`), or several (`Bundle`)."""

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from edgec.runtime.errors import UsageError

__all__ = ["Bundle", "Entry"]


@dataclass(frozen=True)
class Entry:
    """One callable of the program: a function or model, and inputs to run it on once.

    Attributes:
        function: a function or model of a framework.
        inputs: example positional arguments, nested as the function takes them.
        kwargs: example keyword arguments.
        name: the signature's name in the program.
        reads_state: the function is `fn(state, *inputs) -> outputs` over the bundle's state.
        updates_state: the function is `fn(state, *inputs) -> (new_state, outputs)`.
        dynamic: dynamic dimensions in the framework's own form (`torch.export`'s
            `dynamic_shapes`), used instead of edgec's own.
        settled: how far its golden answers are settled is worked out, by more of them; not so for
            a function whose answers nobody asks for.
    """

    function: Any
    inputs: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None
    name: str = "main"
    _: KW_ONLY
    reads_state: bool = False
    updates_state: bool = False
    dynamic: Any = None
    settled: bool = True

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.name):
            raise UsageError(
                f"{self.name!r} cannot name a signature",
                hint="use letters, digits and underscores",
            )
        if self.name.startswith("edgec_"):
            raise UsageError(
                f"{self.name!r} cannot name a signature: edgec_ is for edgec's own functions",
                hint="choose another name",
            )
        if not isinstance(self.inputs, tuple):
            object.__setattr__(
                self,
                "inputs",
                tuple(self.inputs) if isinstance(self.inputs, list) else (self.inputs,),
            )

    @property
    def has_state(self) -> bool:
        """Whether the first argument of the function is the bundle's state."""
        return self.reads_state or self.updates_state


@dataclass(frozen=True)
class Bundle:
    """Several entries in one program, with the state they share.

    Attributes:
        entries: the entry points, with distinct names.
        state: the initial state (any nesting of arrays) that entries with `reads_state` or
            `updates_state` take as their first argument; it lives on the device between calls.
    """

    entries: tuple[Entry, ...]
    state: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", tuple(self.entries))
        names = [entry.name for entry in self.entries]
        if not names:
            raise UsageError("a bundle without entries is no program", hint="give it an Entry")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UsageError(
                f"two entries are named {twice[0]}", hint="give each Entry its own name="
            )
        stateful = next((e for e in self.entries if e.has_state), None)
        if stateful is not None and self.state is None:
            raise UsageError(
                f"the entry {stateful.name} takes a state, and the bundle has none",
                hint="write Bundle(entries, state=INITIAL_STATE)",
            )
