"""edgec.cli."""
