"""What a device is: names to facts, one TOML file a target."""

from edgec.targets.catalogue import PRESETS, catalogue, expand, find, for_capability
from edgec.targets.target import (
    Backend,
    ByteProducts,
    Cache,
    Cpu,
    Gpu,
    Limits,
    Note,
    Target,
    Vectors,
)

__all__ = [
    "PRESETS",
    "Backend",
    "ByteProducts",
    "Cache",
    "Cpu",
    "Gpu",
    "Limits",
    "Note",
    "Target",
    "Vectors",
    "catalogue",
    "expand",
    "find",
    "for_capability",
]
