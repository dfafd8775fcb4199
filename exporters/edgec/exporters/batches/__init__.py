"""A dynamic dimension as programs of fixed sizes, for any framework: chunks and buckets."""

from edgec.exporters.batches.alone import fixed_sizes_alone
from edgec.exporters.batches.fixed import open_dims
from edgec.exporters.batches.fixed_sizes import in_fixed_sizes

__all__ = ["fixed_sizes_alone", "in_fixed_sizes", "open_dims"]
