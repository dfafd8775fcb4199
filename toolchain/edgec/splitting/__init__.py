"""A program to modules for several devices of one machine, cut where that is measured to pay."""

from edgec.splitting.making import Split, split

__all__ = ["Split", "split"]
