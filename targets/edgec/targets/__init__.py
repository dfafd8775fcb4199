"""What a device is: names to facts, one TOML file a target."""

from edgec.targets.catalogue import PRESETS, catalogue, expand, find
from edgec.targets.target import Backend, Cpu, Gpu, Limits, Note, Target

__all__ = [
    "PRESETS",
    "Backend",
    "Cpu",
    "Gpu",
    "Limits",
    "Note",
    "Target",
    "catalogue",
    "expand",
    "find",
]
