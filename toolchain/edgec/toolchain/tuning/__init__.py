"""A program on its device, compiled in many ways, to the settings that make it fastest there."""

from edgec.toolchain.tuning.profile import Outcome, Profile, Trial
from edgec.toolchain.tuning.settings import Settings

__all__ = ["Outcome", "Profile", "Settings", "Trial"]
