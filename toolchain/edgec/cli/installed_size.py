"""An installed distribution to what it and all that it needs weigh on this disk."""

from collections.abc import Iterator
from importlib import metadata

__all__ = ["installed_sizes"]


def installed_sizes(name: str) -> dict[str, int]:
    """Bytes by distribution, as `pip` recorded them: the named one and what it requires, no extras.

    What is not installed, or was installed without a record, is left out.
    """
    from packaging.requirements import Requirement

    found: dict[str, int] = {}
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        key = _key(waiting.pop())
        if key in seen:
            continue
        seen.add(key)
        try:
            distribution = metadata.distribution(key)
        except metadata.PackageNotFoundError:
            continue
        found[key] = sum(_bytes(distribution))
        needed = (Requirement(text) for text in distribution.requires or ())
        waiting += [
            requirement.name
            for requirement in needed
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ]
    return found


def _bytes(distribution: metadata.Distribution) -> Iterator[int]:
    for file in distribution.files or ():
        if file.size is not None:
            yield file.size


def _key(name: str) -> str:
    """One spelling of a distribution's name."""
    return name.lower().replace("_", "-").replace(".", "-")
