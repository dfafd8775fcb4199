"""Picking the function of a module, and a command line that would call it."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from edgec.runtime import Module
from edgec.runtime.errors import InputError, UsageError
from edgec.runtime.golden import Golden
from edgec.runtime.signature import Dim, Signature, TensorSpec

__all__ = ["choose", "example_command", "example_value"]


def choose(module: Module, name: str | None) -> Signature:
    """The signature asked for; without a name the only one, or the one named main.

    Raises:
        InputError: there is none of that name, or none that can be called.
        UsageError: there are several and none is named.
    """
    signatures: Mapping[str, Signature] = module.signatures
    if name is not None:
        if name in signatures:
            return signatures[name]
        raise InputError(
            module.refused.get(name) or f"{module.path} has no function {name!r}",
            hint=f"it has {', '.join(signatures) or 'none'}",
        )
    if not signatures:
        reason = next(iter(module.refused.values()), "it exports none")
        raise InputError(f"{module.path} has no function that can be called: {reason}")
    if len(signatures) > 1 and "main" not in signatures:
        raise UsageError(
            f"{module.path} has several functions: {', '.join(signatures)}",
            hint="name one with --function",
        )
    return signatures.get("main") or next(iter(signatures.values()))


def example_command(
    verb: str, module: Module, signature: Signature, *, golden: Path | None = None
) -> str:
    """A command that calls the function, on golden answers if there are any: those, or beside it.

    Without them each input is one number all over.
    """
    words = ["edgec", verb, str(module.path)]
    if len(module.signatures) > 1:
        words.append(f"--function={signature.name}")
    golden = golden or golden_beside(module.path)
    if golden is not None:
        words.append(f"--input=@{golden}")
        if verb == "run":
            words.append(f"--expected=@{golden}")
    else:
        words += [f"--input={spec.name}={example_value(spec)}" for spec in signature.inputs]
    return shlex.join(words)


def golden_beside(module: Path) -> Path | None:
    """The golden answers of the program that a module was made of, if they lie beside it."""
    stem = module.name.partition(".")[0]
    for path in (Golden.path_for(module), module.with_name(f"{stem}.golden.npz")):
        if path.exists():
            return path
    return None


def example_value(spec: TensorSpec) -> str:
    """A literal that fits the spec: `1x28x28xf32=0.5`."""
    sizes = (max(1, d.minimum) if isinstance(d, Dim) else d for d in spec.shape)
    typed = "x".join([*map(str, sizes), spec.dtype.value])
    return f"{typed}={0.5 if spec.dtype.is_float else 0}"
