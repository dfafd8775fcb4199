"""A name to a `Target`: the catalogue of target files, aliases and presets."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources

from edgec.runtime.cpu import host_features
from edgec.runtime.errors import TargetError
from edgec.targets.target import Target

__all__ = ["PRESETS", "catalogue", "expand", "find", "for_capability"]

PRESETS: Mapping[str, tuple[str, ...]] = {
    "android": ("cpu:arm64", "cpu:arm64-v8.2", "vulkan:android"),
    "ios": ("cpu:ios-arm64", "metal:ios"),
    "web": ("wasm",),
}
"""Names that stand for several targets: what an application on that platform ships."""


@cache
def catalogue() -> tuple[Target, ...]:
    """Every target edgec knows, by driver and name."""
    folder = resources.files("edgec.targets") / "data"
    texts = (entry.read_text("utf-8") for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return tuple(sorted((Target.from_toml(text) for text in texts), key=lambda t: t.name))


@cache
def _by_name() -> Mapping[str, Target]:
    names: dict[str, Target] = {}
    for target in catalogue():
        for name in (target.name, *target.aliases):
            if name in names:
                raise TargetError(f"two target files claim the name {name}")
            names[name] = target
    return names


def find(name: str) -> Target:
    """The target of that name or alias. `cpu:host` comes back with this machine's features.

    Raises:
        TargetError: there is none, or the name is a preset for several; the hint names near ones.
    """
    wanted = name.strip().lower()
    target = _by_name().get(wanted)
    if target is not None:
        if target.cpu is not None and target.cpu.cpu == "host":
            return replace(target, cpu=replace(target.cpu, requires=tuple(sorted(host_features()))))
        return target
    if wanted in PRESETS:
        raise TargetError(
            f"{name} stands for several targets: {', '.join(PRESETS[wanted])}",
            hint="name one of them here",
        )
    raise TargetError(f"there is no target {name!r}", hint=_near(wanted))


def for_capability(capability: int) -> Target:
    """The target for an NVIDIA GPU of a compute capability (90 for 9.0).

    That is the one of the highest capability that the GPU runs code of: kernels for one capability
    alone (`sm_90a`) are for GPUs of just that.

    Raises:
        TargetError: edgec has none for GPUs as old as that.
    """
    fitting = [
        (target.gpu.capability, target)
        for target in catalogue()
        if target.driver == "cuda"
        and target.gpu is not None
        and target.gpu.capability <= capability
        and not (target.gpu.kernels.endswith("a") and target.gpu.capability != capability)
    ]
    if not fitting:
        raise TargetError(
            f"there is no target for GPUs of compute capability {capability / 10}",
            hint="`edgec targets` lists what there is",
        )
    return max(fitting, key=lambda each: each[0])[1]


def expand(names: Sequence[str]) -> tuple[Target, ...]:
    """Targets for names and presets, in order, each once.

    Raises:
        TargetError: a name is unknown.
    """
    found: dict[str, Target] = {}
    for name in names:
        for member in PRESETS.get(name.strip().lower(), (name,)):
            target = find(member)
            found.setdefault(target.name, target)
    return tuple(found.values())


def _near(wanted: str) -> str:
    names = sorted([*_by_name(), *PRESETS])
    profiles = {name.partition(":")[2] or name: name for name in names}
    near = difflib.get_close_matches(wanted, names, n=4, cutoff=0.6)
    near += [
        profiles[profile]
        for profile in difflib.get_close_matches(
            wanted.partition(":")[2] or wanted, profiles, n=3, cutoff=0.6
        )
    ]
    words = [word for word in re.split(r"[^a-z0-9]+", wanted) if len(word) > 2]
    near += [name for name in names if any(word in name for word in words)]
    unique = list(dict.fromkeys(near))[:4]
    if unique:
        return f"did you mean {' or '.join(unique)}? `edgec targets` lists them all"
    return "`edgec targets` lists them all"
