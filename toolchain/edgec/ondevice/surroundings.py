"""What a device says of its state while it is measured: CPU governors and temperatures.

Both are files of Linux's `/sys`; many devices keep some of them from the shell's user, and an
emulated machine has its host's.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["SCRIPT", "Surroundings", "Temperature", "read_surroundings"]

SCRIPT = (
    "for f in /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; do "
    'if [ -r "$f" ]; then echo "governor $(cat "$f")"; fi; done; '
    "for z in /sys/class/thermal/thermal_zone*; do "
    'if [ -r "$z/temp" ]; then echo "zone $(cat "$z/temp" 2>/dev/null) $(cat "$z/type")"; fi; '
    "done; true"
)
"""Prints a line for each CPU's governor and each thermal zone that may be read."""

# A zone's name says what it measures; these are the processor's own.
_PROCESSOR = re.compile(r"cpu|soc|pkg|core|tsens|big|little", re.IGNORECASE)
_PLAUSIBLE = (-40.0, 150.0)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """At one moment: the governors of the CPUs, each once, and zones with degrees Celsius."""

    governors: tuple[str, ...]
    zones: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Temperature:
    """One thermal zone before and after, in degrees Celsius."""

    zone: str
    before: float
    after: float

    @classmethod
    def between(cls, before: Surroundings, after: Surroundings) -> "Temperature | None":
        """Of the processor's zone that is hottest in the end, or else of any; None without one."""
        both = [zone for zone in after.zones if zone in before.zones]
        zones = [zone for zone in both if _PROCESSOR.search(zone)] or both
        if not zones:
            return None
        zone = max(zones, key=lambda name: after.zones[name])
        return cls(zone=zone, before=before.zones[zone], after=after.zones[zone])

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"zone": self.zone, "before": self.before, "after": self.after}


def read_surroundings(text: str) -> Surroundings:
    """What `SCRIPT` printed; values that make no sense are left out."""
    governors: dict[str, None] = {}
    zones: dict[str, float] = {}
    for line in text.splitlines():
        kind, _, rest = line.strip().partition(" ")
        if kind == "governor" and rest:
            governors[rest] = None
        elif kind == "zone":
            number, _, zone = rest.partition(" ")
            degrees = _degrees(number)
            if zone and degrees is not None:
                zones[zone] = max(degrees, zones.get(zone, degrees))
    return Surroundings(governors=tuple(governors), zones=zones)


def _degrees(text: str) -> float | None:
    """Thousandths of a degree as Linux has them; some makers write whole degrees."""
    if not re.fullmatch(r"-?\d{1,9}", text):
        return None
    value = int(text)
    degrees = value / 1000 if abs(value) >= 1000 else float(value)
    low, high = _PLAUSIBLE
    return degrees if low < degrees < high and degrees != 0 else None
