"""A program on its device, compiled in many ways, to the settings that make it fastest there."""

from edgec.toolchain.settings import Settings
from edgec.toolchain.tuning.profile import Outcome, Profile, Trial

__all__ = ["Outcome", "Profile", "Settings", "Trial"]
