"""Why norms are left to the compiler on Vulkan.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from edgec.toolchain.kernels.spec import Answers, Declined
from edgec.toolchain.match.norm import NotANorm, find_norms, longest

__all__ = ["answer_norm"]


def answer_norm(op: Any, answers: Answers) -> None:
    """Keep why what ends after `op`, a root, becomes no kernel, if it is a norm."""
    found = find_norms(op)
    if found is None or isinstance(found, NotANorm):
        return
    norm = longest(found)
    reason = Declined(reason="no kernel for norms on this target")
    answers.record(op, str(norm), norm.work, reason, norm.operations)
