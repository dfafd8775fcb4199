"""A dynamic dimension as programs of fixed sizes, for any framework: chunks and buckets."""

from edgec.exporters.batches.alone import by_parts_alone
from edgec.exporters.batches.fixed_sizes import in_fixed_sizes

__all__ = ["by_parts_alone", "in_fixed_sizes"]
