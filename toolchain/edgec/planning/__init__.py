"""A model and devices that are alike to the way of cutting it that is measured to be fastest."""

from edgec.planning.making import Planned, Tried, plan

__all__ = ["Planned", "Tried", "plan"]
