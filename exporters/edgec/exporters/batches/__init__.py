"""A dynamic batch as a loop over a fixed number of examples, for programs of any framework."""

from edgec.exporters.batches.alone import by_parts_alone
from edgec.exporters.batches.chunks import in_chunks

__all__ = ["by_parts_alone", "in_chunks"]
