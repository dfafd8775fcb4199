"""Optional packages: present, or an error with the exact command that installs them."""

import importlib.util

from edgec.runtime.errors import MissingExtra

__all__ = ["need"]


def need(package: str, *, extra: str, why: str) -> None:
    """Make sure that a package can be imported, without importing it.

    Args:
        package: the top-level import name.
        extra: edgec's extra that installs it.
        why: what cannot be done without it, as in "exporting a PyTorch model".

    Raises:
        MissingExtra: it is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise MissingExtra(
            f"{why} needs the package {package}, which is not installed",
            hint=f'pip install "edgec[{extra}]"',
        )
