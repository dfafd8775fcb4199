"""edgec.exporters."""
