"""What a pass is there for, which says who may leave it out."""

from enum import Enum

__all__ = ["Purpose"]


class Purpose(Enum):
    """Why a pass exists."""

    MODULE = "a module"
    """Without it there is no module; it cannot be left out."""

    RIGHT = "right answers"
    """Without it programs are refused or wrong; a user may leave it out, tuning never does."""

    SPEED = "speed"
    """It changes how fast a module is, not what it answers; tuning tries to do without it."""
