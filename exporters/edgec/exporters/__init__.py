"""A framework's model to a Program: `export` for objects, `export_source` for names and files."""

from edgec.exporters.bundle import Bundle, Entry
from edgec.exporters.export_model import export, export_source

__all__ = ["Bundle", "Entry", "export", "export_source"]
