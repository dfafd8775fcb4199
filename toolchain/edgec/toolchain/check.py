"""A module proves itself: its golden calls run on its own device, in a child, and are compared."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgec.runtime.golden import Golden
from edgec.targets import Target

__all__ = ["check_module", "run_check"]


def check_module(
    module: Path,
    golden: Golden,
    target: Target,
    *,
    weights: Path | None,
    known: Mapping[str, Any],
    timeout: float,
) -> tuple[str, str]:
    """Not here yet."""
    return "unchecked: edgec's runtime cannot check yet", ""


def run_check(arguments: Mapping[str, Any]) -> Any:
    """Not here yet."""
    raise NotImplementedError
