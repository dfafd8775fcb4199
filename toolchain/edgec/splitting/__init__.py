"""A program to modules for several devices of one machine, cut where that is measured to pay."""

from edgec.splitting.making import Split, split
from edgec.splitting.streaming import Streamed, TriedStream, split_for_stream

__all__ = ["Split", "Streamed", "TriedStream", "split", "split_for_stream"]
